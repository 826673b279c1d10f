"""FindCoordinator, API key 10, versions 0-6: which broker coordinates a group or a transactional id.

0   one key, always a group
1   key_type, throttle_time, error_message
3   flexible
4   many keys in one request, an error for each (KIP-699)
5   may be answered with TRANSACTION_ABORTABLE, 6 knows share groups (key type 2)
"""

from dataclasses import dataclass
from typing import Any, Final

from fencepost.controller.errors import ApiError, UnsupportedVersion
from fencepost.wire.cursor import Writer
from fencepost.wire.dispatch import BROKER, Api
from fencepost.wire.errors import message_of, raise_for
from fencepost.wire.request_limits import TRANSACTION_LISTS
from fencepost.wire.schema import LOOKED_UP_ELEMENTS_MAX, Buffer, Message

GROUP: Final = 0
TRANSACTION: Final = 1
KEYS_IN_ONE_REQUEST_FROM: Final = 4


@dataclass(frozen=True, slots=True)
class FindCoordinator:
    """API key 10. ``key_type`` is GROUP, TRANSACTION, or a number without a coordinator here."""

    key_type: int
    keys: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Coordinator:
    """Where one key is coordinated, or why that is not known."""

    key: str
    node_id: int = -1
    host: str = ""
    port: int = -1
    error_code: int = 0
    error_message: str | None = None


@dataclass(frozen=True, slots=True)
class FindCoordinatorAnswer:
    """One row per key of the request, in its order."""

    coordinators: tuple[Coordinator, ...]


_REQUEST: Final = Message(10, "request", elements_max=LOOKED_UP_ELEMENTS_MAX)
_RESPONSE: Final = Message(10, "response", {"coordinators": Coordinator})


def _decode_request(version: int, body: Buffer) -> FindCoordinator:
    message = _REQUEST.decode(version, body)
    keys = message["coordinator_keys"] if version >= KEYS_IN_ONE_REQUEST_FROM else (message["key"],)
    return FindCoordinator(message.get("key_type", GROUP), keys)


def _encode_request(version: int, request: FindCoordinator) -> bytes:
    message: dict[str, Any] = {"key_type": request.key_type, "coordinator_keys": request.keys}
    if version < KEYS_IN_ONE_REQUEST_FROM:
        if len(request.keys) != 1 or (version == 0 and request.key_type != GROUP):
            raise UnsupportedVersion(f"FindCoordinator version {version} cannot ask {request}")
        message["key"] = request.keys[0]
    return _REQUEST.encode(version, message)


def _encode_response(version: int, answer: FindCoordinatorAnswer, throttle_ms: int) -> bytes:
    if version >= KEYS_IN_ONE_REQUEST_FROM:
        return _encode_many(answer, throttle_ms)
    only = answer.coordinators[0]
    message: dict[str, Any] = {"throttle_time_ms": throttle_ms, "coordinators": answer.coordinators}
    message |= {"error_code": only.error_code, "error_message": only.error_message}
    message |= {"node_id": only.node_id, "host": only.host, "port": only.port}
    return _RESPONSE.encode(version, message)


def _encode_many(answer: FindCoordinatorAnswer, throttle_ms: int) -> bytes:
    """By hand: thousands of keys have one coordinator."""
    writer = Writer(flexible=True)
    writer.int32(throttle_ms)
    writer.count(len(answer.coordinators))
    encoded: dict[tuple[Any, ...], bytes] = {}
    for each in answer.coordinators:
        writer.string(each.key)
        where = (each.node_id, each.host, each.port, each.error_code, each.error_message)
        row = encoded.get(where)
        if row is None:
            row = encoded[where] = _encode_where(each)
        writer.parts.append(row)
    writer.no_tags()
    return writer.message()


def _encode_where(coordinator: Coordinator) -> bytes:
    writer = Writer(flexible=True)
    writer.int32(coordinator.node_id)
    writer.string(coordinator.host)
    writer.int32(coordinator.port)
    writer.int16(coordinator.error_code)
    writer.string(coordinator.error_message)
    writer.no_tags()
    return writer.message()


def _refusal(version: int, request: FindCoordinator | None, error: ApiError, throttle_ms: int) -> bytes:
    keys = ("",) if request is None else request.keys
    refused = (Coordinator(key, error_code=error.code, error_message=message_of(error)) for key in keys)
    return _encode_response(version, FindCoordinatorAnswer(tuple(refused)), throttle_ms)


def _decode_response(version: int, body: Buffer) -> FindCoordinatorAnswer:
    message = _RESPONSE.decode(version, body)
    if version >= KEYS_IN_ONE_REQUEST_FROM:
        return FindCoordinatorAnswer(message["coordinators"])
    raise_for(message["error_code"], message.get("error_message"))
    where = {name: message[name] for name in ("node_id", "host", "port")}
    return FindCoordinatorAnswer((Coordinator("", **where),))  # the key is the caller's to remember


FIND_COORDINATOR: Final[Api[FindCoordinator, FindCoordinatorAnswer]] = Api(
    key=10,
    name="FindCoordinator",
    versions=range(7),
    flexible_from=3,
    listeners=(BROKER,),
    request_bytes_max=TRANSACTION_LISTS,  # ids of transactions and groups
    decode_request=_decode_request,
    encode_response=_encode_response,
    refusal=_refusal,
    encode_request=_encode_request,
    decode_response=_decode_response,
)
