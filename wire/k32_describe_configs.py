"""DescribeConfigs, API key 32, versions 1-4: the settings of topics and brokers.

Served for topics; sent to a broker of the ZooKeeper era, too (Kafka has answered version 1 since 1.1).
3   config_type, documentation      4   flexible
Each resource has its own error.
"""

from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Final

import msgspec

from fencepost.controller.errors import ApiError, InvalidRequest
from fencepost.controller.topics import ConfigSynonym, TopicConfig
from fencepost.wire.cursor import Writer
from fencepost.wire.dispatch import BROKER, CONTROLLER, Api
from fencepost.wire.errors import message_of, raise_if_elsewhere
from fencepost.wire.request_limits import TOPIC_LISTS
from fencepost.wire.schema import ANSWER_ELEMENTS_MAX, LOOKED_UP_ELEMENTS_MAX, Buffer, Message

RESOURCES_MAX: Final = 1_000  # of one request: each is answered with a dozen settings
TOPIC_RESOURCE: Final = 2
BROKER_RESOURCE: Final = 4


@dataclass(frozen=True, slots=True)
class ConfigResource:
    """A topic or broker, by name or by the number of its id. ``keys`` None: every setting."""

    resource_type: int
    name: str
    keys: tuple[str, ...] | None = None


@dataclass(frozen=True, slots=True)
class DescribeConfigs:
    """A request for the settings of some resources (API key 32)."""

    resources: tuple[ConfigResource, ...]
    with_synonyms: bool = False


def require_count(request: DescribeConfigs) -> None:
    """Raises InvalidRequest if the request has too many resources."""
    if len(request.resources) > RESOURCES_MAX:
        raise InvalidRequest(f"{len(request.resources)} resources; at most {RESOURCES_MAX} at once")


@dataclass(frozen=True, slots=True)
class ConfigsDescribed:
    """What one resource has, or the number of the error in its place."""

    resource_type: int
    name: str
    configs: tuple[TopicConfig, ...] = ()
    error_code: int = 0
    error_message: str | None = None


@dataclass(frozen=True, slots=True)
class DescribeConfigsAnswer:
    """One for each resource, in the order of the request."""

    results: tuple[ConfigsDescribed, ...]

    def for_request(self, request: DescribeConfigs) -> "DescribeConfigsAnswer":
        """With synonyms only if the request wants them."""
        if request.with_synonyms:
            return self
        return DescribeConfigsAnswer(
            tuple(replace(each, configs=tuple(map(_without_synonyms, each.configs))) for each in self.results)
        )


@lru_cache(maxsize=1_000)  # a thousand topics have mostly the same ones
def _without_synonyms(config: TopicConfig) -> TopicConfig:
    return msgspec.structs.replace(config, synonyms=()) if config.synonyms else config


_REQUEST: Final = Message(32, "request", elements_max=LOOKED_UP_ELEMENTS_MAX)
_RESPONSE: Final = Message(32, "response", elements_max=ANSWER_ELEMENTS_MAX)
_FLEXIBLE_FROM: Final = 4
_TYPE_FROM: Final = 3  # the type and the documentation of a setting


def _decode_request(version: int, body: Buffer) -> DescribeConfigs:
    message = _REQUEST.decode(version, body)
    return DescribeConfigs(
        tuple(
            ConfigResource(each["resource_type"], each["resource_name"], each["configuration_keys"])
            for each in message["resources"]
        ),
        message["include_synonyms"],
    )


def _encode_request(version: int, request: DescribeConfigs) -> bytes:
    resources = tuple(
        {
            "resource_type": each.resource_type,
            "resource_name": each.name,
            "configuration_keys": each.keys,
        }
        for each in request.resources
    )
    return _REQUEST.encode(version, {"resources": resources, "include_synonyms": request.with_synonyms})


def _encode_response(version: int, answer: DescribeConfigsAnswer, throttle_ms: int) -> bytes:
    """By hand, each different setting once: a thousand topics have mostly the same ones."""
    writer = Writer(flexible=version >= _FLEXIBLE_FROM)
    writer.int32(throttle_ms)
    writer.count(len(answer.results))
    encoded: dict[TopicConfig, bytes] = {}
    for each in answer.results:
        writer.int16(each.error_code)
        writer.string(each.error_message)
        writer.int8(each.resource_type)
        writer.string(each.name)
        writer.count(len(each.configs))
        for config in each.configs:
            row = encoded.get(config)
            if row is None:
                row = encoded[config] = _encode_config(version, config)
            writer.parts.append(row)
        writer.no_tags()
    writer.no_tags()
    return writer.message()


def _encode_config(version: int, config: TopicConfig) -> bytes:
    writer = Writer(flexible=version >= _FLEXIBLE_FROM)
    writer.string(config.name)
    writer.string(config.value)
    writer.int8(config.read_only)
    writer.int8(config.source)
    writer.int8(config.sensitive)
    writer.count(len(config.synonyms))
    for each in config.synonyms:
        writer.string(each.name)
        writer.string(each.value)
        writer.int8(each.source)
        writer.no_tags()
    if version >= _TYPE_FROM:
        writer.int8(config.kind)
        writer.string(None)  # without documentation
    writer.no_tags()
    return writer.message()


def _refusal(version: int, request: DescribeConfigs | None, error: ApiError, throttle_ms: int) -> bytes:
    requested = request.resources if request is not None else ()
    results = tuple(
        ConfigsDescribed(each.resource_type, each.name, (), error.code, message_of(error))
        for each in requested
    )
    return _encode_response(version, DescribeConfigsAnswer(results), throttle_ms)


def _decode_response(version: int, body: Buffer) -> DescribeConfigsAnswer:
    rows = _RESPONSE.decode(version, body)["results"]
    raise_if_elsewhere(each["error_code"] for each in rows)
    return DescribeConfigsAnswer(
        tuple(
            ConfigsDescribed(
                each["resource_type"],
                each["resource_name"],
                tuple(
                    TopicConfig(
                        config["name"],
                        config["value"],
                        config["config_source"],
                        config["read_only"],
                        config["is_sensitive"],
                        tuple(
                            ConfigSynonym(each["name"], each["value"], each["source"])
                            for each in config["synonyms"]
                        ),
                        config.get("config_type", 0),
                    )
                    for config in each["configs"]
                ),
                each["error_code"],
                each["error_message"],
            )
            for each in rows
        )
    )


DESCRIBE_CONFIGS: Final[Api[DescribeConfigs, DescribeConfigsAnswer]] = Api(
    key=32,
    name="DescribeConfigs",
    versions=range(1, 5),
    flexible_from=_FLEXIBLE_FROM,
    listeners=(BROKER, CONTROLLER),
    request_bytes_max=TOPIC_LISTS,  # 1,000 resources with the names of settings
    decode_request=_decode_request,
    encode_response=_encode_response,
    refusal=_refusal,
    encode_request=_encode_request,
    decode_response=_decode_response,
)
