"""A consumer's assignment: what it holds, what is none, and how much of one is read."""

import struct

import pytest

from fencepost.controller.groups.assigned_partitions import (
    READ_BYTES_MAX,
    READ_TOPICS_MAX,
    TooLarge,
    partitions_in,
)
from tests.together import table


def topic(name: bytes, *partitions: int) -> bytes:
    head = struct.pack(f">h{len(name)}si", len(name), name, len(partitions))
    return head + struct.pack(f">{len(partitions)}i", *partitions)


def assignment(*topics: bytes, version: int = 0, count: int | None = None) -> bytes:
    return struct.pack(">hi", version, len(topics) if count is None else count) + b"".join(topics)


SOUND = assignment(topic(b"a", 1, 2), topic(b"b"), topic(b"a", 2, 3))


@table(
    ("raw", "expected"),
    [
        (b"", {}),
        (assignment(), {}),
        (assignment(topic(b"a")), {"a": set()}),
        (SOUND, {"a": {1, 2, 3}, "b": set()}),
        (SOUND + b"\xff" * 4, {"a": {1, 2, 3}, "b": set()}),  # user data
        (assignment(topic(b"a", 1), version=3), {"a": {1}}),
        (assignment(topic(b"a", 1), version=-1), None),
        (assignment(count=-1), None),
        (assignment(topic(b"a", 1), count=2), None),
        (assignment(topic(b"a", 1), count=2**31 - 1), None),
        (assignment(topic(b"", 1)), {"": {1}}),
        (assignment(topic(b"\xff", 1)), None),
        (assignment(b"\xff\xff" + topic(b"a", 1)[2:]), None),
        (assignment(b"\x00\x40" + topic(b"a", 1)[2:]), None),
        (assignment(topic(b"a")[:-4] + struct.pack(">i", -1)), None),
        (assignment(topic(b"a", 1)[:-8] + struct.pack(">ii", 2, 1)), None),
        (SOUND[:-1], None),
        (SOUND[:5], None),
    ],
)
def test_what_an_assignment_holds(raw: bytes, expected: dict[str, set[int]] | None) -> None:
    found = partitions_in(raw)
    assert (None if found is None else dict(found)) == expected


def test_so_much_of_one_is_read() -> None:
    assert partitions_in(bytes(READ_BYTES_MAX)) == {}
    with pytest.raises(TooLarge, match="bytes"):
        partitions_in(bytes(READ_BYTES_MAX + 1))
    most = assignment(*[topic(b"")] * READ_TOPICS_MAX)
    assert partitions_in(most) == {"": set()}
    with pytest.raises(TooLarge, match="topics"):
        partitions_in(assignment(*[topic(b"")] * (READ_TOPICS_MAX + 1)))
