"""Group metadata records of ``__consumer_offsets-0``: a group's generation and members, as Kafka spells them.

Key      i16 version 2, then the group id as an i16 length and UTF-8 (GroupMetadataKey).
Value    i16 version, then GroupMetadataValue; null: a tombstone. Version 4, the flexible one, is written;
         0 to 3 are read. Kafka (3.5 and later, KIP-915) reads version 4 and skips tags that it does not know.
Tags     from 1000 on they are ours, and written only where Kafka's reading would lose something: of a group
         its state (Kafka: Stable with members, Empty without), of a member all its protocols (Kafka: the
         chosen one alone).
By hand  a rebalance of 1,000 members is one value: some 3 ms here, ten times that from a description.
Source   Kafka GroupMetadataKey.json, GroupMetadataValue.json; KIP-915.
"""

import enum
import struct
from typing import ClassVar, Final, NamedTuple

import msgspec

from fencepost.records.invariant import CorruptData, InvariantViolation
from fencepost.records.types import Log, ProducerId
from fencepost.records.varint import read_unsigned, unsigned

KEY_VERSION: Final = 2
VALUE_VERSION: Final = 4
_FLEXIBLE_FROM: Final = 4
_REBALANCE_TIMEOUT_FROM: Final = 1
_STATE_TIME_FROM: Final = 2
_INSTANCE_FROM: Final = 3

_STATE_TAG: Final = 1000  # of a group: int8
_PROTOCOLS_TAG: Final = 1000  # of a member: [name, metadata or null for the one in ``subscription``]

_I16: Final = struct.Struct(">h")
_I32: Final = struct.Struct(">i")
_I64: Final = struct.Struct(">q")
_TIMEOUTS: Final = struct.Struct(">ii")
_KEY_PREFIX: Final = struct.Struct(">hh")  # version, length of the group id
_VALUE_PREFIX: Final = _I16.pack(VALUE_VERSION)
_NULL: Final = b"\0"
_NO_TAGS: Final = b"\0"


class GroupState(enum.IntEnum):
    """The states of a group that the log knows. The numbers are of our own tag."""

    EMPTY = 0
    PREPARING_REBALANCE = 1  # a member left or expired: the others are to join again
    COMPLETING_REBALANCE = 2  # the generation and its members are decided, their assignments are not
    STABLE = 3

    @property
    def wire_name(self) -> str:
        """As DescribeGroups and ListGroups spell it."""
        return self.name.title().replace("_", "")


class GroupMember(msgspec.Struct, frozen=True, array_like=True):
    """A member as its last JoinGroup and the leader's last SyncGroup say; ``protocols`` by its preference."""

    member_id: str
    instance_id: str | None  # of a static member
    client_id: str
    client_host: str
    rebalance_timeout_ms: int
    session_timeout_ms: int
    protocols: tuple[tuple[str, bytes], ...]
    assignment: bytes = b""

    def metadata_of(self, protocol: str | None) -> bytes:
        """What it sent for that protocol; nothing if it does not support it."""
        return next((metadata for name, metadata in self.protocols if name == protocol), b"")


class GroupMetadata(msgspec.Struct, frozen=True, kw_only=True):
    """A group has this generation and these members since. ``members`` in the order in which they joined."""

    log: ClassVar[Log] = Log.CONSUMER_OFFSETS
    producer_id: ClassVar[ProducerId] = ProducerId(-1)
    producer_epoch: ClassVar[int] = -1

    group_id: str
    protocol_type: str
    generation: int
    protocol: str | None = None
    leader: str | None = None
    state: GroupState
    state_ms: int = -1  # since when it is in this state, by the leader's clock
    members: tuple[GroupMember, ...] = ()


class GroupForgotten(msgspec.Struct, frozen=True):
    """A group without members was deleted, or nothing is left of it. A tombstone in Kafka's log."""

    log: ClassVar[Log] = Log.CONSUMER_OFFSETS
    producer_id: ClassVar[ProducerId] = ProducerId(-1)
    producer_epoch: ClassVar[int] = -1

    group_id: str


def encode_group(record: GroupMetadata | GroupForgotten) -> tuple[bytes, bytes | None]:
    """The key and value of a record; the value of a tombstone is None. Inverse: ``decode_group``.

    Raises   InvariantViolation if a field does not fit its Kafka type: a bug of the code that decided it.
    """
    try:
        group_id = record.group_id.encode()
        key = _KEY_PREFIX.pack(KEY_VERSION, len(group_id)) + group_id
        return key, None if isinstance(record, GroupForgotten) else _encode_value(record)
    except (struct.error, UnicodeEncodeError) as error:
        raise InvariantViolation(f"a group cannot be written: {error}: {record.group_id!r}") from error


def decode_group(key: bytes, value: bytes | None) -> GroupMetadata | GroupForgotten:
    """Inverse of ``encode_group``, and of what Kafka writes. ``key`` begins with ``KEY_VERSION``.

    Raises   CorruptData, an unknown version of the value included.
    """
    group_id = _decode_key(key)
    if value is None:
        return GroupForgotten(group_id)
    if len(value) < _I16.size:
        raise CorruptData(f"a group value of {len(value)} bytes")
    version = _I16.unpack_from(value)[0]
    if not 0 <= version <= VALUE_VERSION:
        raise CorruptData(f"group value version {version}, expected 0 to {VALUE_VERSION}")
    reader = _Reader(value, _I16.size, flexible=version >= _FLEXIBLE_FROM)
    try:
        record = _decode_value(reader, version, group_id)
    except (struct.error, IndexError, ValueError) as error:
        raise CorruptData(f"a group value, at byte {reader.at}: {error}") from error
    if reader.at != len(value):
        raise CorruptData(f"{len(value) - reader.at} bytes after a group value")
    return record


# -- writing -----------------------------------------------------------------------------------------------


def _encode_value(record: GroupMetadata) -> bytes:
    parts = [
        _VALUE_PREFIX,
        _text(record.protocol_type),
        _I32.pack(record.generation),
        _text(record.protocol),
        _text(record.leader),
        _I64.pack(record.state_ms),
        unsigned(len(record.members) + 1),
    ]
    for member in record.members:
        _write_member(parts, member, record.protocol)
    state = record.state
    if state is _state_without_tag(record.members):
        parts.append(_NO_TAGS)
    else:
        parts.append(_tag(_STATE_TAG, bytes((state,))))
    return b"".join(parts)


def _write_member(parts: list[bytes], member: GroupMember, protocol: str | None) -> None:
    subscription = member.metadata_of(protocol)
    parts += (
        _text(member.member_id),
        _text(member.instance_id),
        _text(member.client_id),
        _text(member.client_host),
        _TIMEOUTS.pack(member.rebalance_timeout_ms, member.session_timeout_ms),
        _sized(subscription),
        _sized(member.assignment),
    )
    if member.protocols == ((protocol or "", subscription),):
        parts.append(_NO_TAGS)
        return
    listed = [unsigned(len(member.protocols) + 1)]
    for name, metadata in member.protocols:
        is_chosen = name == protocol and metadata == subscription
        listed += (_text(name), _NULL if is_chosen else _sized(metadata), _NO_TAGS)
    parts.append(_tag(_PROTOCOLS_TAG, b"".join(listed)))


def _text(text: str | None) -> bytes:
    if text is None:
        return _NULL
    encoded = text.encode()
    return unsigned(len(encoded) + 1) + encoded


def _sized(content: bytes) -> bytes:
    return unsigned(len(content) + 1) + content


def _tag(tag: int, content: bytes) -> bytes:
    """The tagged fields of a struct that has this one alone."""
    return b"\x01" + unsigned(tag) + unsigned(len(content)) + content


def _state_without_tag(members: tuple[GroupMember, ...]) -> GroupState:
    """What Kafka takes a group for that it reads from the log."""
    return GroupState.STABLE if members else GroupState.EMPTY


# -- reading -----------------------------------------------------------------------------------------------


class _Tagged(NamedTuple):
    """Where a tagged field's bytes begin and end."""

    at: int
    end: int


class _Reader:
    """A position in one value. Raises struct.error, IndexError, ValueError and CorruptData."""

    __slots__ = ("at", "buffer", "flexible")

    def __init__(self, buffer: bytes, at: int, *, flexible: bool) -> None:
        self.buffer = buffer
        self.at = at
        self.flexible = flexible

    def number(self, layout: struct.Struct) -> int:
        number: int = layout.unpack_from(self.buffer, self.at)[0]
        self.at += layout.size
        return number

    def length(self, layout: struct.Struct) -> int:
        """Of a string, bytes or an array, none of which is longer than what is left; -1 for null."""
        if not self.flexible:
            length = self.number(layout)
        else:
            length, self.at = read_unsigned(self.buffer, self.at)
            length -= 1
        if not -1 <= length <= len(self.buffer) - self.at:
            raise CorruptData(f"length {length} at byte {self.at} of a group value")
        return length

    def nullable_text(self) -> str | None:
        length = self.length(_I16)
        return None if length < 0 else self._take(length).decode()

    def text(self) -> str:
        text = self.nullable_text()
        if text is None:
            raise CorruptData(f"a string is null at byte {self.at} of a group value")
        return text

    def nullable_bytes(self) -> bytes | None:
        length = self.length(_I32)
        return None if length < 0 else self._take(length)

    def content(self) -> bytes:
        content = self.nullable_bytes()
        if content is None:
            raise CorruptData(f"bytes are null at byte {self.at} of a group value")
        return content

    def count(self) -> int:
        count = self.length(_I32)
        if count < 0:
            raise CorruptData(f"an array is null at byte {self.at} of a group value")
        return count

    def tags(self) -> dict[int, _Tagged]:
        """The tagged fields of a struct, not opened; none where there can be none."""
        found: dict[int, _Tagged] = {}
        if not self.flexible:
            return found
        count, self.at = read_unsigned(self.buffer, self.at)
        previous = -1
        for _ in range(count):
            tag, at = read_unsigned(self.buffer, self.at)
            size, at = read_unsigned(self.buffer, at)
            if tag <= previous or at + size > len(self.buffer):
                raise CorruptData(f"tag {tag} of {size} bytes after tag {previous} in a group value")
            found[tag] = _Tagged(at, at + size)
            previous, self.at = tag, at + size
        return found

    def _take(self, length: int) -> bytes:
        begun, self.at = self.at, self.at + length
        return self.buffer[begun : self.at]


def _decode_value(reader: _Reader, version: int, group_id: str) -> GroupMetadata:
    protocol_type = reader.text()
    generation = reader.number(_I32)
    protocol, leader = reader.nullable_text(), reader.nullable_text()
    state_ms = reader.number(_I64) if version >= _STATE_TIME_FROM else -1
    members = tuple([_read_member(reader, version, protocol) for _ in range(reader.count())])
    tagged = reader.tags().get(_STATE_TAG)
    state = _state_without_tag(members)
    if tagged is not None:
        if tagged.end - tagged.at != 1:
            raise CorruptData(f"a group's state of {tagged.end - tagged.at} bytes, expected 1")
        state = GroupState(reader.buffer[tagged.at])
    return GroupMetadata(
        group_id=group_id,
        protocol_type=protocol_type,
        generation=generation,
        protocol=protocol,
        leader=leader,
        state=state,
        state_ms=state_ms,
        members=members,
    )


def _read_member(reader: _Reader, version: int, protocol: str | None) -> GroupMember:
    member_id = reader.text()
    instance_id = reader.nullable_text() if version >= _INSTANCE_FROM else None
    client_id, client_host = reader.text(), reader.text()
    rebalance_timeout_ms = reader.number(_I32) if version >= _REBALANCE_TIMEOUT_FROM else -1
    session_timeout_ms = reader.number(_I32)
    subscription, assignment = reader.content(), reader.content()
    tagged = reader.tags().get(_PROTOCOLS_TAG)
    protocols: tuple[tuple[str, bytes], ...] = ((protocol or "", subscription),)
    if tagged is not None:
        protocols = _read_protocols(reader.buffer[tagged.at : tagged.end], subscription)
    if rebalance_timeout_ms < 0:
        rebalance_timeout_ms = session_timeout_ms  # as Kafka reads version 0
    return GroupMember(
        member_id,
        instance_id,
        client_id,
        client_host,
        rebalance_timeout_ms,
        session_timeout_ms,
        protocols,
        assignment,
    )


def _read_protocols(buffer: bytes, subscription: bytes) -> tuple[tuple[str, bytes], ...]:
    reader = _Reader(buffer, 0, flexible=True)
    protocols = []
    for _ in range(reader.count()):
        name, metadata = reader.text(), reader.nullable_bytes()
        protocols.append((name, subscription if metadata is None else metadata))
        reader.tags()
    if reader.at != len(buffer):
        raise CorruptData(f"{len(buffer) - reader.at} bytes after a member's protocols")
    return tuple(protocols)


def _decode_key(key: bytes) -> str:
    if len(key) < _KEY_PREFIX.size:
        raise CorruptData(f"a group key of {len(key)} bytes")
    version, length = _KEY_PREFIX.unpack_from(key)
    if version != KEY_VERSION or length != len(key) - _KEY_PREFIX.size:
        raise CorruptData(f"a group key of version {version}: an id of {length} bytes in {len(key)}")
    try:
        return key[_KEY_PREFIX.size :].decode()
    except UnicodeDecodeError as error:
        raise CorruptData(f"a group id is not UTF-8: {error}") from error
