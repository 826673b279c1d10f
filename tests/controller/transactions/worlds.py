"""A coordinator in memory: its image, its clock, and the producer ids that it can claim."""

import copy
import uuid
from typing import Any, Self

import msgspec

from fencepost.controller import clocks
from fencepost.controller.decision import Decision
from fencepost.controller.levels import LOG_LEVEL
from fencepost.controller.replay import replay_record
from fencepost.controller.transactions import states
from fencepost.controller.transactions.add_partitions import (
    AddPartitions,
    AddPartitionsAnswer,
    decide_add_partitions,
    decide_verify,
)
from fencepost.controller.transactions.end_txn import EndTxn, decide_end_txn, needs_producer_id_at_end
from fencepost.controller.transactions.expiry import (
    Due,
    Expired,
    TimedOut,
    decide_expire,
    decide_forget,
    decide_timeouts,
    due_timeouts,
)
from fencepost.controller.transactions.init_producer_id import decide_init_producer_id, needs_producer_id
from fencepost.controller.transactions.init_request import InitProducerId, InitProducerIdAnswer
from fencepost.controller.transactions.markers import decide_complete, marker_of
from fencepost.controller.transactions.states import TWO_PHASE_TIMEOUT_MS, State, Transaction, record_of
from fencepost.controller.view import EmptyView, ImageHeader, Overlay
from fencepost.records.levels import LEVEL_MAX
from fencepost.records.schema import FeatureLevelRecord, PartitionRecord, TopicRecord
from fencepost.records.transaction_log import TopicPartitions
from fencepost.records.types import ImageVersion, NodeId, ProducerId, Term

ID = "payments"
ORDERS, AUDIT = "orders", "audit"
TIMEOUT_MS = 60_000
MAX_TIMEOUT_MS = 900_000
NOW_MS = 1_700_000_000_000
DECADES_MS = 40_000 * 86_400_000  # past 2**31 ms, and past any timeout that is one


class Coordinator:
    """Decides and applies at once. What a decision raises is raised; nothing is written then."""

    def __init__(self, *rows: Transaction, next_producer_id: int = 1000) -> None:
        self.view = Overlay(EmptyView())
        self.view.header = ImageHeader(ImageVersion(7), Term(3), NodeId(1), (0, 0, 0))
        replay_record(self.view, FeatureLevelRecord(name=LOG_LEVEL, feature_level=LEVEL_MAX))
        for number, (name, partitions) in enumerate(((ORDERS, 4), (AUDIT, 1)), 1):
            topic_id = uuid.UUID(int=number)
            replay_record(self.view, TopicRecord(name=name, topic_id=topic_id))
            for index in range(partitions):
                record = PartitionRecord(
                    partition_id=index, topic_id=topic_id, replicas=(1,), isr=(1,), leader=1, leader_epoch=0
                )
                replay_record(self.view, record)
        for row in rows:
            place(self.view, row)
        self.now_ms = NOW_MS
        self.activated_ms = 0
        self.written: list[Any] = []
        self.claimed: list[ProducerId] = []
        self._next_id = next_producer_id

    def copy(self) -> Self:
        """A coordinator of the same rows, which goes on by itself; nothing was written in its time."""
        other = copy.copy(self)
        other.view = Overlay(EmptyView())
        other.view.header = self.view.header
        for table, rows in self.view._rows.items():
            other.view._rows[table] = {**rows}
        other.written, other.claimed = [], []
        return other

    def claim(self) -> ProducerId:
        producer_id = ProducerId(self._next_id)
        self._next_id += 1
        self.claimed.append(producer_id)
        return producer_id

    def next_is(self, producer_id: int) -> None:
        """The next producer id that is claimed."""
        self._next_id = producer_id

    def applied(self, decision: Decision[Any]) -> Any:
        """Replay what was decided; the answer, raised if it is a refusal."""
        header = self.view.header
        for record in decision.records:
            replay_record(self.view, record)
        self.written += decision.records
        self.view.header = msgspec.structs.replace(header, version=ImageVersion(header.version + 1))
        if isinstance(decision.response, Exception):
            raise decision.response
        return decision.response

    def row(self, transactional_id: str = ID) -> Transaction:
        row = states.get(self.view, transactional_id)
        if row is None:
            raise LookupError(transactional_id)
        return row

    def pair(self, transactional_id: str = ID) -> tuple[int, int]:
        row = self.row(transactional_id)
        return row.producer_id, row.producer_epoch

    def init(
        self,
        producer_id: int = -1,
        epoch: int = -1,
        *,
        of: str | None = ID,
        timeout_ms: int = TIMEOUT_MS,
        init_version: int = 4,
        client_id: str = "",
        two_phase: bool = False,
    ) -> tuple[int, int]:
        request = InitProducerId(
            of, timeout_ms, ProducerId(producer_id), epoch, init_version, client_id, two_phase
        )
        answer = self._init(request)
        assert (answer.ongoing_producer_id, answer.ongoing_producer_epoch) == (-1, -1)
        return answer.producer_id, answer.producer_epoch

    def keep(
        self,
        *,
        of: str = ID,
        timeout_ms: int = TIMEOUT_MS,
        client_id: str = "",
        two_phase: bool = False,
        given: tuple[int, int] = (-1, -1),
    ) -> tuple[int, int, int, int]:
        """InitProducerId with KeepPreparedTxn: the new pair, and that of the open transaction."""
        request = InitProducerId(
            of, timeout_ms, ProducerId(given[0]), given[1], 6, client_id, two_phase, keeps_prepared=True
        )
        answer = self._init(request)
        ongoing = (answer.ongoing_producer_id, answer.ongoing_producer_epoch)
        return answer.producer_id, answer.producer_epoch, *ongoing

    def _init(self, request: InitProducerId) -> InitProducerIdAnswer:
        fresh = self.claim() if needs_producer_id(self.view, request, self.now_ms) else None
        answer: InitProducerIdAnswer = self.applied(
            decide_init_producer_id(
                self.view, request, now_ms=self.now_ms, fresh=fresh, max_timeout_ms=MAX_TIMEOUT_MS
            )
        )
        return answer

    def add(
        self,
        producer_id: int,
        epoch: int,
        *topics: TopicPartitions,
        of: str = ID,
        for_client: bool = False,
    ) -> AddPartitionsAnswer:
        added = topics or (partitions(ORDERS, 0),)
        request = AddPartitions(of, ProducerId(producer_id), epoch, added, for_client=for_client)
        answer: AddPartitionsAnswer = self.applied(
            decide_add_partitions(self.view, request, now_ms=self.now_ms)
        )
        return answer

    def verify(
        self, producer_id: int, epoch: int, *topics: TopicPartitions, of: str = ID
    ) -> AddPartitionsAnswer:
        request = AddPartitions(of, ProducerId(producer_id), epoch, topics, verify_only=True)
        answer: AddPartitionsAnswer = self.applied(decide_verify(self.view, request))
        return answer

    def end(
        self,
        producer_id: int,
        epoch: int,
        *,
        committed: bool,
        of: str = ID,
        knows_abortable: bool = True,
        bumps_epoch: bool = False,
    ) -> Any:
        request = EndTxn(of, ProducerId(producer_id), epoch, committed, knows_abortable, bumps_epoch)
        fresh = self.claim() if needs_producer_id_at_end(self.view, request) else None
        answer = self.applied(decide_end_txn(self.view, request, now_ms=self.now_ms, fresh=fresh))
        return None if answer is None else (answer.producer_id, answer.producer_epoch)

    def complete(self, of: str = ID) -> bool:
        """Every marker of the id's PrepareX is written."""
        marker = marker_of(self.view, of)
        version = ImageVersion(0) if marker is None else marker.version
        return bool(self.applied(decide_complete(self.view, of, version, now_ms=self.now_ms)))

    def time_out(self, after_ms: int = 0, *, grace_ms: int = 0) -> tuple[str, ...]:
        self.now_ms += after_ms
        return self.sweep_timeouts(grace_ms=grace_ms)[1].transactional_ids

    def sweep_timeouts(
        self, *, grace_ms: int = 0, after: tuple[int, str] | None = None
    ) -> tuple[Due, TimedOut]:
        """What one sweep finds, and what of it is aborted."""
        found = due_timeouts(
            self.view, self.now_ms, activated_ms=self.activated_ms, grace_ms=grace_ms, after=after
        )
        decision = decide_timeouts(
            self.view, self.now_ms, found.transactional_ids, activated_ms=self.activated_ms
        )
        return found, self.applied(decision)

    def expire(self, expiration_ms: int, slowest_ms: int | None = None) -> tuple[str, ...]:
        idle = clocks.idle_stamps(self.now_ms, self.activated_ms, expiration_ms, slowest_ms)
        found = decide_expire(self.view, idle).response.transactional_ids
        answer: Expired = self.applied(decide_forget(self.view, idle, found))
        assert answer.transactional_ids == found
        return found


def partitions(topic: str, *indexes: int) -> TopicPartitions:
    return TopicPartitions(topic, indexes)


def place(view: Overlay, row: Transaction) -> None:
    """Make ``row`` so by legal records, whatever its state is."""
    path = {
        State.EMPTY: (),
        State.ONGOING: (State.ONGOING,),
        State.PREPARE_COMMIT: (State.ONGOING, State.PREPARE_COMMIT),
        State.PREPARE_ABORT: (State.ONGOING, State.PREPARE_ABORT),
        State.COMPLETE_COMMIT: (State.ONGOING, State.PREPARE_COMMIT, State.COMPLETE_COMMIT),
        State.COMPLETE_ABORT: (State.ONGOING, State.PREPARE_ABORT, State.COMPLETE_ABORT),
    }[row.state]
    for state in (State.EMPTY, *path):
        replay_record(view, record_of(msgspec.structs.replace(row, state=state)))


def opened(epoch: int = 5, *, two_phase: bool = True, **given: Any) -> Coordinator:
    """A transaction of producer 42 is open on two partitions."""
    if two_phase:
        given = {"transaction_timeout_ms": TWO_PHASE_TIMEOUT_MS, "init_version": 6, **given}
    return Coordinator(transaction(State.ONGOING, 42, epoch, **given))


def transaction(
    state: State = State.EMPTY, producer_id: int = 42, epoch: int = 5, **given: Any
) -> Transaction:
    """A row as it stands in life, of an instance that began with this epoch, unless said otherwise."""
    open_ = state in (State.ONGOING, State.PREPARE_COMMIT, State.PREPARE_ABORT)
    fields: dict[str, Any] = {
        "partitions": (partitions(ORDERS, 0, 1),) if open_ else (),
        "updated_ms": NOW_MS - 1000,
        "started_ms": -1 if state is State.EMPTY else NOW_MS - 1000,
        "instance_epoch": epoch,
        "init_version": 4,
        **given,
    }
    timeout_ms = fields.pop("transaction_timeout_ms", TIMEOUT_MS)
    return Transaction(ID, ProducerId(producer_id), epoch, timeout_ms, state, **fields)
