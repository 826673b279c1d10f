"""A coordinator on a bench: one voter, its TransactionServer, and partition leaders that a test plays.

Nothing happens by itself: requests to brokers wait in ``sent`` until they are answered, timers for ``wait``.
"""

import uuid
from dataclasses import dataclass, field
from itertools import count
from typing import Any, NamedTuple, cast

from structlog.typing import FilteringBoundLogger

from fencepost.controller import brokers
from fencepost.controller.authorization import Acls
from fencepost.controller.brokers import Endpoint, Heartbeat, HeartbeatTracker, RegisterBroker
from fencepost.controller.decision import Decision
from fencepost.controller.errors import ErrorCode
from fencepost.controller.topics import TOPICS
from fencepost.controller.transactions import states
from fencepost.controller.transactions.add_partitions import AddPartitions, AddPartitionsToTxn
from fencepost.controller.transactions.end_txn import EndTxn
from fencepost.controller.transactions.init_request import InitProducerId
from fencepost.controller.transactions.states import Transaction
from fencepost.coordinator.marker_sender import Done
from fencepost.coordinator.transaction_server import TransactionServer
from fencepost.coordinator.transaction_timers import TransactionTimes
from fencepost.records.schema import PartitionRecord, RemoveTopicRecord, TopicRecord
from fencepost.records.transaction_log import TopicPartitions
from fencepost.records.types import BrokerId, ProducerId
from fencepost.wire.k27_write_txn_markers import WriteTxnMarkers, WriteTxnMarkersAnswer
from fencepost.wire.k20024_announce_partitions import AnnouncePartitions
from tests.coordinator.coordinator_node import Answer, CoordinatorNode
from tests.node.stage import CLUSTER
from tests.quorum.clients import Silence

TOPIC = "orders"


@dataclass
class Sent:
    """A request to a broker that is not answered yet."""

    broker_id: int
    host: str
    port: int
    request: WriteTxnMarkers
    done: Done

    @property
    def partitions(self) -> list[tuple[int, str, int]]:
        """(producer id, topic, index) of every marker asked."""
        return [
            (marker.producer_id, topic, index)
            for marker in self.request.markers
            for topic, indexes in marker.topics
            for index in indexes
        ]

    def done_with(self, codes: dict[int, int]) -> None:
        """Answer by producer id: NONE where none is given."""
        self.done(
            WriteTxnMarkersAnswer(
                tuple(
                    (
                        marker.producer_id,
                        tuple(
                            (topic, tuple((index, codes.get(marker.producer_id, 0)) for index in indexes))
                            for topic, indexes in marker.topics
                        ),
                    )
                    for marker in self.request.markers
                )
            )
        )

    def answer(self, codes: dict[tuple[str, int], int] | int = 0) -> None:
        """Answer: one code for all, or by partition (NONE where none is given)."""
        by_part = codes if isinstance(codes, dict) else {}
        default = 0 if isinstance(codes, dict) else codes
        self.done(
            WriteTxnMarkersAnswer(
                tuple(
                    (
                        marker.producer_id,
                        tuple(
                            (topic, tuple((index, by_part.get((topic, index), default)) for index in indexes))
                            for topic, indexes in marker.topics
                        ),
                    )
                    for marker in self.request.markers
                )
            )
        )


class Announced(NamedTuple):
    """One request of the announcer."""

    broker_id: int
    host: str
    port: int
    request: AnnouncePartitions


@dataclass
class Bench(CoordinatorNode):
    """``server`` is the node's coordinator of transactions."""

    times: TransactionTimes = field(default_factory=TransactionTimes)
    acls: Acls = field(default_factory=Acls)
    serves_two_phase: bool = False
    sent: list[Sent] = field(default_factory=list)
    announced: list[Announced] = field(default_factory=list)  # of transactions
    changes_announced: list[int] = field(default_factory=list)  # to which brokers

    def __post_init__(self) -> None:
        super().__post_init__()
        self._numbers = count()
        self._ids = count(1000)
        self.server = TransactionServer(
            self.times,
            self.replica,
            self.submit,
            self.acls,
            send=self._send,
            send_announcements=lambda *what: self._announced(Announced(*what)),
            call_later=self.call_later,
            background=lambda work, done: self.carry_out(self.driver.background(work, done)),
            clock=lambda: self.stage.now,
            serves_two_phase=self.serves_two_phase,
            log=cast(FilteringBoundLogger, Silence()),
        )
        self.server.allocate_producer_id = lambda: ProducerId(next(self._ids))
        self.driver.services = (self.server,)

    def _send(self, broker_id: int, host: str, port: int, request: WriteTxnMarkers, done: Done) -> None:
        def answered(outcome: Any) -> None:
            self.carry_out(self.driver.resume(done, outcome))

        self.sent.append(Sent(broker_id, host, port, request, answered))

    def _announced(self, sent: Announced) -> None:
        if sent.request.announcements:
            self.announced.append(sent)
        else:
            self.changes_announced.append(sent.broker_id)

    # -- the world ----------------------------------------------------------------------------------

    def register(self, broker_id: int, port: int = 9092) -> None:
        """Register and unfence a broker."""
        incarnation = uuid.UUID(int=broker_id * 1000 + next(self._numbers))
        request = RegisterBroker(
            BrokerId(broker_id),
            CLUSTER,
            incarnation,
            uuid.UUID(int=broker_id),
            (Endpoint("PLAINTEXT", "127.0.0.1", port),),
        )
        heartbeats = HeartbeatTracker(0, 10**15)
        self.decide(
            lambda view, now_ms: brokers.decide_register(
                view, request, cluster_id=CLUSTER, heartbeats=heartbeats, now_ms=now_ms
            )
        )
        self.heartbeat(broker_id)

    def heartbeat(self, broker_id: int, *, want_fence: bool = False) -> None:
        """Unfence a broker, or fence it."""
        broker = self.replica.image.get(brokers.BROKERS, BrokerId(broker_id))
        assert broker is not None
        maintenance_tick = Heartbeat(BrokerId(broker_id), broker.epoch, broker.epoch, want_fence=want_fence)
        self.decide(lambda view, _now: brokers.decide_heartbeat(view, maintenance_tick))

    def create(self, name: str, *leaders: int) -> None:
        """A topic whose partitions are led by these brokers."""
        topic_id = uuid.uuid5(uuid.NAMESPACE_DNS, name)
        partitions = tuple(
            PartitionRecord(
                partition_id=index,
                topic_id=topic_id,
                replicas=(leader,),
                isr=(leader,),
                leader=leader,
                leader_epoch=0,
                partition_epoch=0,
                directories=(uuid.UUID(int=leader),),
            )
            for index, leader in enumerate(leaders)
        )
        self.decide(
            lambda _view, _now: Decision((TopicRecord(name=name, topic_id=topic_id), *partitions), None)
        )

    def remove(self, name: str) -> None:
        """Delete a topic."""
        topic = self.replica.image.get(TOPICS, name)
        assert topic is not None
        removed = RemoveTopicRecord(topic_id=topic.topic_id)
        self.decide(lambda _view, _now: Decision((removed,), None))

    # -- clients ------------------------------------------------------------------------------------

    def init(self, transactional_id: str, *pair: int, timeout_ms: int = 60_000) -> Answer:
        """InitProducerId."""
        producer_id, epoch = pair or (-1, -1)
        request = InitProducerId(transactional_id, timeout_ms, ProducerId(producer_id), epoch)
        return self.ask(self.server.init_producer_id, request)

    def add(self, transactional_id: str, pair: tuple[int, int], *indexes: int, topic: str = TOPIC) -> Answer:
        """AddPartitionsToTxn."""
        asked = AddPartitions(
            transactional_id, ProducerId(pair[0]), pair[1], (TopicPartitions(topic, indexes),)
        )
        return self.ask(self.server.add_partitions, AddPartitionsToTxn((asked,)))

    def end(self, transactional_id: str, pair: tuple[int, int], *, committed: bool = True) -> Answer:
        """EndTxn."""
        request = EndTxn(transactional_id, ProducerId(pair[0]), pair[1], committed)
        return self.ask(self.server.end_txn, request)

    def begun(
        self, transactional_id: str, *indexes: int, timeout_ms: int = 60_000, topic: str = TOPIC
    ) -> tuple[int, int]:
        """A producer with an open transaction; its producer id and epoch."""
        answer = self.init(transactional_id, timeout_ms=timeout_ms)
        self.settle()
        pair = (answer.answered().producer_id, answer.answered().producer_epoch)
        added = self.add(transactional_id, pair, *indexes, topic=topic)
        self.settle()
        ((_, result),) = added.answered().results
        assert {code for _, codes in result.errors for _, code in codes} == {ErrorCode.NONE}
        return pair

    def row(self, transactional_id: str) -> Transaction:
        """What the image has of an id."""
        row = states.get(self.replica.image, transactional_id)
        assert row is not None
        return row

    def state(self, transactional_id: str) -> str:
        """Its state's name."""
        return self.row(transactional_id).state.wire_name

    def take_sent(self) -> list[Sent]:
        """Requests to brokers since the last time, by broker."""
        sent, self.sent[:] = sorted(self.sent, key=lambda each: each.broker_id), []
        return sent
