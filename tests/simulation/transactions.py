"""Transactions in a storm: voters that fail, brokers that die, producers that die, linger and come twice.

Goal      no order of events breaks I6 or I7; once the faults end every producer commits again, every
          transaction ends, and a read_committed reader sees exactly what was committed.
Method    the cluster of simulation.py; in each voter the product's transaction server, marker sender and
          timers (coordinator.py); partitions with the product's own rules (partition.py); V1 producers as
          librdkafka is one (producers.py). Epochs run out after a few bumps, ids expire after seconds; or
          (``at_overflow``) epochs are as they are, and the ids begin at the last of them.
Replay    pytest tests/simulation -k transaction-seed-17
"""

import uuid
from collections.abc import Sequence
from itertools import count
from types import ModuleType
from typing import Any, Final

import fencepost.controller.topics
import fencepost.controller.transactions.end_txn
import fencepost.controller.transactions.fencing
import fencepost.controller.transactions.init_producer_id
import fencepost.controller.transactions.states
import fencepost.coordinator.transaction_timers
from fencepost.controller.decision import Decision
from fencepost.controller.transactions.states import (
    EXPIRABLE_STATES,
    TRANSACTIONS,
    State,
    Transaction,
    record_of,
)
from fencepost.controller.view import View
from fencepost.records.levels import LEVEL_MAX
from fencepost.records.schema import PartitionRecord, TopicRecord
from fencepost.records.transaction_log import TransactionStateRecord
from fencepost.records.types import BrokerId, ProducerId
from tests.simulation.broker import TOPIC, Broker
from tests.simulation.clients import Ask, Client
from tests.simulation.coordinator import Coordinator
from tests.simulation.facts import Place
from tests.simulation.invariants import INVARIANTS, Invariant, Violation, require
from tests.simulation.partition import Partition
from tests.simulation.post import Post, PostWeather
from tests.simulation.process import Process
from tests.simulation.producer_world import World
from tests.simulation.producers import Producer
from tests.simulation.simulation import HEAL_S, Simulation
from tests.simulation.strangers import Strangers
from tests.simulation.transaction_invariants import TRANSACTION_INVARIANTS
from tests.simulation.weather import Weather

TOPIC_ID: Final = uuid.UUID(int=0x7091C)
PLACES: Final = 4
CLIENTS: Final = 2  # the brokers as the quorum sees them: clients.py
QUIET: Final = 0.9  # share of a broker's requests that are heartbeats
PRODUCERS: Final = 4
FIRST_PRODUCER_ID: Final = 1_000
TIMEOUT_MS: Final = 1_000
EPOCH_MAX: Final = 7  # so that epochs run out

SCALED: Final[tuple[tuple[ModuleType, str, Any], ...]] = (
    (fencepost.controller.transactions.states, "EPOCH_MAX", EPOCH_MAX),
    (fencepost.controller.transactions.fencing, "CLIENT_EPOCH_MAX", EPOCH_MAX - 1),
    (fencepost.controller.transactions.fencing, "EPOCH_MAX", EPOCH_MAX),
    (fencepost.controller.transactions.end_txn, "EPOCH_MAX", EPOCH_MAX),
    (fencepost.controller.transactions.init_producer_id, "CLIENT_EPOCH_MAX", EPOCH_MAX - 1),
    (fencepost.controller.transactions.end_txn, "CLIENT_EPOCH_MAX", EPOCH_MAX - 1),
    (fencepost.coordinator.transaction_timers, "FIRST_EXPIRY_S_MAX", 1.0),
)
LAST_EPOCHS: Final = range(32763, 32768)  # the last of these is a fence, which no producer has
BEFORE_THE_FIRST_ID: Final = 500


class Quiet(Client):
    """A broker that mostly heartbeats: snapshots follow one another while the metadata log stands still."""

    def _choose(self) -> tuple[str, Ask, object]:
        if self.epoch is not None and self._rng.random() < QUIET:
            return self._heartbeat(self.epoch)
        return super()._choose()


class TransactionSimulation(Simulation):
    """Use as Simulation."""

    process_type = Coordinator
    client_type = Quiet

    def __init__(
        self,
        seed: int,
        node_count: int = 3,
        weather: Weather | None = None,
        *,
        post_weather: PostWeather | None = None,
        producers: int = PRODUCERS,
        strangers: float = 0.0,
        at_overflow: bool = False,
        clients: int = CLIENTS,
        invariants: Sequence[Invariant] = INVARIANTS,
    ) -> None:
        scaled = [each for each in SCALED if not (at_overflow and "EPOCH" in each[1])]
        self._scaled = [(module, name, getattr(module, name)) for module, name, _ in scaled]
        for module, name, value in scaled:
            setattr(module, name, value)
        self._at_overflow = at_overflow
        super().__init__(
            seed,
            node_count,
            weather,
            clients=clients,
            invariants=(*invariants, *TRANSACTION_INVARIANTS),
        )
        self.post = Post(self.agenda, self.rng, post_weather or PostWeather())
        voters: dict[Any, Coordinator] = {}
        for node, process in self.processes.items():
            assert isinstance(process, Coordinator)
            voters[node] = process
            if self.post.weather.keeps:
                process.log_level_formatted = LEVEL_MAX
        self.brokers = {
            client.broker_id: Broker(client.broker_id, self.agenda, self.rng, self.post, self.ledger, voters)
            for client in self.clients
        }
        self.partitions: dict[Place, Partition] = {}
        leaders: dict[Place, Broker] = {}
        for place in range(PLACES):
            broker = self.brokers[_leader_of(place)]
            self.partitions[place] = broker.partitions[place] = Partition(place, self.ledger)
            leaders[place] = broker
        producer_ids = count(FIRST_PRODUCER_ID)
        for process in voters.values():
            process.post, process.brokers = self.post, self.brokers
            process.fresh = lambda: ProducerId(next(producer_ids))
        self.world = World(self.agenda, self.rng, self.ledger, self.post, voters, leaders, self._number)
        self.producers = [Producer(f"producer-{number}", self.world) for number in range(producers)]
        for process in voters.values():
            process.transactional_ids = tuple(each.transactional_id for each in self.producers)
        self.strangers: Strangers | None = None
        if strangers:
            self.strangers = Strangers(
                self.agenda, self.rng, self.ledger, self.post, voters, leaders, strangers
            )

    def __enter__(self) -> "TransactionSimulation":
        return self

    def close(self) -> None:
        super().close()
        for module, name, value in self._scaled:
            setattr(module, name, value)

    def heal(self) -> None:
        super().heal()
        self.post.weather = self.post.weather.calmed()
        if self.strangers is not None:
            self.strangers.healed = True

    def _activated(self, process: Process, now_ms: int) -> None:
        """The first leader also makes the topic, and the rows of transactional ids near their last epochs."""

        def decide(view: View, _now_ms: int) -> Decision[None]:
            made = _topic_records(view)
            return Decision((*made, *self._rows(now_ms)) if made and self._at_overflow else made, None)

        self._decide(process, decide)

    def _rows(self, now_ms: int) -> tuple[TransactionStateRecord, ...]:
        rows = []
        for number, producer in enumerate(self.producers):
            epoch = LAST_EPOCHS[(self.seed + number) % len(LAST_EPOCHS)]
            row = Transaction(
                producer.transactional_id,
                ProducerId(BEFORE_THE_FIRST_ID + number),
                epoch,
                TIMEOUT_MS,
                State.EMPTY,
                updated_ms=now_ms,
                instance_epoch=epoch,
                init_version=-1 if epoch == LAST_EPOCHS[-1] else 4,
            )
            rows.append(record_of(row))
        return tuple(rows)

    # -- the end ----------------------------------------------------------------------------------

    def demand_commits(self) -> None:
        """Without faults: everybody commits again; then nothing is left open; then what is read is right."""
        self._guarded(self._demand_commits)

    def _demand_commits(self) -> None:
        before = [producer.commits for producer in self.producers]
        deadline = self.agenda.now + HEAL_S
        while self.agenda.now < deadline:
            self._wait()
            if all(p.commits > was + 2 for p, was in zip(self.producers, before, strict=True)):
                break
        else:
            told = [(p.transactional_id, p.commits, len(p.instances)) for p in self.producers]
            raise Violation(f"no commits in {HEAL_S} s after the faults ended: {told}; {self._standing()}")
        self.world.closing = True
        while self.agenda.now < deadline + HEAL_S and not self._all_ended():
            self._wait()
        require(self._all_ended(), "I7: a transaction never ends", standing=self._open())
        self._what_is_read_is_right()

    def _all_ended(self) -> bool:
        stable = all(each.last_stable == len(each.log) for each in self.partitions.values())
        return stable and not self._open() and not any(p.instances for p in self.producers)

    def _open(self) -> list[Any]:
        views = [p.replica.image for p in self.processes.values() if p.replica is not None]
        return [
            (row.transactional_id, row.state, row.partitions)
            for view in views
            for _, row in view.items(TRANSACTIONS)
            if row.state not in EXPIRABLE_STATES
        ]

    def _what_is_read_is_right(self) -> None:
        """Of a transaction that committed every acknowledged batch, once; of any other none."""
        facts = self.ledger.transactions
        read = {(place, batch.number) for place, p in self.partitions.items() for batch in p.committed()}
        for place, partition in self.partitions.items():
            for batch in partition.committed():
                require(facts.outcomes[batch.purpose], "an aborted batch is read", batch=batch, place=place)
        for purpose, committed in facts.ended.items():
            acknowledged = facts.acknowledged.get(purpose, set())
            if committed:
                require(acknowledged <= read, "I7: a committed batch is not read", purpose=purpose)
            else:
                require(not acknowledged & read, "I7: an aborted batch is read", purpose=purpose)
        require(bool(read), "nothing was read")


def _leader_of(place: Place) -> BrokerId:
    return BrokerId(100 + place % CLIENTS)


def _topic_records(view: View) -> tuple[TopicRecord | PartitionRecord, ...]:
    if fencepost.controller.topics.find(view, TOPIC) is not None:
        return ()
    partitions = (
        PartitionRecord(
            partition_id=place,
            topic_id=TOPIC_ID,
            replicas=(_leader_of(place),),
            isr=(_leader_of(place),),
            leader=_leader_of(place),
            leader_epoch=0,
            partition_epoch=0,
            directories=(TOPIC_ID,),
        )
        for place in range(PLACES)
    )
    return (TopicRecord(name=TOPIC, topic_id=TOPIC_ID), *partitions)
