"""DescribeConfigs, API key 32, versions 1-4: one setting of one broker. We ask it, and serve it to nobody.

Kafka has answered version 1 since 1.1. Older brokers, which know only version 0, cannot be asked.
4   flexible
"""

from dataclasses import dataclass
from typing import Final

from controller.errors import ApiError
from records.types import BrokerId
from wire.dispatch import Api
from wire.errors import message_of, raise_for
from wire.schema import Buffer, Message

BROKER_RESOURCE: Final = 4

_REQUEST: Final = Message(32, "request")
_RESPONSE: Final = Message(32, "response")


@dataclass(frozen=True, slots=True)
class DescribeBrokerConfig:
    """API key 32, narrowed to what is asked here."""

    broker_id: BrokerId
    name: str


def _decode_request(version: int, body: Buffer) -> DescribeBrokerConfig:
    (resource,) = _REQUEST.decode(version, body)["resources"]
    (name,) = resource["configuration_keys"]
    return DescribeBrokerConfig(BrokerId(int(resource["resource_name"])), name)


def _encode_request(version: int, request: DescribeBrokerConfig) -> bytes:
    resource = {
        "resource_type": BROKER_RESOURCE,
        "resource_name": str(request.broker_id),
        "configuration_keys": (request.name,),
    }
    return _REQUEST.encode(version, {"resources": (resource,)})


def _encode_response(version: int, response: str | None, throttle_ms: int) -> bytes:
    config = {
        "name": "",
        "value": response,
        "read_only": True,
        "is_sensitive": False,
        "synonyms": (),
        "documentation": None,
    }
    return _answer(version, throttle_ms, 0, None, (config,))


def _refusal(version: int, request: DescribeBrokerConfig | None, error: ApiError, throttle_ms: int) -> bytes:
    return _answer(version, throttle_ms, error.code, message_of(error), ())


def _answer(
    version: int, throttle_ms: int, code: int, message: str | None, configs: tuple[object, ...]
) -> bytes:
    result = {
        "error_code": code,
        "error_message": message,
        "resource_type": BROKER_RESOURCE,
        "resource_name": "",
        "configs": configs,
    }
    return _RESPONSE.encode(version, {"throttle_time_ms": throttle_ms, "results": (result,)})


def _decode_response(version: int, body: Buffer) -> str | None:
    """The value; None if the broker does not tell or does not know it."""
    for result in _RESPONSE.decode(version, body)["results"]:
        raise_for(result["error_code"], result["error_message"])
        for config in result["configs"]:
            value: str | None = config["value"]
            return value
    return None


DESCRIBE_CONFIGS: Final[Api[DescribeBrokerConfig, str | None]] = Api(
    key=32,
    name="DescribeConfigs",
    versions=range(1, 5),
    flexible_from=4,
    decode_request=_decode_request,
    encode_response=_encode_response,
    refusal=_refusal,
    encode_request=_encode_request,
    decode_response=_decode_response,
)
