"""A cleaner's segment takes the place of others: the files' names, step by step, and what a start does then.

Steps       1. written: four files ``.cleaned``, flushed.      2. ``.swap``, the batches' file last: decided.
            3. (owner) reads from the new segment.             4. the old files are removed.
            5. (owner) the new files get their names, the batches' last.
            Each step is on the disk before the next begins.
Sums        of the new segment are written with it, as ``.checksums.swap``, and are its sums in the end.
Killed      before 2 is over: what was written is removed at the next start. After it: the rest is done then.
End         the last batch of the new segment ends where the last one of those that it replaces ended, so
            another segment begins there.
Changed     since 2: then nothing is removed by what the new segment says. It is removed itself if what it was
            to replace is there; else the log is offline, and all bytes are kept.
Source      Kafka LocalLog.replaceSegments, LogLoader; its loader reads these names as well.
"""

from pathlib import Path
from typing import Final

from fencepost.broker.log.segment import Segment, segment_files
from fencepost.records.invariant import CorruptData
from fencepost.records.types import Offset
from fencepost.snapshots.checksums import (
    NOTHING,
    SUFFIX,
    Content,
    SegmentSums,
    forget_sums,
    is_as_summed,
    read_content,
    read_sums,
    sums_path,
    write_content,
)
from fencepost.snapshots.flushes import sync_path

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


def write_swap_sums(directory: Path, base: Offset, sums: SegmentSums) -> None:
    """The sums of a segment that is written, before it is decided. Raises OSError."""
    owner = read_content(sums_path(segment_files(directory, base)[0]), base).owner
    write_content(_swap_sums(directory, base), base, Content(sums, owner), durable=True)


def keep_swap_sums(directory: Path, base: Offset) -> None:
    """The new segment has its name: its sums get theirs. Raises OSError."""
    if _swap_sums(directory, base).exists():
        _swap_sums(directory, base).rename(sums_path(segment_files(directory, base)[0]))


def finish_swaps(directory: Path) -> list[str]:
    """Do at a start what a killed pass decided, and remove what it did not. Returns what was done.

    Raises   OSError, CorruptData.
    """
    remove_unfinished(directory)
    done = []
    for path in sorted(directory.glob(f"*.log{SWAP}")):
        base = Offset(int(path.name.split(".")[0]))
        end, wrong = _looked_at(directory, base)
        if wrong and segment_files(directory, base)[0].exists():  # it is the first of those that are removed
            for each in (*segment_files(directory, base, SWAP), _swap_sums(directory, base)):
                each.unlink(missing_ok=True)
            done.append(f"{path.name}: removed, {wrong}; what it was to replace is there")
            continue
        if wrong:
            raise CorruptData(f"{path}: {wrong}, and what it replaces is being removed. All bytes are kept")
        old = [each for each in _bases(directory) if base < each < end]
        remove_segments(directory, tuple(old))
        forget_sums(segment_files(directory, base)[0])
        rename_files(directory, base, SWAP, "")
        keep_swap_sums(directory, base)
        sync_path(directory)
        done.append(f"{base:020d}: a cleaner's segment took the place of {len(old) + 1}")
    return done


def changed_swaps(directory: Path) -> str:
    """What is wrong with segments that were decided, and have not taken their place; empty: nothing.

    Raises OSError.
    """
    found = []
    for path in sorted(directory.glob(f"*.log{SWAP}")):
        _, wrong = _looked_at(directory, Offset(int(path.name.split(".")[0])))
        found += [f"{path.name}: {wrong}"] if wrong else []
    return "; ".join(found)


def _looked_at(directory: Path, base: Offset) -> tuple[Offset, str]:
    """Where a decided segment ends, and why it is not to be believed; empty: it is as it was written."""
    segment = Segment(directory, base, SWAP)
    sums = read_sums(_swap_sums(directory, base), base)
    end, wrong = base, ""
    try:
        entry = segment.offsets.last if is_as_summed(segment.files[1], sums.offsets) else None
        for placed in segment.walk(entry[1] if entry is not None and sums != NOTHING else 0):
            end = placed.end
    except CorruptData as error:
        wrong = str(error)
    finally:
        segment.close()
    is_summed = segment.size == sums.batches.size and is_as_summed(segment.path, sums.batches)
    if sums != NOTHING and not is_summed:
        wrong = "other bytes than the cleaner wrote"
    elif not wrong and end not in _bases(directory):
        wrong = f"it ends at offset {end}, where no segment begins"
    return end, wrong


def _bases(directory: Path) -> list[Offset]:
    return sorted(Offset(int(path.stem)) for path in directory.glob("*.log"))


def _swap_sums(directory: Path, base: Offset) -> Path:
    return directory / f"{base:020d}{SUFFIX}{SWAP}"
