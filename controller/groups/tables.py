"""Groups: what is known of each group and of its members, and the only way it may change.

Invariant   a generation is announced with one member list: a group's generation never goes back, and a new
            one is one above the last.
Tables      all are of the log ``__consumer_offsets``: replay reads and writes no other log's. A group's row
            is small, and its members have rows of their own, so a heartbeat or a commit reads two small rows
            whatever the size of the group.
Index       ROSTERS has every group that has members: timers of a new leader never scan for them.
Source      Kafka ClassicGroup, GroupMetadataManager.replay (GroupMetadata); docs/kafka-notes.md D.
"""

import struct
from typing import Any, Final

import msgspec

from fencepost.controller.view import MutableView, Table, View
from fencepost.records.group_metadata import GroupForgotten, GroupMember, GroupMetadata, GroupState
from fencepost.records.invariant import CorruptData, invariant
from fencepost.records.types import Log

GROUP_ID_BYTES_MAX: Final = 190
"""UTF-8. With the longest topic name, or the longest member id, it is still a key of the image."""

INSTANCE_ID_BYTES_MAX: Final = 249  # Kafka's own bound of group.instance.id
MEMBER_ID_BYTES_MAX: Final = 286  # an instance id, a hyphen and a UUID

_LENGTH: Final = struct.Struct(">H")


class Group(msgspec.Struct, frozen=True, array_like=True):
    """The row of one group, its members apart. ``member_bytes``: see ``size_of``, of all members."""

    protocol_type: str
    generation: int
    state: GroupState
    protocol: str | None = None
    leader: str | None = None
    state_ms: int = -1
    member_bytes: int = 0


def encode_group_key(group_id: str) -> bytes:
    """What the keys of one group's rows begin with: no other group's do."""
    encoded = group_id.encode()
    return _LENGTH.pack(len(encoded)) + encoded


def decode_group_key(key: bytes) -> tuple[str, bytes]:
    """The group id, and what is behind it. Raises CorruptData."""
    if len(key) < _LENGTH.size:
        raise CorruptData(f"the key of a group's row has {len(key)} bytes")
    end = _LENGTH.size + _LENGTH.unpack_from(key)[0]
    if end > len(key):
        raise CorruptData(f"the key of a group's row ends inside the group id: {len(key)} bytes of {end}")
    return key[_LENGTH.size : end].decode(), key[end:]


def _encode_member_key(key: tuple[str, str]) -> bytes:
    return encode_group_key(key[0]) + key[1].encode()


def _decode_member_key(key: bytes) -> tuple[str, str]:
    group_id, rest = decode_group_key(key)
    return group_id, rest.decode()


GROUPS: Final[Table[str, Group]] = Table("groups", Group, str.encode, bytes.decode, log=Log.CONSUMER_OFFSETS)
ROSTERS: Final[Table[str, tuple[str, ...]]] = Table(
    "group_rosters", tuple[str, ...], str.encode, bytes.decode, log=Log.CONSUMER_OFFSETS
)
"""The member ids of each group that has members, in the order in which they joined."""
MEMBERS: Final[Table[tuple[str, str], GroupMember]] = Table(
    "group_members", GroupMember, _encode_member_key, _decode_member_key, log=Log.CONSUMER_OFFSETS
)
"""By group and member id."""
INSTANCES: Final[Table[tuple[str, str], str]] = Table(
    "group_instances", str, _encode_member_key, _decode_member_key, log=Log.CONSUMER_OFFSETS
)
"""The member id of each static member, by group and instance id."""
MEMBERSHIP_TABLES: Final[tuple[Table[Any, Any], ...]] = (GROUPS, ROSTERS, MEMBERS, INSTANCES)


def get(view: View, group_id: str) -> Group | None:
    """The row of a group, or None. Any text may be given."""
    return view.get(GROUPS, group_id) if is_key(group_id) else None


def is_key(group_id: str) -> bool:
    """It can be a key of the image, and so a group id: 1 to GROUP_ID_BYTES_MAX bytes of UTF-8."""
    return _fits(group_id, GROUP_ID_BYTES_MAX)


def member(view: View, group_id: str, member_id: str) -> GroupMember | None:
    """A member, or None. Any text may be given."""
    if not (is_key(group_id) and _fits(member_id, MEMBER_ID_BYTES_MAX)):
        return None
    return view.get(MEMBERS, (group_id, member_id))


def static_member_id(view: View, group_id: str, instance_id: str) -> str | None:
    """Who has that instance id, or None. Any text may be given."""
    if not (is_key(group_id) and _fits(instance_id, INSTANCE_ID_BYTES_MAX)):
        return None
    return view.get(INSTANCES, (group_id, instance_id))


def member_ids(view: View, group_id: str) -> tuple[str, ...]:
    """In the order in which they joined."""
    return view.get(ROSTERS, group_id) or ()


def members(view: View, group_id: str) -> tuple[GroupMember, ...]:
    """All members, in the order in which they joined."""
    found = [view.get(MEMBERS, (group_id, member_id)) for member_id in member_ids(view, group_id)]
    return tuple([each for each in found if each is not None])


def size_of(member: GroupMember) -> int:
    """Bytes of a member in a GroupMetadata value, at most: its metadata, assignment, ids and lengths."""
    size = 64 + len(member.assignment)
    for name, metadata in member.protocols:
        size += len(name.encode()) + len(metadata) + 12
    for text in (member.member_id, member.instance_id or "", member.client_id, member.client_host):
        size += len(text) if text.isascii() else len(text.encode())  # most are: nothing is copied
    return size


def _fits(text: str, bytes_max: int) -> bool:
    if len(text) > bytes_max:
        return False
    try:
        return 0 < len(text.encode()) <= bytes_max
    except UnicodeEncodeError:
        return False


# -- replay ----------------------------------------------------------------------------------------------


def replay(view: MutableView, record: GroupMetadata, _offset: int = 0) -> None:
    """Total. The group's rows become what the record says, and nothing of before is left."""
    group_id = record.group_id
    before = view.get(GROUPS, group_id)
    if before is not None:
        forward = before.generation <= record.generation <= before.generation + 1
        invariant(forward, "a generation was left out or came back", before=before, group_id=group_id)
    _clear(view, group_id, {each.member_id for each in record.members})
    for each in record.members:
        view.put(MEMBERS, (group_id, each.member_id), each)
        if each.instance_id is not None:
            view.put(INSTANCES, (group_id, each.instance_id), each.member_id)
    if record.members:
        view.put(ROSTERS, group_id, tuple([each.member_id for each in record.members]))
    view.put(
        GROUPS,
        group_id,
        Group(
            record.protocol_type,
            record.generation,
            record.state,
            record.protocol,
            record.leader,
            record.state_ms,
            sum(map(size_of, record.members)),
        ),
    )


def replay_forgotten(view: MutableView, record: GroupForgotten, _offset: int = 0) -> None:
    """Total. A group that is not known may be forgotten, one with members never."""
    has_members = view.get(ROSTERS, record.group_id) is not None
    invariant(not has_members, "a group with members was forgotten", group_id=record.group_id)
    if view.get(GROUPS, record.group_id) is not None:
        view.delete(GROUPS, record.group_id)


def _clear(view: MutableView, group_id: str, staying: set[str]) -> None:
    """Delete the rows of members that are not ``staying``, and what the others' rows will not overwrite."""
    for member_id in member_ids(view, group_id):
        before = view.get(MEMBERS, (group_id, member_id))
        if before is not None and before.instance_id is not None:
            view.delete(INSTANCES, (group_id, before.instance_id))
        if member_id not in staying:
            view.delete(MEMBERS, (group_id, member_id))
    if not staying and view.get(ROSTERS, group_id) is not None:
        view.delete(ROSTERS, group_id)


# -- what a decision writes ------------------------------------------------------------------------------


def record_of(group_id: str, row: Group, members_of_group: tuple[GroupMember, ...]) -> GroupMetadata:
    """The record that makes the group so. Inverse of ``replay``."""
    return GroupMetadata(
        group_id=group_id,
        protocol_type=row.protocol_type,
        generation=row.generation,
        protocol=row.protocol,
        leader=row.leader,
        state=row.state,
        state_ms=row.state_ms,
        members=members_of_group,
    )
