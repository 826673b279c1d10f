"""ListConfigResources, API key 74, versions 0-1: what has settings.

0   ListClientMetricsResources: of clients' metrics alone, of which there are none here
1   the types of resources that are wanted; none of them: all types
"""

from dataclasses import dataclass
from typing import Final

from fencepost.controller.errors import ApiError
from fencepost.wire.dispatch import BROKER, Api
from fencepost.wire.errors import raise_for
from fencepost.wire.request_limits import SMALL
from fencepost.wire.schema import ANSWER_ELEMENTS_MAX, Buffer, Message

CLIENT_METRICS: Final = 16


@dataclass(frozen=True, slots=True)
class ListConfigResources:
    """API key 74. ``types``: numbers of Kafka's resource types; none of them: all."""

    types: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class ListedResource:
    """One resource."""

    name: str
    resource_type: int = CLIENT_METRICS


@dataclass(frozen=True, slots=True)
class ListConfigResourcesAnswer:
    """The resources, in the order of the types that are wanted."""

    resources: tuple[ListedResource, ...]


_REQUEST: Final = Message(74, "request", elements_max=1_000)
_RESPONSE: Final = Message(74, "response", elements_max=ANSWER_ELEMENTS_MAX)


def _decode_request(version: int, body: Buffer) -> ListConfigResources:
    message = _REQUEST.decode(version, body)
    return ListConfigResources(message.get("resource_types", (CLIENT_METRICS,)))


def _encode_request(version: int, request: ListConfigResources) -> bytes:
    return _REQUEST.encode(version, {"resource_types": request.types})


def _encode_response(version: int, answer: ListConfigResourcesAnswer, throttle_ms: int) -> bytes:
    return _encode(version, answer, throttle_ms, 0)


def _encode(version: int, answer: ListConfigResourcesAnswer, throttle_ms: int, code: int) -> bytes:
    rows = tuple(
        {"resource_name": each.name, "resource_type": each.resource_type} for each in answer.resources
    )
    fields = {"throttle_time_ms": throttle_ms, "error_code": code}
    return _RESPONSE.encode(version, {**fields, "config_resources": rows})


def _refusal(version: int, request: ListConfigResources | None, error: ApiError, throttle_ms: int) -> bytes:
    return _encode(version, ListConfigResourcesAnswer(()), throttle_ms, error.code)


def _decode_response(version: int, body: Buffer) -> ListConfigResourcesAnswer:
    message = _RESPONSE.decode(version, body)
    raise_for(message["error_code"])
    return ListConfigResourcesAnswer(
        tuple(
            ListedResource(each["resource_name"], each.get("resource_type", CLIENT_METRICS))
            for each in message["config_resources"]
        )
    )


LIST_CONFIG_RESOURCES: Final[Api[ListConfigResources, ListConfigResourcesAnswer]] = Api(
    key=74,
    name="ListConfigResources",
    versions=range(2),
    flexible_from=0,
    listeners=(BROKER,),
    request_bytes_max=SMALL,
    decode_request=_decode_request,
    encode_response=_encode_response,
    refusal=_refusal,
    encode_request=_encode_request,
    decode_response=_decode_response,
)
