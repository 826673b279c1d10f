"""Simulated brokers: Produce with verification, WriteTxnMarkers, deaths.

They do what broker/produce.py, broker/verification.py and broker/markers.py do, without sockets; the rules of
a partition are the product's own (partition.py), and so is what a coordinator's code means to a producer.
"""

import random
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from fencepost.broker.foreign_markers import open_partitions
from fencepost.broker.log.shapes import VerificationGuard
from fencepost.broker.markers import end_marker_of
from fencepost.broker.verification import verdict
from fencepost.controller.errors import ApiError, ErrorCode
from fencepost.controller.transactions.add_partitions import (
    AddPartitions,
    AddPartitionsAnswer,
    AddPartitionsToTxn,
    AddPartitionsToTxnAnswer,
)
from fencepost.controller.transactions.describe import DescribeTransactionsAnswer
from fencepost.records.end_marker import IMAGE_VERSION_MAX, NO_VERSION, EndMarker
from fencepost.records.transaction_log import TopicPartitions
from fencepost.records.types import BrokerId, ImageVersion, NodeId, ProducerId
from fencepost.wire.k00_produce import Produce
from fencepost.wire.k27_write_txn_markers import TxnMarker, WriteTxnMarkers, WriteTxnMarkersAnswer
from fencepost.wire.k20024_announce_partitions import AnnouncePartitions
from tests.simulation.agenda import Agenda
from tests.simulation.facts import Place
from tests.simulation.ledger import Ledger
from tests.simulation.partition import Batch, Partition, Stray
from tests.simulation.post import Post

if TYPE_CHECKING:
    from tests.simulation.coordinator import Coordinator

TOPIC: Final = "orders"
SENT: Final = Produce(None, -1, 0, (), knows_abortable=False)  # version 10, as librdkafka's
VERIFY_PATIENCE_S: Final = 0.5
Told = Callable[[Any], None]


class Addition(NamedTuple):
    """Of a partition to the one transaction that a pair has with transactions V2."""

    place: Place
    producer_id: ProducerId
    epoch: int


class Broker:
    """The leader of some partitions, and their only replica."""

    def __init__(
        self,
        broker_id: BrokerId,
        agenda: Agenda,
        rng: random.Random,
        post: Post,
        ledger: Ledger,
        voters: Mapping[NodeId, "Coordinator"],
    ) -> None:
        self.broker_id = broker_id
        self.partitions: dict[Place, Partition] = {}
        self._agenda = agenda
        self._rng = rng
        self._post = post
        self._ledger = ledger
        self._voters = voters
        self.coordinator: NodeId | None = None
        self._adding: dict[Addition, list[Callable[[], None]]] = {}
        self._life = 1
        self._is_up = True
        if post.weather.broker_deaths:
            agenda.after(rng.expovariate(post.weather.broker_deaths), self._die)

    # -- deaths -----------------------------------------------------------------------------------

    def _die(self) -> None:
        weather = self._post.weather
        if not weather.broker_deaths:
            return
        if self._is_up:
            self._is_up = False
            self._ledger.count("broker deaths")
            self._agenda.after(self._rng.uniform(*weather.broker_downtime_s), self._come_back)
        self._agenda.after(self._rng.expovariate(weather.broker_deaths), self._die)

    def is_away(self, away: bool) -> None:
        """It hears nothing meanwhile, and forgets nothing (stories)."""
        self._is_up = not away

    def _come_back(self) -> None:
        self._is_up = True
        self._life += 1
        for partition in self.partitions.values():
            partition.crash()

    # -- Produce ----------------------------------------------------------------------------------

    def produce(self, batch: Batch, told: Told) -> None:
        """A batch arrives; ``told`` a code."""
        if not self._is_up:
            return
        partition = self.partitions[batch.place]
        guard = partition.guard(batch, self._now_ms())
        if guard is None or partition.is_announced(*batch.pair):
            self._append(partition, batch, guard, told)
        else:
            verified = partial(self._verified, self._life, partition, batch, guard, told)
            self._verify(batch, verified, adds=batch.adds)

    def _verified(
        self,
        life: int,
        partition: Partition,
        batch: Batch,
        guard: VerificationGuard,
        told: Told,
        code: ErrorCode,
    ) -> None:
        if not self._is_up or life != self._life:
            return
        if code != ErrorCode.NONE:
            told(verdict(code, SENT))
        else:
            self._append(partition, batch, guard, told)

    def _append(
        self, partition: Partition, batch: Batch, guard: VerificationGuard | None, told: Told
    ) -> None:
        try:
            partition.append(batch, guard, self._now_ms())
        except ApiError as refusal:
            if refusal.code == ErrorCode.INVALID_PRODUCER_EPOCH and guard is None:
                self._verify(batch, lambda code: told(_why_old(code)))
            else:
                told(refusal.code)
        else:
            told(ErrorCode.NONE)

    def _verify(self, batch: Batch, told: Callable[[ErrorCode], None], *, adds: bool = False) -> None:
        """Ask who leads as far as is known; no answer in time: the producer tries again.

        An addition that is too early (51) is answered by its announcement, or when the time is up.
        """
        waiting, life, early = [True], self._life, [False]
        node = self.coordinator
        if node is None:
            node = self.coordinator = self._rng.choice(sorted(self._voters))

        def heard(answer: Any) -> None:
            if not waiting[0] or not self._is_up or life != self._life:
                return
            code = ErrorCode.REQUEST_TIMED_OUT if answer is None else _code(answer)
            if answer is None and early[0]:
                code = ErrorCode.CONCURRENT_TRANSACTIONS
            elif adds and code == ErrorCode.CONCURRENT_TRANSACTIONS:
                early[0] = True
                return
            waiting[0] = False
            if code in (ErrorCode.NOT_COORDINATOR, ErrorCode.REQUEST_TIMED_OUT):
                self.coordinator = None
            told(code)

        asked = AddPartitions(
            batch.purpose.transactional_id,
            *batch.pair,
            (TopicPartitions(TOPIC, (batch.place,)),),
            verify_only=not adds,
            for_client=adds,
        )
        if adds:

            def announced() -> None:
                if waiting[0] and life == self._life:
                    waiting[0] = False
                    self._ledger.count("additions announced")
                    told(ErrorCode.NONE)

            self._adding.setdefault(Addition(batch.place, *batch.pair), []).append(announced)
        request = AddPartitionsToTxn((asked,), batched=True)
        self._agenda.after(VERIFY_PATIENCE_S, heard, None)
        voter = self._voters[node]
        self._post.carry(lambda: voter.ask(request, lambda answer: self._post.carry(partial(heard, answer))))

    # -- what is not the coordinator's ------------------------------------------------------------

    def stray(self, place: Place, stray: Stray) -> None:
        """A batch of a stranger arrives."""
        if self._is_up:
            with suppress(ApiError):
                self.partitions[place].append_stray(stray, self._now_ms())

    def write_foreign(self, place: Place, marker: EndMarker) -> None:
        """A marker without a proof arrives: broker/markers.py, one partition."""
        partition = self.partitions[place]
        plain = replace(marker, version=NO_VERSION)
        if not self._is_up or not 0 <= marker.version <= IMAGE_VERSION_MAX:
            return
        try:
            partition.check_marker(plain)
        except ApiError:
            return
        before, life = partition.state_of(marker.producer_id), self._life

        def told(answer: Any) -> None:
            if not self._is_up or life != self._life:
                return
            if not isinstance(answer, DescribeTransactionsAnswer):
                self.coordinator = None
                return
            try:
                held = {part for each in answer.transactions for part in open_partitions(each)}
            except ApiError:
                return
            is_held = (marker.producer_id, TOPIC, place) in held
            if is_held:
                self._ledger.count("foreign markers refused")
            elif partition.state_of(marker.producer_id) is before:
                self._ledger.count("foreign markers written")
                partition.append_marker(plain, self._now_ms())

        if self.coordinator is None:
            self.coordinator = self._rng.choice(sorted(self._voters))
        voter = self._voters[self.coordinator]
        self._post.carry(lambda: voter.describe(lambda answer: self._post.carry(partial(told, answer))))

    # -- AnnouncePartitions -----------------------------------------------------------------------

    def announce(self, request: AnnouncePartitions, told: Told) -> None:
        """The coordinator says unasked who will write where."""
        if not self._is_up:
            return
        for each in request.announcements:
            whose, version = ProducerId(each.producer_id), ImageVersion(each.image_version)
            for _, indexes in each.topics:
                for index in indexes:
                    if index in self.partitions:
                        self._take(Addition(index, whose, each.producer_epoch), version)
        told(None)

    def _take(self, addition: Addition, version: ImageVersion) -> None:
        """As broker/announcements.py and broker/verification.py do."""
        place, whose, epoch = addition
        partition = self.partitions[place]
        partition.announce(whose, epoch, version)
        if partition.is_announced(whose, epoch):
            for announced in self._adding.pop(addition, ()):
                announced()

    # -- WriteTxnMarkers --------------------------------------------------------------------------

    def write_markers(self, request: WriteTxnMarkers, told: Told) -> None:
        """Markers arrive. They are durable before the answer."""
        if self._is_up:
            results = ((marker.producer_id, self._write(marker)) for marker in request.markers)
            told(WriteTxnMarkersAnswer(tuple(results)))

    def _write(self, marker: TxnMarker) -> tuple[tuple[str, tuple[tuple[int, ErrorCode], ...]], ...]:
        written = end_marker_of(marker)
        return tuple(
            (topic, tuple((index, self._write_one(index, written, marker.forced)) for index in indexes))
            for topic, indexes in marker.topics
        )

    def _write_one(self, place: Place, marker: EndMarker, forced: bool) -> ErrorCode:
        partition = self.partitions.get(place)
        if partition is None:
            return ErrorCode.NOT_LEADER_OR_FOLLOWER
        try:
            partition.append_marker(marker, self._now_ms(), forced=forced)
        except ApiError as refusal:
            self._ledger.count("markers refused")
            return refusal.code
        if forced:
            self._ledger.count("markers forced")
        return ErrorCode.NONE

    def _now_ms(self) -> int:
        return int(self._agenda.now * 1000)


def _code(answer: Any) -> ErrorCode:
    """What the coordinator said of the one partition that it was asked about."""
    if isinstance(answer, ApiError):
        return answer.code
    assert isinstance(answer, AddPartitionsToTxnAnswer)
    ((_, result),) = answer.results
    if isinstance(result, AddPartitionsAnswer):
        return result.errors[0][1][0][1]
    return result


def _why_old(code: ErrorCode) -> ErrorCode:
    """Of an epoch older than the partition's: timed out and abortable, or fenced (row 588.4)."""
    told = verdict(code, SENT)
    abortable = (ErrorCode.UNKNOWN_PRODUCER_ID, ErrorCode.INVALID_PRODUCER_ID_MAPPING)
    later = ErrorCode.NOT_ENOUGH_REPLICAS
    return told if told in (*abortable, later) else ErrorCode.INVALID_PRODUCER_EPOCH
