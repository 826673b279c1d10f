"""The scrub of an archive: sealed segments are compared with their sums while the node runs.

Found    what changed is named; the archive goes on, as no answer depends on it. Each reader refuses it, and
         ``fencepost storage repair --archive`` takes it from another node.
Sums     whose own checksum is wrong are named, and made again of the batches. So are those
         of segments that have none, or that an earlier version filled, are those of the batches just read,
         each being checked: once the archive has files of sums at all. An old directory stays as it was.
"""

from collections.abc import Callable
from typing import Final

from fencepost.records.invariant import CorruptData
from fencepost.snapshots.checksums import (
    SUFFIX,
    Content,
    Owner,
    SegmentSums,
    load_sums,
    sums_path,
    torn_sums,
    write_content,
)
from fencepost.snapshots.file_sums import NOT_SUMMED
from fencepost.snapshots.scrub_pace import Pace
from fencepost.snapshots.segments import Segment, scan_segment, unlike_written

REMEDY: Final = "stop this node: fencepost storage repair --archive takes it from another node"
SUMS_REMEDY: Final = "nothing: they are made again of the segment's batches"
HOLES_REMEDY: Final = "start this node again: it is made again from the segments"


def scrub_segment(
    segment: Segment, owner: Owner, pace: Pace, say: Callable[[str], None] = lambda _said: None
) -> int:
    """Compare a sealed segment with its sums, or read it. Returns how many bytes it has.

    say      gets a sentence about sums that cannot be read.

    Raises   CorruptData naming the file, OSError: FileNotFoundError if retention took it away meanwhile.
    """
    pace(0)
    size = segment.path.stat().st_size
    torn = torn_sums((segment.path,))
    if torn is not None:
        say(torn)
    reason = unlike_written(segment, owner, pace)
    if reason is not None:
        raise CorruptData(f"{segment.path}: {reason}")
    if load_sums(segment.path).batches.size == size:
        return size
    found = NOT_SUMMED
    for stored in scan_segment(segment):
        found = found.followed_by(stored.content)
        pace(len(stored.content))
    if any(segment.path.parent.glob(f"*{SUFFIX}")):
        sums = SegmentSums(found, NOT_SUMMED, NOT_SUMMED, NOT_SUMMED)
        write_content(sums_path(segment.path), segment.base, Content(sums, owner), durable=False)
        if not segment.path.exists():  # retention removes the sums last
            sums_path(segment.path).unlink(missing_ok=True)
    return size
