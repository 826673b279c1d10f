"""What opening an archive finds on the disk, and what it cuts.

Cut      to the last whole batch, where the journal refills what goes. Before ``flushed_end``, up to which the
         archive was flushed and the journal need not reach, nothing is cut but a torn tail.
Damage   is what leads nowhere there, or is not as it was summed (snapshots/checksums.py): the bytes stay.
Epochs   which no CRC covers, of what is not summed yet, are those that the journal says.
Sums     of segments that are not sealed are compared here; those of sealed ones by each reader
         (segments.py), and by the scrub (archive_scrub.py).
Holes    ``holes.json`` that cannot be read is kept beside a new one, which names what lies between segments.
"""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Final, NamedTuple

from fencepost.records.invariant import CorruptData
from fencepost.records.types import Offset, Term
from fencepost.records.whole_batches import first_whole
from fencepost.snapshots.checksums import Owner, forget_sums, torn_sums
from fencepost.snapshots.flushes import replace_file, sync_path
from fencepost.snapshots.reads import read_bytes
from fencepost.snapshots.segments import (
    HOLES_FILE,
    HOLES_MAX,
    LOG_START,
    Hole,
    TornTail,
    encode_holes,
    gaps_between,
    list_segments,
    load_holes,
    sound_part,
    unlike_written,
)

EpochAt = Callable[[Offset], Term | None]
"""The leader epoch of the batch at an offset; None where nothing says."""

SEALED: Final = 0o444
OPEN: Final = 0o644


class Cut(NamedTuple):
    """What opening took away: ``size`` bytes from ``position`` on (and every file after), and why."""

    path: Path
    position: int
    size: int
    reason: str


class Damage(NamedTuple):
    """What opening left as it is: from ``position`` on the file's batches lead nowhere, and why."""

    path: Path
    position: int
    offset: Offset
    reason: str


class ArchiveRecovery:
    """The files of an archive that is being opened. The list of segments is the archive's from then on."""

    def __init__(self, directory: Path, flushed_end: Offset, owner: Owner, epoch_at: EpochAt) -> None:
        self._directory = directory
        self._epoch_at = epoch_at
        self._flushed_end = flushed_end
        self._owner = owner
        self.segments = list(list_segments(directory))
        self.cut: Cut | None = None
        self.damage: Damage | None = None  # the first one
        self.torn_sums = torn_sums(each.path for each in self.segments if not each.sealed)
        self.holes = self._named_holes()
        self.lost_its_start = self._begins_nowhere()

    def scan(self) -> Offset | None:
        """Read what is not sealed, and cut. Returns where the last batch ends; None without one."""
        sealed = [number for number, segment in enumerate(self.segments) if segment.sealed]
        suspects_from = min(sealed[-1] + 1, len(self.segments) - 1) if sealed else 0
        end: Offset | None = None
        for number in range(suspects_from, len(self.segments)):
            segment = self.segments[number]
            if end is not None and segment.base != end and Hole(end, segment.base) not in self.holes:
                reason = f"it begins at offset {segment.base}, expected {end}"
                if end < self._flushed_end:
                    self._keep(number, 0, end, reason)
                else:
                    self._cut(number, 0, reason)
                    self.segments.pop().path.unlink()  # emptied, and no batch of this name will come
                    break
            end, position, error = sound_part(segment, self._epoch_at)
            if error is None:
                unlike = unlike_written(segment, self._owner)
                if unlike is not None and segment.base < self._flushed_end:
                    self._keep(number, 0, segment.base, unlike)  # offsets are right: it goes on behind
                elif unlike is not None:
                    self._cut(number, 0, unlike)
                    end = segment.base
                    break
                continue
            if end < self._flushed_end and not self._is_torn(number, position, end, error):
                self._keep(number, position, end, str(error))
            else:
                self._cut(number, position, str(error))
                break
        return end

    def begin_again(self) -> None:
        """Take all of it away, where ``lost_its_start``: what was not flushed is in the journal."""
        self.save_holes(())  # first: killed behind it, the next opening finds the same and begins again, too
        self._cut(0, 0, f"it begins at offset {self.segments[0].base}, and names before it were lost")
        self.segments.pop().path.unlink()
        self.lost_its_start = False

    def save_holes(self, holes: tuple[Hole, ...]) -> None:
        """Replace the file ``holes.json`` as a whole, durably."""
        replace_file(self._directory / HOLES_FILE, encode_holes(holes), durable=True)
        self.holes = holes

    def _begins_nowhere(self) -> bool:
        """Nothing says that it was flushed, and no hole leads to its first segment: names were lost."""
        if not self.segments or any(each.sealed for each in self.segments):
            return False
        base = self.segments[0].base
        return base > self._flushed_end and Hole(LOG_START, base) not in self.holes

    def _is_torn(self, number: int, position: int, end: Offset, error: CorruptData) -> bool:
        """The log ends inside that batch: no whole one lies behind it."""
        later = self.segments[number + 1 :]
        if not isinstance(error, TornTail) or any(each.path.stat().st_size for each in later):
            return False
        return first_whole(read_bytes(self.segments[number].path), position, end) is None

    def _keep(self, number: int, position: int, offset: Offset, reason: str) -> None:
        """Leave a segment as it is: nothing is appended to it any more."""
        segment = self.segments[number]
        segment.path.chmod(SEALED)
        self.segments[number] = segment._replace(sealed=True)
        if self.damage is None:
            self.damage = Damage(segment.path, position, offset, reason)

    def _cut(self, number: int, position: int, reason: str) -> None:
        """Take away everything from ``position`` of segment ``number`` on."""
        segment = self.segments[number]
        size = segment.path.stat().st_size - position
        for later in self.segments[number + 1 :]:
            later.path.unlink()
            forget_sums(later.path)
        forget_sums(segment.path)
        segment.path.chmod(OPEN)
        os.truncate(segment.path, position)
        self.segments[number:] = [segment._replace(sealed=False)]
        sync_path(self._directory)
        self.cut = Cut(segment.path, position, size, reason)

    def _named_holes(self) -> tuple[Hole, ...]:
        try:
            return load_holes(self._directory)
        except CorruptData as error:
            path = self._directory / HOLES_FILE
            self.damage = Damage(path, 0, LOG_START, str(error))
            path.replace(path.with_name(f"{HOLES_FILE}.damaged"))
            gaps = gaps_between(tuple(self.segments))[-HOLES_MAX:]
            self.save_holes(gaps)
            return gaps
