"""What a partition knows of each producer: its last batches, its epoch, its open transaction.

Pure. ``check`` and ``check_marker`` may refuse and change nothing; ``take`` and ``take_marker`` are total and
are the only ones that change state: an append and a recovery from the log do the same.

Duplicate   the same epoch and the very sequences of one of the last 5 batches, and both in a transaction or
            neither: answered with its offset.
Epoch       never goes back; a new one begins with sequence 0 and forgets the batches of the old one.
Sequence    follows the last one; after 2^31 - 1 comes 0. A producer without state may begin anywhere: its
            first sequence is verified with the coordinator by the caller (KIP-360). One of transactions V2
            has an epoch for each transaction, so it begins with 0 there, too: another batch came too early.
Marker      one with a version is the coordinator's. A version that is not newer than that of the producer's
            last marker is a late duplicate: it can never end a later transaction. With an epoch below the
            known one and nothing open it ends nothing, as nothing of its transaction can come any more; while
            one is open it is refused (47), unless it is forced. The memory lasts as long as the state.
            One of transactions V2 has an epoch that no batch of its transaction has: if the producer has it
            here already, it ends nothing, or it is refused, as an older one. The next transaction has that
            epoch: what is asked about it while the marker is on its way stays asked.
Kept        states outlive their records, until ``expire`` finds them unused for the expiration time.
Source      Kafka ProducerStateManager, ProducerAppendInfo; KIP-890 part 1; docs/kafka-notes.md C1-C5.
"""

from collections import OrderedDict
from itertools import islice
from typing import Final, NamedTuple

import msgspec

from fencepost.broker.log.shapes import (
    NO_OFFSET,
    NO_PRODUCER_EPOCH,
    NO_SEQUENCE,
    ProducerRow,
    VerificationGuard,
)
from fencepost.controller.errors import (
    InvalidProducerEpoch,
    InvalidTxnState,
    OutOfOrderSequence,
    PolicyViolation,
    TransactionCoordinatorFenced,
)
from fencepost.records.batch import BatchHeader
from fencepost.records.end_marker import IMAGE_VERSION_MAX, NO_VERSION, EndMarker
from fencepost.records.types import ImageVersion, Offset, ProducerId

CACHED_BATCHES_MAX: Final = 5
"""Kafka's: as many requests as an idempotent producer may have in flight."""

SEQUENCE_MAX: Final = 2**31 - 1
VERIFICATIONS_MAX: Final = 100_000  # begun and not ended; the oldest is forgotten: its sender tries again
PRODUCERS_MAX: Final = 100_000  # known to one partition; past it those that wrote longest ago are forgotten
PRODUCERS_FORGOTTEN: Final = 100  # at once
NO_COORDINATOR_EPOCH: Final = -1


class CachedBatch(msgspec.Struct, frozen=True, gc=False):
    """One of a producer's last batches. Not tracked by the collector: there may be 500,000."""

    last_sequence: int
    last_offset: Offset
    offset_delta: int  # last offset - first offset
    timestamp_ms: int
    is_transactional: bool | None = None  # None: not known, it comes from a snapshot

    @property
    def first_sequence(self) -> int:
        """Undoes the wrap after SEQUENCE_MAX."""
        return (self.last_sequence - self.offset_delta) & SEQUENCE_MAX


class Producer(msgspec.Struct, frozen=True, gc=False):
    """The state of one producer. Replaced, never changed, so that a copy of the table costs little."""

    epoch: int = NO_PRODUCER_EPOCH
    batches: tuple[CachedBatch, ...] = ()  # the oldest first, of this epoch
    coordinator_epoch: int = NO_COORDINATOR_EPOCH
    last_timestamp_ms: int = -1  # as the batch or marker says
    transaction_first: Offset = NO_OFFSET
    marker_version: ImageVersion = NO_VERSION
    seen_ms: int = -1  # the partition's own clock at the last append: what expiry goes by

    @property
    def last_sequence(self) -> int:
        """NO_SEQUENCE without a batch in this epoch."""
        return self.batches[-1].last_sequence if self.batches else NO_SEQUENCE


class Ended(NamedTuple):
    """A transaction that a marker ended, as the transaction index has it."""

    producer_id: ProducerId
    first_offset: Offset
    last_offset: Offset  # of the marker
    last_stable_offset: Offset  # after it


class _Verification:
    """A verification that is under way at the coordinator: its epoch, lowest sequence and guard."""

    __slots__ = ("adds", "begun_ms", "epoch", "guard", "lowest_sequence")

    def __init__(
        self, guard: VerificationGuard, epoch: int, sequence: int, begun_ms: int, adds: bool
    ) -> None:
        self.guard = guard
        self.epoch = epoch
        self.lowest_sequence = sequence
        self.begun_ms = begun_ms
        self.adds = adds  # of a client of transactions V2


class ProducerStates:
    """Every producer of one partition."""

    def __init__(self) -> None:
        self.table: dict[ProducerId, Producer] = {}
        self._open: OrderedDict[Offset, ProducerId] = OrderedDict()  # transactions by their first offset
        self._verifications: OrderedDict[ProducerId, _Verification] = OrderedDict()  # the oldest first
        self._announced: OrderedDict[ProducerId, int] = OrderedDict()  # epochs verified without a question
        self._guards_given = 0
        self._sweep: list[ProducerId] = []

    def restore(self, table: dict[ProducerId, Producer]) -> None:
        """Begin with what a snapshot holds."""
        for producer_id, state in table.items():
            if state.marker_version > IMAGE_VERSION_MAX:  # not written by a coordinator
                table[producer_id] = msgspec.structs.replace(state, marker_version=NO_VERSION)
        self.table = table
        opened = sorted(
            (state.transaction_first, producer_id)
            for producer_id, state in table.items()
            if state.transaction_first != NO_OFFSET
        )
        self._open = OrderedDict(opened)

    def first_unstable(self) -> Offset | None:
        """The first offset of the oldest open transaction; None if none is open."""
        return next(iter(self._open)) if self._open else None

    def duplicate(self, batch: BatchHeader) -> CachedBatch | None:
        """What the batch is a repetition of."""
        state = self.table.get(batch.producer_id)
        if state is None or state.epoch != batch.producer_epoch:
            return None
        delta = batch.last_offset_delta
        last = _advanced(batch.base_sequence, delta)
        for cached in state.batches:
            if cached.last_sequence == last and cached.offset_delta == delta:
                # A plain batch of another client may have this producer's next epoch: not a repeat of these.
                return cached if cached.is_transactional in (None, batch.is_transactional) else None
        return None

    def check(self, batch: BatchHeader, guard: VerificationGuard | None, *, verification: bool) -> None:
        """May the producer append this batch, which is no duplicate?

        Raises   InvalidTxnState, InvalidProducerEpoch, OutOfOrderSequence, PolicyViolation.
        """
        producer_id, epoch, sequence = batch.producer_id, batch.producer_epoch, batch.base_sequence
        state = self.table.get(producer_id)
        is_open = state is not None and state.transaction_first != NO_OFFSET
        pending = self._verifications.get(producer_id) if self._verifications else None
        continues = is_open and state is not None and epoch <= state.epoch
        if batch.is_transactional and not continues and verification:
            if guard is None or pending is None or pending.guard != guard:
                raise InvalidTxnState(
                    f"producer {producer_id}: the transaction was not verified, or ended meanwhile"
                )
        if state is not None and epoch < state.epoch:
            raise InvalidProducerEpoch(
                f"producer {producer_id} sent epoch {epoch}, the partition knows {state.epoch}"
            )
        if state is not None and state.epoch != NO_PRODUCER_EPOCH:
            expected = 0 if epoch != state.epoch else _advanced(state.last_sequence, 1)
            if sequence != expected:
                raise OutOfOrderSequence(
                    f"producer {producer_id}, epoch {epoch}: sequence {sequence}, expected {expected}"
                )
        elif pending is not None and pending.epoch == epoch:
            first = 0 if pending.adds else pending.lowest_sequence
            if sequence != first and (pending.adds or _precedes(first, sequence)):
                raise OutOfOrderSequence(f"producer {producer_id} sent sequence {sequence} before {first}")
        if is_open and not batch.is_transactional:
            raise InvalidTxnState(f"producer {producer_id} has a transaction open, the batch is of none")
        if state is None and len(self._open) >= PRODUCERS_MAX:
            raise PolicyViolation(f"{PRODUCERS_MAX} producers have transactions open on the partition")

    def take(self, batch: BatchHeader, base_offset: Offset, now_ms: int) -> None:
        """A data batch of a producer is in the log."""
        state = self.table.get(batch.producer_id) or _UNKNOWN
        delta = batch.last_offset_delta
        timestamp_ms = batch.max_timestamp_ms
        cached = CachedBatch(
            _advanced(batch.base_sequence, delta),
            Offset(base_offset + delta),
            delta,
            timestamp_ms,
            batch.is_transactional,
        )
        kept = state.batches[1 - CACHED_BATCHES_MAX :] if state.epoch == batch.producer_epoch else ()
        first = state.transaction_first
        if batch.is_transactional:
            if first == NO_OFFSET:
                first = base_offset
                self._open[first] = batch.producer_id
            self._verifications.pop(batch.producer_id, None)
            self._announced.pop(batch.producer_id, None)
        self._forget(batch.producer_id)
        self.table[batch.producer_id] = Producer(
            batch.producer_epoch, (*kept, cached), state.coordinator_epoch, timestamp_ms, first,
            state.marker_version, now_ms,
        )  # fmt: skip

    def check_marker(self, marker: EndMarker, *, forced: bool = False) -> bool:
        """Is the marker to be appended? False: there is nothing that it could end, the answer is NONE.

        Of the coordinator's markers the version says which is newer: what an entry of the log decided is
        right under any leader. ``forced``: one of these, over a higher epoch.
        Raises   InvalidProducerEpoch, TransactionCoordinatorFenced.
        """
        state = self.table.get(marker.producer_id)
        if state is None:
            return True
        if marker.version != NO_VERSION:
            if marker.version <= state.marker_version:
                return False
            if forced or not _is_old(marker, state):
                return True
            if state.transaction_first == NO_OFFSET:
                return False
        elif marker.bumps_epoch and _is_old(marker, state) and state.transaction_first == NO_OFFSET:
            return False
        if _is_old(marker, state):
            raise InvalidProducerEpoch(
                f"a marker for producer {marker.producer_id} of epoch {marker.producer_epoch}, "
                f"the partition knows {state.epoch}"
            )
        if marker.coordinator_epoch < state.coordinator_epoch:
            raise TransactionCoordinatorFenced(
                f"a marker of coordinator epoch {marker.coordinator_epoch}, "
                f"the partition knows {state.coordinator_epoch}"
            )
        return True

    def take_marker(self, marker: EndMarker, offset: Offset, timestamp_ms: int, now_ms: int) -> Ended | None:
        """A marker is in the log. Returns the transaction that it ended, if one was open."""
        producer_id = marker.producer_id
        state = self.table.get(producer_id) or _UNKNOWN
        pending = self._verifications.get(producer_id)
        if pending is not None and not (marker.bumps_epoch and pending.epoch >= marker.producer_epoch):
            del self._verifications[producer_id]  # requested before the marker: the result is stale
        self._announced.pop(producer_id, None)
        version = marker.version if marker.version <= IMAGE_VERSION_MAX else NO_VERSION
        self.table[producer_id] = Producer(
            max(marker.producer_epoch, state.epoch),  # a forced one may be older
            state.batches if state.epoch >= marker.producer_epoch else (),
            marker.coordinator_epoch,
            timestamp_ms,
            NO_OFFSET,
            max(version, state.marker_version),
            now_ms,
        )
        if state.transaction_first == NO_OFFSET:
            return None
        del self._open[state.transaction_first]
        unstable = self.first_unstable()
        stable = Offset(offset + 1) if unstable is None else unstable
        return Ended(producer_id, state.transaction_first, offset, stable)

    def pass_over(self, marker: EndMarker) -> None:
        """A marker was not appended: what was allowed to its epoch or an older one opens nothing."""
        producer_id = marker.producer_id
        state = self.table.get(producer_id)
        if state is None or marker.producer_epoch >= state.epoch:
            return  # a late duplicate: the next transaction may be of the same epoch
        pending = self._verifications.get(producer_id)
        if pending is not None and pending.epoch <= marker.producer_epoch:
            del self._verifications[producer_id]
        if self._announced.get(producer_id, marker.producer_epoch + 1) <= marker.producer_epoch:
            del self._announced[producer_id]

    def verification_guard(
        self, producer_id: ProducerId, epoch: int, sequence: int, now_ms: int, *, adds: bool = False
    ) -> VerificationGuard | None:
        """The guard of the verification under way, or of a new one. None: none is needed.

        The transaction is open in this epoch, or in a newer one, and the batch is refused.
        ``adds``: the client uses transactions V2.
        """
        state = self.table.get(producer_id)
        if state is not None and state.transaction_first != NO_OFFSET and epoch <= state.epoch:
            return None
        pending = self._verifications.get(producer_id)
        if pending is None:
            if len(self._verifications) >= VERIFICATIONS_MAX:
                self._verifications.popitem(last=False)
            self._guards_given += 1
            pending = _Verification(VerificationGuard(self._guards_given), epoch, sequence, now_ms, adds)
            self._verifications[producer_id] = pending
        elif epoch > pending.epoch:
            pending.epoch, pending.lowest_sequence, pending.adds = epoch, sequence, adds
        elif epoch == pending.epoch and _precedes(sequence, pending.lowest_sequence):
            pending.lowest_sequence = sequence
        return pending.guard

    def announce(self, producer_id: ProducerId, epoch: int, version: ImageVersion) -> None:
        """The coordinator says unasked: in the image of ``version`` the producer's transaction holds us.

        Of no use once a marker came that is not older, or a newer epoch, or while the transaction is open.
        """
        state = self.table.get(producer_id)
        if state is not None and (
            state.transaction_first != NO_OFFSET or epoch < state.epoch or version <= state.marker_version
        ):
            return
        if len(self._announced) >= VERIFICATIONS_MAX:
            self._announced.popitem(last=False)
        self._announced[producer_id] = epoch

    def is_announced(self, producer_id: ProducerId, epoch: int) -> bool:
        """Whether the first batch of this transaction needs no verification by the coordinator."""
        return self._announced.get(producer_id) == epoch

    def expire(self, now_ms: int, expiration_ms: int, limit: int) -> bool:
        """Look at the next ``limit`` producers of a sweep. True: the sweep is not at its end."""
        if not self._sweep:
            self._sweep = list(self.table)
        self._forget_verifications(now_ms - expiration_ms, limit)
        for _ in range(min(limit, len(self._sweep))):
            producer_id = self._sweep.pop()
            state = self.table.get(producer_id)
            if state is None or state.transaction_first != NO_OFFSET:
                continue
            if now_ms - state.seen_ms >= expiration_ms:
                del self.table[producer_id]
        return bool(self._sweep)

    def _forget(self, newest: ProducerId) -> None:
        """Make room for what is known of that producer, which is the newest then: the table is by age."""
        if self.table.pop(newest, None) is not None or len(self.table) < PRODUCERS_MAX:
            return
        idle = (each for each, state in self.table.items() if state.transaction_first == NO_OFFSET)
        for producer_id in tuple(islice(idle, PRODUCERS_FORGOTTEN)):
            del self.table[producer_id]

    def _forget_verifications(self, begun_ms_max: int, limit: int) -> None:
        for _ in range(min(limit, len(self._verifications))):
            producer_id, pending = next(iter(self._verifications.items()))
            if pending.begun_ms > begun_ms_max:
                return
            del self._verifications[producer_id]

    def row(self, producer_id: ProducerId) -> ProducerRow | None:
        """One producer, as DescribeProducers shows it."""
        state = self.table.get(producer_id)
        if state is None:
            return None
        return ProducerRow(
            producer_id,
            state.epoch,
            state.last_sequence,
            state.last_timestamp_ms,
            state.coordinator_epoch,
            state.transaction_first,
        )


def _is_old(marker: EndMarker, state: Producer) -> bool:
    """The producer is past the marker's transaction, by their epochs."""
    if marker.bumps_epoch:
        return marker.producer_epoch <= state.epoch
    return marker.producer_epoch < state.epoch


def _advanced(sequence: int, count: int) -> int:
    """The sequence ``count`` later: after SEQUENCE_MAX comes 0; after NO_SEQUENCE as well."""
    return (sequence + count) & SEQUENCE_MAX


def _precedes(sequence: int, other: int) -> bool:
    """Of two sequences less than half the range apart: the first comes earlier, across the wrap too.

    Deviation   Kafka compares the numbers: batches in flight at the wrap refuse each other (45).
    """
    return 0 < (other - sequence) & SEQUENCE_MAX <= SEQUENCE_MAX // 2


_UNKNOWN: Final = Producer()
