"""What ``groups describe`` prints: rows with the columns of ``kafka-consumer-groups`` of Kafka 4.1.

What is not there is null in JSON and a hyphen in text, as in Kafka.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from fencepost.cli.group_calls import Described, Place
from fencepost.controller.groups.describe import DescribedGroup, DescribedMember, ListedGroup
from fencepost.controller.groups.offset_messages import FetchedOffset
from fencepost.records.invariant import CorruptData
from fencepost.wire.cursor import Reader, read

CONSUMER: Final = "consumer"
LISTED: Final = ("GROUP", "TYPE", "PROTOCOL", "STATE")
STATE: Final = (
    "GROUP", "COORDINATOR (ID)", "ASSIGNMENT-STRATEGY", "STATE", "GROUP-EPOCH", "TARGET-ASSIGNMENT-EPOCH",
    "#MEMBERS",
)  # fmt: skip
MEMBERS: Final = (
    "GROUP", "CONSUMER-ID", "GROUP-INSTANCE-ID", "HOST", "CLIENT-ID", "#PARTITIONS", "CURRENT-EPOCH",
    "CURRENT-ASSIGNMENT", "TARGET-EPOCH", "TARGET-ASSIGNMENT",
)  # fmt: skip
OFFSETS: Final = (
    "GROUP", "TOPIC", "PARTITION", "LEADER-EPOCH", "CURRENT-OFFSET", "LOG-END-OFFSET", "LAG",
    "CONSUMER-ID", "HOST", "CLIENT-ID",
)  # fmt: skip
VERBOSE: Final = frozenset(
    (
        "LEADER-EPOCH", "CURRENT-EPOCH", "CURRENT-ASSIGNMENT", "TARGET-EPOCH", "TARGET-ASSIGNMENT",
        "GROUP-EPOCH", "TARGET-ASSIGNMENT-EPOCH",
    )
)  # fmt: skip
"""Columns that are printed with ``--verbose`` only. Epochs and targets are of KIP-848's protocol."""
RESET: Final = ("GROUP", "TOPIC", "PARTITION", "NEW-OFFSET")
NONE: Final = "-"

Row = dict[str, Any]


def assigned(group: DescribedGroup, member: DescribedMember) -> tuple[Place, ...]:
    """The partitions that a member has; none of a group that is no consumers', or that rebalances."""
    if group.protocol_type != CONSUMER or not member.assignment:
        return ()
    reader = Reader(member.assignment, flexible=False)
    try:
        return read(f"assignment of {member.member_id}", reader, _read_assignment)
    except CorruptData:
        return ()


def _read_assignment(reader: Reader) -> tuple[Place, ...]:
    """Layout: version i16 | count i32 x (topic | count i32 x partition i32) | user data, not read here."""
    reader.int16()
    found: list[Place] = []
    for _ in range(reader.count()):
        topic = reader.string()
        found += [(topic, index) for index in reader.int32s()]
    return tuple(sorted(found))


def listed_row(group: ListedGroup) -> Row:
    """A row of ``list``. A group that exists by its offsets alone has no protocol.

    Kafka's tool writes the type with a capital, which the protocol has not.
    """
    values = (group.group_id, group.group_type.capitalize(), group.protocol_type or None, group.state)
    return dict(zip(LISTED, values, strict=True))


def state_row(described: Described) -> Row:
    """A row of ``--state``."""
    group = described.group
    strategy = group.protocol or None
    values = (
        group.group_id, described.coordinator, strategy, group.state, None, None, len(group.members)
    )  # fmt: skip
    return dict(zip(STATE, values, strict=True))


def member_rows(group: DescribedGroup) -> list[Row]:
    """The rows of ``--members``."""
    rows: list[Row] = []
    for each in group.members:
        places = assigned(group, each)
        values = (
            group.group_id, each.member_id, each.instance_id, each.client_host, each.client_id, len(places),
            None, _by_topic(places), None, None,
        )  # fmt: skip
        rows.append(dict(zip(MEMBERS, values, strict=True)))
    return rows


def offset_rows(
    group: DescribedGroup, committed: Mapping[Place, FetchedOffset], ends: Mapping[Place, int]
) -> list[Row]:
    """The rows of ``--offsets``: partitions with a committed offset, and those that a member has.

    The lag is below 0 where more is committed than the log has, as Kafka prints it.
    """
    owners = {place: each for each in group.members for place in assigned(group, each)}
    rows: list[Row] = []
    for place in sorted({*owners, *committed}):
        topic, index = place
        offset, end, owner = committed.get(place), ends.get(place), owners.get(place)
        lag = None if offset is None or end is None else end - offset.offset
        epoch = offset.leader_epoch if offset is not None and offset.leader_epoch >= 0 else None
        values = (
            group.group_id, topic, index, epoch, None if offset is None else offset.offset, end, lag,
            None if owner is None else owner.member_id, None if owner is None else owner.client_host,
            None if owner is None else owner.client_id,
        )  # fmt: skip
        rows.append(dict(zip(OFFSETS, values, strict=True)))
    return rows


def without(columns: Sequence[str], *left_out: str) -> tuple[str, ...]:
    """Columns but for these."""
    return tuple(each for each in columns if each not in left_out)


def cells(columns: Sequence[str], row: Row) -> list[object]:
    """A row as text prints it."""
    return [NONE if row[each] is None else row[each] for each in columns]


def _by_topic(places: Sequence[Place]) -> str | None:
    """``orders:0,1;payments:3``, as Kafka prints an assignment."""
    by_topic: dict[str, list[str]] = {}
    for topic, index in places:
        by_topic.setdefault(topic, []).append(str(index))
    return ";".join(f"{topic}:{','.join(indexes)}" for topic, indexes in by_topic.items()) or None
