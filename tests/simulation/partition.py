"""A simulated partition: the product's own rules of producers (broker/log/producer_state.py) on a list.

What is durable is a Python list; a crash of its broker takes the questions to the coordinator that are under
way, and all but the last batch that it remembers of each producer, as a snapshot file does.
"""

from typing import NamedTuple

import msgspec

from fencepost.broker.log.producer_state import ProducerStates
from fencepost.broker.log.shapes import VerificationGuard
from fencepost.records.batch import BatchHeader
from fencepost.records.batch_layout import TRANSACTIONAL
from fencepost.records.end_marker import NO_VERSION, EndMarker
from fencepost.records.types import ImageVersion, Offset, ProducerId, Term
from tests.simulation.facts import Marked, MarkedByHand, Pair, PassedOver, Place, Purpose, Wrote
from tests.simulation.ledger import Ledger

RECORDS = 1  # in a batch


class Batch(NamedTuple):
    """What a client sends: one batch of one transaction. ``adds``: it uses transactions V2 (Produce 12)."""

    place: Place
    pair: Pair
    sequence: int
    purpose: Purpose
    number: int
    adds: bool = False

    def header(self) -> BatchHeader:
        """As its bytes would say it."""
        return BatchHeader(
            Offset(0), 100, Term(0), TRANSACTIONAL, RECORDS - 1, 0, 0, RECORDS, *self.pair, self.sequence
        )


class Stray(NamedTuple):
    """A batch of a stranger under some producer's id, with an epoch that no coordinator gave out."""

    pair: Pair
    transactional: bool

    def header(self) -> BatchHeader:
        """As its bytes would say it."""
        attributes = TRANSACTIONAL if self.transactional else 0
        return BatchHeader(Offset(0), 100, Term(0), attributes, 0, 0, 0, 1, *self.pair, 0)


class Partition:
    """One partition's log. Offsets are places in ``log``."""

    def __init__(self, place: Place, ledger: Ledger) -> None:
        self.place = place
        self.log: list[Batch | Stray | EndMarker] = []
        self._ledger = ledger
        self._states = ProducerStates()
        self._open: dict[ProducerId, list[Purpose]] = {}

    @property
    def last_stable(self) -> int:
        """What read_committed consumers may read: everything before it."""
        unstable = self._states.first_unstable()
        return len(self.log) if unstable is None else unstable

    def committed(self) -> list[Batch]:
        """What a read_committed consumer that reads everything has seen so far."""
        seen: list[Batch] = []
        waiting: dict[ProducerId, list[Batch]] = {}
        for entry in self.log[: self.last_stable]:
            if isinstance(entry, Batch):
                waiting.setdefault(entry.pair[0], []).append(entry)
            elif isinstance(entry, EndMarker):
                ended = waiting.pop(entry.producer_id, [])
                seen += ended if entry.committed else []
        return seen

    def crash(self) -> None:
        """The broker's memory is gone: what a snapshot and the log tell is left."""
        table = {
            producer: msgspec.structs.replace(state, batches=state.batches[-1:])
            for producer, state in self._states.table.items()
        }
        self._states = ProducerStates()
        self._states.restore(table)

    def guard(self, batch: Batch, now_ms: int) -> VerificationGuard | None:
        """None: the transaction is open here, nobody needs to be asked."""
        return self._states.verification_guard(*batch.pair, batch.sequence, now_ms, adds=batch.adds)

    def announce(self, producer_id: ProducerId, epoch: int, version: ImageVersion) -> None:
        """The coordinator says unasked that a transaction holds this partition."""
        self._states.announce(producer_id, epoch, version)

    def is_announced(self, producer_id: ProducerId, epoch: int) -> bool:
        """Of this transaction it did."""
        return self._states.is_announced(producer_id, epoch)

    def is_duplicate(self, batch: Batch) -> bool:
        """It is one of the last batches of its producer."""
        return self._states.duplicate(batch.header()) is not None

    def append(self, batch: Batch, guard: VerificationGuard | None, now_ms: int) -> None:
        """Raises what broker/log/producer_state.py raises."""
        header = batch.header()
        if self._states.duplicate(header) is not None:
            return
        self._states.check(header, guard, verification=True)
        self._states.take(header, Offset(len(self.log)), now_ms)
        self.log.append(batch)
        purposes = self._open.setdefault(batch.pair[0], [])
        if batch.purpose not in purposes:
            purposes.append(batch.purpose)
        self._ledger.fact(Wrote(self.place, batch.pair, batch.purpose, batch.number))

    def append_stray(self, stray: Stray, now_ms: int) -> None:
        """As where transaction.partition.verification.enable is false. Raises as ``append``."""
        header = stray.header()
        if self._states.duplicate(header) is None:
            self._states.check(header, None, verification=False)
            self._states.take(header, Offset(len(self.log)), now_ms)
            self.log.append(stray)

    def producers(self) -> list[tuple[ProducerId, int, bool]]:
        """(producer id, epoch, has a transaction open) of all that are known, as DescribeProducers tells."""
        table = self._states.table
        return [(each, state.epoch, state.transaction_first >= 0) for each, state in sorted(table.items())]

    def state_of(self, producer_id: ProducerId) -> object:
        """The same object as long as nothing of the producer is appended."""
        return self._states.table.get(producer_id)

    def check_marker(self, marker: EndMarker) -> None:
        """Raises what broker/log/producer_state.py raises."""
        self._states.check_marker(marker)

    def append_marker(self, marker: EndMarker, now_ms: int, *, forced: bool = False) -> None:
        """Raises what broker/log/producer_state.py raises."""
        pair = (marker.producer_id, marker.producer_epoch)
        if not self._states.check_marker(marker, forced=forced):
            self._states.pass_over(marker)
            is_late = marker.version <= self._states.table[marker.producer_id].marker_version
            still_open = () if is_late else tuple(self._open.get(marker.producer_id, ()))
            self._ledger.fact(PassedOver(self.place, pair, marker.version, still_open))
            return
        self._states.take_marker(marker, Offset(len(self.log)), now_ms, now_ms)
        self.log.append(marker)
        closed = tuple(self._open.pop(marker.producer_id, ()))
        if marker.version == NO_VERSION:
            self._ledger.fact(MarkedByHand(self.place, pair, closed))
        else:
            self._ledger.fact(Marked(self.place, pair, marker.committed, marker.version, closed))
