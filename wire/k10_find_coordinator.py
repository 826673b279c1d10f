"""FindCoordinator, API key 10, versions 0-6: which broker coordinates a group or a transactional id.

0   one key, always a group
1   key_type, throttle_time, error_message
3   flexible
4   many keys in one request, an error for each (KIP-699)
5   may be answered with TRANSACTION_ABORTABLE, 6 knows share groups (key type 2)
Ours    tagged field 1000 of a request, i8, from version 3 on: with 1 the keys are ids of groups, and the
        coordinator is that of their members' transactions (KIP-447), key type 1. Kafka's brokers skip it, and
        answer for transactional ids of these names.
"""

from dataclasses import dataclass
from typing import Any, Final

from fencepost.controller.errors import ApiError, UnsupportedVersion
from fencepost.records.varint import unsigned
from fencepost.wire.cursor import Reader, Writer, read
from fencepost.wire.dispatch import BROKER, Api
from fencepost.wire.errors import message_of, raise_for
from fencepost.wire.request_limits import TRANSACTION_LISTS
from fencepost.wire.schema import LOOKED_UP_ELEMENTS_MAX, Buffer, Message

GROUP: Final = 0
TRANSACTION: Final = 1
KEYS_IN_ONE_REQUEST_FROM: Final = 4


@dataclass(frozen=True, slots=True)
class FindCoordinator:
    """API key 10. ``key_type`` is GROUP, TRANSACTION, or a number without a coordinator here.

    ``by_group``   the keys are ids of groups, whose members' transactions are coordinated.
    """

    key_type: int
    keys: tuple[str, ...]
    by_group: bool = False


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


_KEY_TYPE_FROM: Final = 1
_FLEXIBLE_FROM: Final = 3
_BY_GROUP_TAG: Final = 1000
_TAGS: Final = {_BY_GROUP_TAG: Reader.int8}
_BY_GROUP: Final = b"\1" + unsigned(_BY_GROUP_TAG) + b"\1\1"  # one tagged field, of one byte
_RESPONSE: Final = Message(10, "response", {"coordinators": Coordinator})


def _decode_request(version: int, body: Buffer) -> FindCoordinator:
    reader = Reader(body, flexible=version >= _FLEXIBLE_FROM, elements_max=LOOKED_UP_ELEMENTS_MAX)
    return read(f"FindCoordinator v{version}", reader, lambda reader: _read(version, reader))


def _read(version: int, reader: Reader) -> FindCoordinator:
    if version >= KEYS_IN_ONE_REQUEST_FROM:
        key_type = reader.int8()
        keys = tuple([reader.string() for _ in range(reader.count())])
    else:
        keys = (reader.string(),)
        key_type = reader.int8() if version >= _KEY_TYPE_FROM else GROUP
    tags = reader.tags(_TAGS) if version >= _FLEXIBLE_FROM else {}
    return FindCoordinator(key_type, keys, tags.get(_BY_GROUP_TAG, 0) == 1)


def _encode_request(version: int, request: FindCoordinator) -> bytes:
    is_one = len(request.keys) == 1 and (version >= _KEY_TYPE_FROM or request.key_type == GROUP)
    if (version < KEYS_IN_ONE_REQUEST_FROM and not is_one) or (version < _FLEXIBLE_FROM and request.by_group):
        raise UnsupportedVersion(f"FindCoordinator version {version} cannot ask {request}")
    writer = Writer(flexible=version >= _FLEXIBLE_FROM)
    if version >= KEYS_IN_ONE_REQUEST_FROM:
        writer.int8(request.key_type)
        writer.count(len(request.keys))
    for key in request.keys:
        writer.string(key)
    if _KEY_TYPE_FROM <= version < KEYS_IN_ONE_REQUEST_FROM:
        writer.int8(request.key_type)
    if request.by_group:
        writer.parts.append(_BY_GROUP)
    else:
        writer.no_tags()
    return writer.message()


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
    flexible_from=_FLEXIBLE_FROM,
    listeners=(BROKER,),
    request_bytes_max=TRANSACTION_LISTS,  # ids of transactions and groups
    decode_request=_decode_request,
    encode_response=_encode_response,
    refusal=_refusal,
    encode_request=_encode_request,
    decode_response=_decode_response,
)
