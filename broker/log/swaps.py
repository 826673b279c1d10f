"""A cleaner's segment takes the place of others: the files' names, step by step, and what a start does then.

Steps       1. written: four files ``.cleaned``, flushed.      2. ``.swap``, the batches' file last: decided.
            3. (owner) reads from the new segment.             4. the old files are removed.
            5. (owner) the new files get their names, the batches' last.
            Each step is on the disk before the next begins.
Killed      before 2 is over: what was written is removed at the next start. After it: the rest is done then.
End         the last batch of the new segment ends where the last one of those that it replaces ended.
Source      Kafka LocalLog.replaceSegments, LogLoader; its loader reads these names as well.
"""

from pathlib import Path
from typing import Final

from fencepost.broker.log.checkpoints import sync_path
from fencepost.broker.log.segment import Segment, segment_files
from fencepost.broker.log.segment_sums import forget_sums, sums_path
from fencepost.records.invariant import CorruptData
from fencepost.records.types import Offset

CLEANED: Final = ".cleaned"
SWAP: Final = ".swap"


def rename_files(directory: Path, base: Offset, suffix: str, new_suffix: str) -> None:
    """Rename a segment's files that have the one suffix, the batches last. Raises OSError."""
    old, new = segment_files(directory, base, suffix), segment_files(directory, base, new_suffix)
    for source, target in zip(reversed(old), reversed(new), strict=True):
        if source.exists():
            source.rename(target)


def remove_segments(directory: Path, bases: tuple[Offset, ...]) -> None:
    """Remove segments that others replace: the names are gone from the disk, too. Raises OSError."""
    for base in bases:
        files = segment_files(directory, base)
        for path in (*reversed(files), sums_path(files[0])):
            path.unlink(missing_ok=True)
    sync_path(directory)


def remove_unfinished(directory: Path) -> None:
    """Remove what a pass wrote and did not decide. Raises OSError."""
    decided = {path.name.removesuffix(f".log{SWAP}") for path in directory.glob(f"*.log{SWAP}")}
    for suffix in (CLEANED, SWAP):
        for path in directory.glob(f"*{suffix}"):
            if suffix == CLEANED or path.name.split(".")[0] not in decided:
                path.unlink()


def finish_swaps(directory: Path) -> list[str]:
    """Do at a start what a killed pass decided, and remove what it did not. Returns what was done.

    Raises   OSError, CorruptData.
    """
    remove_unfinished(directory)
    done = []
    for path in sorted(directory.glob(f"*.log{SWAP}")):
        base = Offset(int(path.name.split(".")[0]))
        segment = Segment(directory, base, SWAP)
        end = base
        for placed in segment.walk(segment.offsets.last[1] if segment.offsets.last is not None else 0):
            end = placed.end
        segment.close()
        if end == base:
            raise CorruptData(f"{path}: it has no batch, though it was to replace segments")
        old = sorted(int(each.stem) for each in directory.glob("*.log") if base < int(each.stem) < end)
        remove_segments(directory, tuple(Offset(each) for each in old))
        forget_sums(segment_files(directory, base)[0])
        rename_files(directory, base, SWAP, "")
        sync_path(directory)
        done.append(f"{base:020d}: a cleaner's segment took the place of {len(old) + 1}")
    return done
