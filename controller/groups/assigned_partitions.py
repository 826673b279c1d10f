"""Which partitions a member of a consumer group was assigned, as far as the group's protocol says so.

Layout   of a consumer's assignment: version i16 | count i32 x (topic i16 length, UTF-8 | count i32 x i32) |
         more, not read here. Any version begins so. Assignments of other protocol types are opaque.
Source   Kafka ConsumerProtocolAssignment.json.
"""

import struct
from functools import lru_cache
from typing import Final

ASSIGNMENTS_CACHED_MAX: Final = 1_000  # assignments of members, decoded

_HEAD: Final = struct.Struct(">hi")  # version | count
_LENGTH: Final = struct.Struct(">h")
_COUNT: Final = struct.Struct(">i")


@lru_cache(ASSIGNMENTS_CACHED_MAX)
def partitions_in(assignment: bytes) -> frozenset[tuple[str, int]] | None:
    """(topic, partition) of all that an assignment holds; None if it is not a consumer's.

    A member that the leader left out has an empty one, which holds none.
    """
    if not assignment:
        return frozenset()
    found: set[tuple[str, int]] = set()
    try:
        version, count = _HEAD.unpack_from(assignment)
        if version < 0 or not 0 <= count <= len(assignment):
            return None
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
            indexes = struct.unpack_from(f">{partition_count}i", assignment, at)
            at += 4 * partition_count
            found.update([(topic, index) for index in indexes])
    except (struct.error, UnicodeDecodeError):
        return None
    return frozenset(found)
