"""The archives at the end of a storm: on every node the batches that were committed, or a hole that is named.

A batch is there whole, at the offset and in the epoch that it got when it was applied; nothing that was
superseded is there; what is missing is missing because a snapshot took its place, and says so. Of an archive
whose files were damaged what can still be read is what was committed; but for the epochs of a segment whose
sums were damaged, too: no CRC covers them, and nothing is left that could tell.
"""

from typing import Final

from fencepost.records.batch import decode_batch, stamp
from fencepost.records.batch_layout import LEADER_EPOCH_AT
from fencepost.records.invariant import CorruptData
from fencepost.records.types import Log, Offset, Term
from fencepost.snapshots.archive import Archive
from fencepost.snapshots.checksums import is_torn, sums_path
from fencepost.snapshots.segments import list_segments, scan_segment, unlike_written
from tests.simulation.invariants import require
from tests.simulation.ledger import Ledger

EPOCH_BYTES: Final = 4


def committed_batches(ledger: Ledger) -> dict[Log, dict[int, bytes]]:
    """Log -> base offset -> the batch, stamped, as the archives have to have it."""
    batches: dict[Log, dict[int, bytes]] = {log: {} for log in Log}
    for seen in ledger.entries.values():
        if seen.applied and seen.entry is not None:
            ends = list(seen.before.log_ends)
            for log, batch in seen.entry.batches:
                base = Offset(ends[log])
                batches[log][base] = stamp(batch, base, Term(seen.after.controller_epoch))
                ends[log] = decode_batch(batches[log][base])[0].end
    return batches


def archive_is_the_log(archive: Archive, committed: dict[int, bytes], node: int) -> int:
    """Compare one node's archive with what was committed. Returns how many offsets it has."""
    reader = archive.reader()
    expected = 0
    kept = 0
    holes = {hole.first: hole.end for hole in reader.holes}
    for stored in reader.read():
        expected = holes.get(Offset(expected), Offset(expected))
        base = stored.header.base_offset
        require(base == expected, "the archive has a gap that it does not name", node=node, offset=expected)
        require(
            stored.content == committed.get(base), "another batch than was committed", node=node, offset=base
        )
        kept += stored.header.end - base
        expected = stored.header.end
    expected = holes.get(Offset(expected), Offset(expected))
    require(expected == archive.end, "the archive ends elsewhere", node=node, read=expected, end=archive.end)
    return kept


def _without_epoch(batch: bytes) -> bytes:
    return batch[:LEADER_EPOCH_AT] + batch[LEADER_EPOCH_AT + EPOCH_BYTES :]


def archive_has_nothing_else(archive: Archive, committed: dict[int, bytes], node: int) -> int:
    """Of one whose files were damaged. Returns how many batches can be read."""
    archive.write()
    found = 0
    for segment in list_segments(archive.reader().directory):
        if unlike_written(segment) is not None:
            continue
        has_sums = sums_path(segment.path).exists() and not is_torn(segment.path)
        compared = bytes if has_sums else _without_epoch
        try:
            for stored in scan_segment(segment):
                found += 1
                base = stored.header.base_offset
                require(
                    compared(stored.content) == compared(committed.get(base, b"")),
                    "a damaged archive has another batch than was committed",
                    node=node,
                    offset=base,
                    file=str(segment.path),
                )
        except CorruptData:
            continue
    return found
