"""Which member of a group reads which partition: Kafka's range and roundrobin, and the bytes they travel in.

Layout     subscription: version i16 | topics [string] | user data bytes; assignment: version i16 |
           [topic string, [partition i32]] | user data bytes. Version 0 is written; newer ones are read as far
           as they are alike. Both have lengths of i16 (strings) and i32 (arrays, bytes).
Source     Kafka ConsumerProtocol, RangeAssignor, RoundRobinAssignor.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final, TypeAlias

from fencepost.client.types import TopicPartition
from fencepost.wire.cursor import Reader, Writer, grouped, read

PROTOCOL_TYPE: Final = "consumer"

Assignments: TypeAlias = dict[str, list[TopicPartition]]
"""By member id."""

Assignor: TypeAlias = Callable[[Mapping[str, Sequence[str]], Mapping[str, int]], Assignments]
"""(topics of each member by its id, partition count by topic) -> assignments."""


def encode_subscription(topics: Iterable[str]) -> bytes:
    """The metadata of a member that subscribes to ``topics``."""
    names = sorted(topics)
    writer = Writer(flexible=False)
    writer.int16(0)
    writer.count(len(names))
    for name in names:
        writer.string(name)
    writer.records(b"")
    return writer.message()


def decode_subscription(metadata: bytes) -> list[str]:
    """The topics of a member. Raises CorruptData."""

    def topics(reader: Reader) -> list[str]:
        reader.int16()
        return [reader.string() for _ in range(reader.count())]

    return read("a subscription", Reader(metadata, flexible=False), topics)


def encode_assignment(partitions: Iterable[TopicPartition]) -> bytes:
    """The bytes of one member's assignment."""
    topics = grouped(sorted(partitions), lambda each: each.topic)
    writer = Writer(flexible=False)
    writer.int16(0)
    writer.count(len(topics))
    for topic, rows in topics.items():
        writer.string(topic)
        writer.int32s(tuple(each.partition for each in rows))
    writer.records(b"")
    return writer.message()


def decode_assignment(assignment: bytes) -> list[TopicPartition]:
    """The partitions of an assignment. Raises CorruptData. No bytes are no partitions."""
    if not assignment:
        return []

    def partitions(reader: Reader) -> list[TopicPartition]:
        reader.int16()
        found = []
        for _ in range(reader.count()):
            topic = reader.string()
            found += [TopicPartition(topic, each) for each in reader.int32s()]
        return found

    return read("an assignment", Reader(assignment, flexible=False), partitions)


def range_assignor(members: Mapping[str, Sequence[str]], counts: Mapping[str, int]) -> Assignments:
    """Of each topic neighbouring partitions to each member that wants it, in the members' order."""
    assigned: Assignments = {member: [] for member in members}
    for topic in sorted({name for topics in members.values() for name in topics}):
        wanting = sorted(member for member, topics in members.items() if topic in topics)
        whole, rest = divmod(counts.get(topic, 0), len(wanting))
        first = 0
        for index, member in enumerate(wanting):
            end = first + whole + (1 if index < rest else 0)
            assigned[member] += [TopicPartition(topic, each) for each in range(first, end)]
            first = end
    return assigned


def roundrobin_assignor(members: Mapping[str, Sequence[str]], counts: Mapping[str, int]) -> Assignments:
    """All partitions in order, one to each member in turn that wants its topic."""
    assigned: Assignments = {member: [] for member in members}
    order = sorted(members)
    turn = 0
    for topic in sorted({name for topics in members.values() for name in topics}):
        for partition in range(counts.get(topic, 0)):
            while topic not in members[order[turn % len(order)]]:
                turn += 1
            assigned[order[turn % len(order)]].append(TopicPartition(topic, partition))
            turn += 1
    return assigned


ASSIGNORS: Final[Mapping[str, Assignor]] = {"range": range_assignor, "roundrobin": roundrobin_assignor}
"""By the name that members vote for."""
