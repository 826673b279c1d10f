"""Whether a producer's batch is a marker, and what of a control batch is not as it was written.

Control     a producer's control batch is a marker: it ends a transaction and has no sequence. One of another
            type, and one whose control bit was cleared, are findings, and ended a transaction in a way that
            they do not say. A control batch with a sequence is data.
Both        a marker has the control and the transactional bit. Without the latter it is a finding, and ends
            what it says. Control batches of no producer, as a KRaft log has, are no markers.
Source      Kafka MemoryRecords.writeEndTransactionalMarker.
"""

from typing import Final

from fencepost.audit.decode.control import MARKER_SIZES
from fencepost.audit.walks.columns import FLAG_COUNT, FLAG_EMPTIED

TRANSACTIONAL, CONTROL = 0x10, 0x20
ENDS: Final = (0, 1)  # abort, commit
UNREADABLE: Final = -1
ENDS_AS_IT_SAYS: Final = ("sequence", "transactional_bit")  # rules of a marker that is odd, and can be read


def odd_control(
    attributes: int, sequence: int, kind: int, size: int, flags: int, offsets: int
) -> tuple[str, str] | None:
    """Rule and sentence of a batch of a producer of which one of these is not as it was written."""
    if not attributes & CONTROL:
        if sequence < 0 and attributes & TRANSACTIONAL and size in MARKER_SIZES:
            return "control_bit", "it has no control bit, and no sequence as data has: it was a marker"
        return None
    if sequence >= 0 and kind in ENDS:
        return "sequence", f"a marker has sequence {sequence}: only data has one"
    if sequence >= 0:
        return "control_bit", f"it has the control bit, and sequence {sequence}, which only data has"
    if kind in ENDS and offsets > 1 and not flags & FLAG_COUNT:
        return "control_type", f"a marker's batch has {offsets} records: one ends a transaction"
    if kind in ENDS or (kind == UNREADABLE and flags & FLAG_EMPTIED):
        if not attributes & TRANSACTIONAL:
            return "transactional_bit", "a marker without the transactional bit, which each is written with"
        return None
    said = "that cannot be read" if kind == UNREADABLE else f"of type {kind}"
    return "control_type", f"a producer's control record {said}: 0 or 1 ends a transaction"
