"""One producer id on one partition: its epoch, its sequence, and what it wrote since its last marker.

Without     an epoch a batch is of its producer's current one; or, as what follows shows, of the next one.
Source      Kafka ProducerStateEntry, ProducerAppendInfo.
"""

from typing import Any, Final

SEQUENCES: Final = 2**31  # 0 follows 2^31 - 1
_HALF: Final = 2**30
_NONE: Final = -1


def signed(step: int) -> int:
    """A difference of two sequences, the short way round: [-2^30, 2^30)."""
    return (step + _HALF) % SEQUENCES - _HALF


class Producer:
    """State of a producer id after the rows so far."""

    __slots__ = (
        "batches", "coordinator_before", "coordinator_epoch", "data_epoch", "data_last", "data_ms",
        "end", "epoch", "expected", "first_data", "flags", "furthest", "holes", "id", "is_assumed", "jump",
        "last_offset", "late", "marker", "marker_offset", "meant", "missing", "opaque", "place", "plain",
        "previous_end", "previous_epoch", "previous_turn", "runs", "without_epoch", "written_ms",
    )  # fmt: skip

    def __init__(self, producer_id: int, epoch: int, begins_at: int = _NONE) -> None:
        self.id = producer_id
        self.epoch = epoch  # -1: not known yet
        self.expected = begins_at  # sequence of its next batch; -1: any
        self.end = self.furthest = self.meant = begins_at
        self.last_offset: int | None = None
        self.missing = 0  # of the log when it wrote last
        self.coordinator_epoch = 0
        self.previous_epoch, self.previous_end = _NONE, 0  # the epoch before, and where its sequence ended
        self.runs: dict[int, dict[str, Any]] = {}  # of data of epochs that were over
        self.marker_offset: int | None = None
        self.previous_turn: tuple[int, int | None, int, int] | None = None
        """Of its last marker: epoch, its data's epoch and batches, outcome."""
        self.jump: tuple[int, int] | None = (
            None  # epochs of a marker and its data that do not belong together
        )
        self.coordinator_before = 0  # of the marker before the last one
        self.marker: dict[str, Any] = {}  # the last one: where it is
        self.opaque = self.holes = 0
        self._clear()

    def _clear(self) -> None:
        self.first_data: int | None = None
        self.data_last: int | None = None
        self.data_epoch: int | None = None
        self.data_ms: int | None = None
        self.written_ms: int | None = None
        self.plain: int | None = None
        self.place: tuple[Any, ...] = (None, None, None)
        self.batches = 0
        self.is_assumed = True  # no batch of its data says an epoch
        self.without_epoch = False  # its last batch has none
        self.flags = 0
        self.late: int | None = None  # the first data of a later epoch than its data's

    def begin(self, epoch: int) -> None:
        """A higher epoch writes: its sequence begins at 0."""
        self.previous_epoch = self.epoch
        self.previous_end = max(self.furthest, 0)
        self.epoch = epoch
        self.expected = self.end = self.furthest = self.meant = 0

    def is_of(self, epoch: int, sequence: int) -> bool:
        """Whether its last batches, without an epoch, were of this one, as ``sequence`` goes on there."""
        return self.without_epoch and sequence != 0 and (self.epoch < 0 or self.end == sequence)

    def adopt(self, epoch: int) -> None:
        """Its last batches, without an epoch, were of this one."""
        self.epoch = epoch
        self.name_data(epoch)

    def name_data(self, epoch: int) -> None:
        """The epoch of its turn's data, where no batch of it says one."""
        if self.is_assumed and self.data_epoch is not None:
            self.data_epoch = epoch

    def follows(self, sequence: int, count: int) -> bool:
        """Whether it goes on after the last batch, the furthest, or what the last one should have been."""
        return sequence in (self.end, self.furthest, self.meant)

    def wrote(self, sequence: int, count: int, last: int, missing: int) -> None:
        """Its batch of ``count`` records is in the log."""
        self.meant = (self.end + count) % SEQUENCES if self.end != _NONE else _NONE
        self.end = (sequence + count) % SEQUENCES
        if self.furthest == _NONE or signed(self.end - self.furthest) > 0:
            self.furthest = self.end
        self.expected, self.last_offset, self.missing = self.end, last, missing

    def add(self, data: tuple[int, ...], place: tuple[Any, ...], transactional: int) -> None:
        """Data of its epoch, or without one (below 0): part of its turn."""
        base, last, epoch, time_ms, written_ms, flags = data
        self.without_epoch = epoch < 0
        if not transactional:
            if self.plain is None:
                self.plain = base
            if self.batches == 0 and self.place[1] is None:
                self.place = place
            return
        if self.batches == 0:
            self.first_data, self.data_epoch, self.data_ms = base, self.epoch, time_ms
            self.written_ms, self.place = written_ms, place
        self.is_assumed &= epoch < 0
        self.data_last = last
        self.batches += 1
        self.flags |= flags

    @property
    def is_open(self) -> bool:
        """Whether there is data that no marker has ended, or that should have been a transaction's."""
        return self.batches > 0 or (self.plain is not None and self.marker_offset is not None)

    @property
    def turn(self) -> tuple[Any, ...]:
        """data_epoch, data_offset, data_last, batches, plain_offset, data_ms, written_ms."""
        return (self.data_epoch, self.first_data, self.data_last, self.batches, self.plain, self.data_ms,
                self.written_ms)  # fmt: skip

    def end_turn(self, epoch: int, base: int, kind: int, opaque: int, holes: int) -> None:
        """A marker of ``epoch``, at offset ``base``."""
        self.previous_turn = (epoch, self.data_epoch, self.batches, kind)
        if self.data_epoch is not None and epoch > self.data_epoch + 1:
            self.jump = (epoch, self.data_epoch)
        if epoch > self.epoch:
            is_unsure = self.without_epoch and self.is_assumed
            self.begin(epoch)
            if is_unsure:  # its data was of this epoch, or of the one before
                self.expected = _NONE
        self.marker_offset, self.opaque, self.holes = base, opaque, holes
        self._clear()

    def is_overtaken_by_its_marker(self, epoch: int, sequence: int) -> bool:
        """Whether data of an older epoch is its last marker's: a commit that ended nothing and bumped it."""
        if self.previous_turn is None or self.batches:
            return False
        marker_epoch, _, batches, kind = self.previous_turn
        if batches or not kind or marker_epoch != epoch + 1 or self.epoch != marker_epoch:
            return False
        return sequence == (self.previous_end if self.previous_epoch == epoch else 0)

    def is_exchanged(self, epoch: int) -> bool:
        """Whether a marker of ``epoch`` and one of a higher epoch, which ended its data, changed places."""
        if self.jump is None:
            return False
        marker_epoch, data_epoch = self.jump
        return marker_epoch > epoch and data_epoch == epoch - 1
