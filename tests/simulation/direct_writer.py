"""A broker that takes its blocks from ZooKeeper itself, with Kafka's own loop, at full speed.

Kafka repeats a write until it is answered definitely. If the version then does not fit, before 3.0 the block
counts as taken if the znode holds exactly it, in the broker's own name; since 3.0 all begins anew.
Source   Kafka 2.8.0 ProducerIdManager, 3.0.0 ZkProducerIdManager, KafkaZkClient.conditionalUpdatePath.
"""

import random
from collections.abc import Callable
from typing import Any

from fencepost.bridge.zookeeper_port import Conflict, Unavailable, Unknown, Written
from fencepost.controller.producer_ids import ProducerIdBlock
from fencepost.records.types import NodeId, ProducerId
from tests.simulation.agenda import Agenda
from tests.simulation.ensemble import SimulatedEnsemble
from tests.simulation.ledger import Attempt, Ledger
from tests.zookeeper.kafka_rule import KAFKA_BLOCK_LENGTH, KafkaExhausted, kafkas_content, next_block_of_kafka

PAUSE_S = (0.0005, 0.03)
CALM_PAUSE_S = (0.1, 0.5)  # even this is hundreds of times what brokers take
RESTART_S = 0.3  # somebody starts a broker again that ended because its ids were exhausted


class DirectWriter:
    """One old broker."""

    def __init__(
        self,
        broker: int,
        kafka: int,
        ensemble: SimulatedEnsemble,
        agenda: Agenda,
        rng: random.Random,
        ledger: Ledger,
        numbers: Callable[[], int],
    ) -> None:
        self.blocks = 0
        self.exhausted_s = 0.0  # when it last was
        self._broker = broker
        self._kafka = kafka
        self._ensemble = ensemble
        self._agenda = agenda
        self._rng = rng
        self._ledger = ledger
        self._numbers = numbers
        self._seen = 0  # the newest version that this broker knows of
        self._pause_s = PAUSE_S
        agenda.after(rng.uniform(0.0, 0.5), self._next)

    def calm_down(self) -> None:
        """Take blocks less often: while others write faster than an entry commits no fence is written."""
        self._pause_s = CALM_PAUSE_S

    def _next(self) -> None:
        self._ensemble.ask(lambda: self._ensemble.look(self._seen), self._read, lost=Unknown("no answer"))

    def _read(self, answer: Any) -> None:
        if isinstance(answer, Unknown | Unavailable):
            self._later(self._next)
            return
        content, version = answer
        self._seen = version
        try:
            first, last = next_block_of_kafka(content)
        except KafkaExhausted:
            self.exhausted_s = self._agenda.now
            self._ledger.count("direct exhausted")
            self._agenda.after(RESTART_S, self._next)
            return
        self._write(first, last, version)

    def _write(self, first: int, last: int, version: int) -> None:
        content = kafkas_content(self._broker, first, last)

        def told(outcome: Any) -> None:
            if isinstance(outcome, Written):
                self._seen = outcome.version
                self._taken(first, last)
            elif isinstance(outcome, Conflict) and self._kafka < 3:
                self._compare(first, last, content)
            elif isinstance(outcome, Conflict):
                self._next()
            else:
                self._later(self._write, first, last, version)

        self._ensemble.ask(
            lambda: self._ensemble.model.set(content, version), told, lost=Unknown("no answer")
        )

    def _compare(self, first: int, last: int, content: bytes) -> None:
        """checkProducerIdBlockZkData: it is there, so it is ours."""

        def told(answer: Any) -> None:
            if isinstance(answer, Unknown | Unavailable):
                self._later(self._compare, first, last, content)
            else:
                held, self._seen = answer
                if held == content:
                    self._taken(first, last)
                else:
                    self._next()

        model = self._ensemble.model
        self._ensemble.ask(lambda: (model.content, model.version), told, lost=Unknown("no answer"))

    def _taken(self, first: int, last: int) -> None:
        self.blocks += 1
        attempt = Attempt(self._numbers(), "direct", None, self._agenda.now, 0, NodeId(-1))
        assert last - first + 1 == KAFKA_BLOCK_LENGTH
        self._ledger.told(attempt, ProducerIdBlock(ProducerId(first), KAFKA_BLOCK_LENGTH))
        self._later(self._next)

    def _later(self, call: Callable[..., None], *arguments: Any) -> None:
        self._agenda.after(self._rng.uniform(*self._pause_s), call, *arguments)
