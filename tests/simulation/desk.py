"""A desk: a calm cluster, and producers whose every request is sent by hand, when the test says so.

What is sent here arrives at once, or whenever ``Letter.deliver`` is called. The invariants are judged as in a
storm, so a test that breaks one fails with it.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from operator import itemgetter
from typing import Any, Final

from fencepost.controller import topics
from fencepost.controller.brokers import BROKERS
from fencepost.controller.errors import ApiError, ErrorCode
from fencepost.controller.transactions import states
from fencepost.controller.transactions.add_partitions import (
    AddPartitions,
    AddPartitionsAnswer,
    AddPartitionsToTxn,
)
from fencepost.controller.transactions.end_txn import EndTxn, EndTxnAnswer
from fencepost.controller.transactions.init_request import InitProducerId, InitProducerIdAnswer
from fencepost.controller.transactions.states import Transaction
from fencepost.records.transaction_log import NO_EPOCH, NO_PRODUCER_ID, TopicPartitions
from fencepost.records.types import BrokerId, NodeId
from tests.simulation.broker import TOPIC
from tests.simulation.coordinator import Coordinator, Request
from tests.simulation.facts import Asked, Ended, Identified, Pair, Place, Purpose
from tests.simulation.partition import Batch
from tests.simulation.post import PostWeather
from tests.simulation.transactions import TransactionSimulation
from tests.simulation.weather import CALM

NO_NODE: Final[Pair] = (NO_PRODUCER_ID, NO_EPOCH)
WAIT_S: Final = 8.0  # for an answer
STEP_S: Final = 0.02
TIMEOUT_MS: Final = 60_000


@contextmanager
def calm_desk(seed: int = 0) -> Iterator["Desk"]:
    """A cluster on a calm day, with a leader and without producers of its own."""
    with TransactionSimulation(seed, weather=CALM, post_weather=PostWeather().calmed(), producers=0) as sim:
        sim.run(2.0)
        yield Desk(sim)


class Letter:
    """A request on its way. ``answers``: of each delivery."""

    def __init__(self, desk: "Desk", request: Request, node: Coordinator | None = None) -> None:
        self._desk = desk
        self._request = request
        self._node = node
        self.answers: list[Any] = []

    def deliver(self) -> "Letter":
        """It arrives, perhaps again."""
        (self._node or self._desk.leader).ask(self._request, self.answers.append)
        return self

    def answer(self) -> Any:
        """Wait for what the last delivery is told: the response, or an error's code."""
        deadline = self._desk.sim.agenda.now + WAIT_S
        while not self.answers and self._desk.sim.agenda.now < deadline:
            self._desk.wait(STEP_S)
        assert self.answers, f"no answer to {self._request}"
        told = self.answers[-1]
        return told.code if isinstance(told, ApiError) else told


class Desk:
    """``sim`` is the cluster."""

    def __init__(self, sim: TransactionSimulation) -> None:
        self.sim = sim

    def wait(self, seconds: float) -> None:
        """Let so much virtual time pass."""
        self.sim.run(seconds)

    def wait_for_broker(self, place: Place) -> None:
        """Until the leader of a partition is registered: clients of the simulation let sessions end."""
        deadline = self.sim.agenda.now + WAIT_S
        while not self._is_live(place):
            assert self.sim.agenda.now < deadline, f"the broker of {place} stays fenced"
            self.wait(STEP_S)

    def _is_live(self, place: Place) -> bool:
        assert self.leader.replica is not None
        image = self.leader.replica.image
        found = topics.partition(image, TOPIC, place)
        broker = None if found is None else image.get(BROKERS, BrokerId(found.leader))
        return broker is not None and not broker.fenced

    def look(self) -> None:
        """Have what just happened judged, without letting time pass."""
        self.sim._guarded(self.sim._judge)

    @property
    def leader(self) -> Coordinator:
        """Whoever decides; of two that believe so the one of the later term."""
        active: list[tuple[int, Coordinator]] = []
        for process in self.sim.processes.values():
            assert isinstance(process, Coordinator)
            if process.replica is not None and process.replica.proposer.active:
                active.append((process.replica.raft.term, process))
        return max(active, key=itemgetter(0))[1]

    def cut_off(self, node: NodeId) -> None:
        """Nobody hears it, it hears nobody; it does not know that yet."""
        others = [other for other in self.sim.processes if other != node]
        there = [(node, other) for other in others]
        self.sim.network.block([*there, *((other, node) for other in others)])

    def ask(self, request: Request) -> Any:
        """The answer, or an error's code."""
        return Letter(self, request).deliver().answer()

    def row(self, transactional_id: str) -> Transaction:
        """What the leader knows of an id."""
        assert self.leader.replica is not None
        row = states.get(self.leader.replica.image, transactional_id)
        assert row is not None
        return row

    def settle(self, transactional_id: str) -> Transaction:
        """Wait until its markers are written."""
        deadline = self.sim.agenda.now + WAIT_S
        while self.row(transactional_id).state in states.PREPARED_STATES:
            assert self.sim.agenda.now < deadline, "its markers are not written"
            self.wait(STEP_S)
        return self.row(transactional_id)

    def read(self) -> list[tuple[str, int]]:
        """What read_committed consumers have seen: (transactional id, purpose) of each batch."""
        partitions = self.sim.partitions.values()
        return sorted(batch.purpose for each in partitions for batch in each.committed())


@dataclass
class Program:
    """One instance of a producer. Methods wait for their answers and return them, or an error's code."""

    desk: Desk
    transactional_id: str = "payments"
    pair: Pair = NO_NODE
    timeout_ms: int = TIMEOUT_MS
    bumps_epoch: bool = False

    def __post_init__(self) -> None:
        self._sequences: dict[Place, int] = {}
        self.purpose = Purpose(self.transactional_id, 0)

    def identify(self) -> Any:
        """InitProducerId: with the pair it has, if any. 51 is asked again, as every client does."""
        request = InitProducerId(self.transactional_id, self.timeout_ms, *self.pair)
        answer = self.desk.ask(request)
        while answer == ErrorCode.CONCURRENT_TRANSACTIONS:
            answer = self.desk.ask(request)
        if isinstance(answer, InitProducerIdAnswer):
            self._became((answer.producer_id, answer.producer_epoch))
            self.desk.sim.ledger.fact(Identified(self.transactional_id, self.pair))
        return answer

    def _became(self, pair: Pair) -> None:
        if pair != self.pair:
            self.pair, self._sequences = pair, {}

    def begin(self) -> None:
        """Only the client knows."""
        self.purpose = Purpose(self.transactional_id, self.desk.sim.world.numbers())

    def adding(self, place: Place) -> Letter:
        """AddPartitionsToTxn, not sent yet."""
        asked = AddPartitions(self.transactional_id, *self.pair, (TopicPartitions(TOPIC, (place,)),))
        return Letter(self.desk, AddPartitionsToTxn((asked,)))

    def add(self, place: Place) -> Any:
        """AddPartitionsToTxn: the partition's code."""
        answer = self.adding(place).deliver().answer()
        if isinstance(answer, ErrorCode):
            return answer
        ((_, result),) = answer.results
        return result.errors[0][1][0][1] if isinstance(result, AddPartitionsAnswer) else result

    def batch(self, place: Place) -> Batch:
        """The next one for a partition."""
        sequence = self._sequences.get(place, 0)
        self._sequences[place] = sequence + 1
        return Batch(place, self.pair, sequence, self.purpose, self.desk.sim.world.numbers())

    def send(self, batch: Batch) -> ErrorCode:
        """Produce, again while the broker looks for the coordinator."""
        while True:
            told: list[ErrorCode] = []
            self.desk.sim.world.brokers[batch.place].produce(batch, told.append)
            while not told:
                self.desk.wait(STEP_S)
            if told[0] != ErrorCode.NOT_ENOUGH_REPLICAS:
                return told[0]

    def write(self, *places: Place) -> None:
        """Add each partition and send a batch to it; both must succeed."""
        for place in places:
            assert self.add(place) == ErrorCode.NONE
            assert self.send(self.batch(place)) == ErrorCode.NONE

    def ending(self, committed: bool) -> Letter:
        """EndTxn, not sent yet."""
        self.desk.sim.ledger.fact(Asked(self.purpose, committed))
        request = EndTxn(
            self.transactional_id, *self.pair, committed, knows_abortable=False, bumps_epoch=self.bumps_epoch
        )
        return Letter(self.desk, request)

    def end(self, committed: bool) -> Any:
        """EndTxn: None, or the next pair if it bumps the epoch."""
        answer = self.ending(committed).deliver().answer()
        if isinstance(answer, EndTxnAnswer):
            self._became((answer.producer_id, answer.producer_epoch))
        if not isinstance(answer, ErrorCode):
            self.desk.sim.ledger.fact(Ended(self.purpose, committed))
        return answer
