"""What a broker says of one of its partitions: where the log ends, or that it is offline.

Layout   of several: topic id 16 bytes | partition i32 | end i64, each; big-endian. In a tagged field of a
         heartbeat (wire/k63_broker_heartbeat.py) and of the record that keeps them.
Inverse  ``decode_reports(encode_reports(r)) == r``.
"""

import struct
from collections.abc import Iterable
from typing import Final, NamedTuple
from uuid import UUID

from fencepost.records.invariant import CorruptData

REPORTS_MAX: Final = 1_500
"""In one message: 42 kB. Every node applies them in one step of its loop, in some 10 ms."""

OFFLINE: Final = -1
"""The end of a partition whose log cannot be used."""

_REPORT: Final = struct.Struct(">16siq")
REPORT_BYTES: Final = _REPORT.size


class PartitionReport(NamedTuple):
    """``end``: the offset that the next record gets, or OFFLINE."""

    topic_id: UUID
    partition: int
    end: int


def encode_reports(reports: Iterable[PartitionReport]) -> bytes:
    """Their bytes, one after the other."""
    return b"".join([_REPORT.pack(each.topic_id.bytes, each.partition, each.end) for each in reports])


def decode_reports(raw: bytes) -> tuple[PartitionReport, ...]:
    """Raises CorruptData: not a whole number of them, or more than REPORTS_MAX."""
    count, rest = divmod(len(raw), REPORT_BYTES)
    if rest or count > REPORTS_MAX:
        raise CorruptData(
            f"{len(raw)} bytes of partition reports; expected up to {REPORTS_MAX} of {REPORT_BYTES} each"
        )
    return tuple(
        [PartitionReport(UUID(bytes=topic), index, end) for topic, index, end in _REPORT.iter_unpack(raw)]
    )
