"""Which partitions a member of a consumer group was assigned, as far as the group's protocol says so.

Layout   of a consumer's assignment: version i16 | count i32 x (topic i16 length, UTF-8 | count i32 x i32) |
         more, not read here. Any version begins so. Assignments of other protocol types are opaque.
Source   Kafka ConsumerProtocolAssignment.json.
"""

import struct
from collections import defaultdict
from collections.abc import Mapping
from typing import Final

# What one decision reads: a thousand topics with the longest names fit; the loop is held for 20 ms at most.
READ_BYTES_MAX: Final = 256 * 1024
READ_TOPICS_MAX: Final = 10_000

_HEAD: Final = struct.Struct(">hi")  # version | count
_LENGTH: Final = struct.Struct(">h")
_COUNT: Final = struct.Struct(">i")


class TooLarge(Exception):
    """An assignment has more than READ_BYTES_MAX bytes or READ_TOPICS_MAX topics."""


def topic_count(assignment: bytes) -> int:
    """How many topics an assignment says that it has, whether it is a consumer's or not; 0 or more."""
    return max(0, _HEAD.unpack_from(assignment)[1]) if len(assignment) >= _HEAD.size else 0


def partitions_in(assignment: bytes) -> Mapping[str, set[int]] | None:
    """The partitions of each topic in an assignment; None if it is not a consumer's.

    A member that the leader left out has an empty one, which holds none.

    Raises   TooLarge before anything of it is read.
    """
    if len(assignment) > READ_BYTES_MAX:
        raise TooLarge(f"{len(assignment)} bytes; at most {READ_BYTES_MAX} are read")
    found: defaultdict[str, set[int]] = defaultdict(set)
    if not assignment:
        return found
    try:
        version, count = _HEAD.unpack_from(assignment)
        if version < 0 or not 0 <= count <= len(assignment):
            return None
        if count > READ_TOPICS_MAX:
            raise TooLarge(f"{count} topics; at most {READ_TOPICS_MAX} are read")
        at = _HEAD.size
        for _ in range(count):
            size = _LENGTH.unpack_from(assignment, at)[0]
            at += _LENGTH.size
            if size < 0 or at + size > len(assignment):
                return None
            topic = assignment[at : at + size].decode()
            at += size
            partition_count = _COUNT.unpack_from(assignment, at)[0]
            at += _COUNT.size
            if not 0 <= partition_count <= (len(assignment) - at) // 4:
                return None
            found[topic].update(struct.unpack_from(f">{partition_count}i", assignment, at))
            at += 4 * partition_count
    except (struct.error, UnicodeDecodeError):
        return None
    return found
