"""Clients: brokers that register, ask for blocks, read, fall silent and come back.

A client does not know who leads: it asks somebody, follows success, and moves on after a refusal or
after its patience ends. It never learns the outcome of what it gave up on. Every attempt carries a mark
that no other has (the length of its block, the incarnation of its registration), so that the
committed log tells which attempts happened.
"""

import random
import uuid
from collections.abc import Callable, Mapping
from typing import Any

from fencepost.controller import producer_ids
from fencepost.controller.brokers import Endpoint, Heartbeat, RegisterBroker, UnregisterBroker
from fencepost.controller.decision import Decision
from fencepost.controller.errors import StaleBrokerEpoch
from fencepost.controller.view import View
from fencepost.quorum.port import Reply
from fencepost.records.types import BrokerEpoch, BrokerId, NodeId
from fencepost.wire.dispatch import Context
from tests.simulation.agenda import Agenda
from tests.simulation.config import CLUSTER
from tests.simulation.ledger import Attempt, Ledger
from tests.simulation.process import Process
from tests.wire.answering import Answering

Ask = Callable[[Process, Reply[Any]], None]  # a request, as it reaches a process

PATIENCE_S = (0.3, 2.5)
PAUSE_S = (0.002, 0.12)
SHORTEST_BLOCK = 10
CONTEXT = Context("User:ANONYMOUS", "CONTROLLER", "simulated", "127.0.0.1:1")


class Client:
    """One broker, identified by ``broker_id``; up to ``width`` of its requests are under way at once."""

    def __init__(
        self,
        broker_id: BrokerId,
        agenda: Agenda,
        rng: random.Random,
        ledger: Ledger,
        processes: Mapping[NodeId, Process],
        numbers: Callable[[], int],
        width: int,
    ) -> None:
        self.broker_id = broker_id
        self.epoch: BrokerEpoch | None = None
        self.successes = 0
        self.rests = False  # it sends nothing more
        self.lost_answers = 0.0  # the share that never comes
        self._directory = uuid.UUID(int=rng.getrandbits(128))
        self._agenda = agenda
        self._rng = rng
        self._ledger = ledger
        self._processes = processes
        self._numbers = numbers
        self._leader: NodeId | None = None
        for _ in range(width):
            agenda.after(rng.uniform(0.0, 0.5), self._next)

    # -- asking -----------------------------------------------------------------------------------

    def _next(self) -> None:
        """Choose a node and a request; go on when it is answered or patience ends."""
        rng = self._rng
        if self.rests:
            return
        if self._leader is None or rng.random() < 0.05:
            self._leader = rng.choice(sorted(self._processes))
        kind, ask, mark = self._choose()
        node = self._processes[self._leader]
        attempt = Attempt(self._numbers(), kind, mark, self._agenda.now, self._ledger.told_end, self._leader)
        waiting = [True]

        def go_on() -> None:
            if waiting[0]:
                waiting[0] = False
                self._agenda.after(rng.uniform(*PAUSE_S), self._next)

        def reply(answer: Any, _throttle_ms: int) -> None:
            attempt.full = attempt.full and node.full  # else it may have waited until there was room
            self._ledger.told(attempt, answer)
            if self.lost_answers and rng.random() < self.lost_answers:
                self._ledger.count("answers lost")
                return
            if waiting[0]:
                self._learn(attempt)
            self._agenda.after(rng.uniform(0.0, 0.003), go_on)

        def give_up() -> None:
            if waiting[0]:
                self._leader = None
                go_on()

        self._agenda.after(rng.uniform(*PATIENCE_S), give_up)
        self._agenda.after(rng.uniform(0.0, 0.003), self._submit, node, attempt, ask, reply)

    def _submit(self, node: Process, attempt: Attempt, ask: Ask, reply: Reply[Any]) -> None:
        """A dead node refuses the connection; a stopped one takes the request and is silent."""

        def taken() -> None:
            attempt.full, attempt.broker_id = node.full, self.broker_id
            self._ledger.taken(attempt, node.life, self._agenda.now, node.replica)
            ask(node, reply)

        node.run(taken)

    def _choose(self) -> tuple[str, Ask, object]:
        """What to ask: kind, the request to the node's server, mark."""
        chance = self._rng.random()
        if self.epoch is None or chance < 0.03:
            return self._register()
        if chance < 0.70:
            return self._allocate(self.epoch)
        if chance < 0.85:
            return "read", _read, None
        if chance < 0.98:
            return self._heartbeat(self.epoch)
        return "unregister", self._unregister, None

    def _allocate(self, epoch: BrokerEpoch) -> tuple[str, Ask, object]:
        """Past the endpoint, whose blocks are all of one length."""
        length = SHORTEST_BLOCK + self._numbers()
        request = producer_ids.AllocateProducerIds(self.broker_id, epoch)

        def decide(view: View, _now_ms: int) -> Decision[Any]:
            return producer_ids.decide_allocate(view, request, length)

        return "allocate", lambda node, reply: node.submit(decide, reply), length

    def _register(self) -> tuple[str, Ask, object]:
        incarnation = uuid.UUID(int=self._rng.getrandbits(128))
        request = RegisterBroker(
            self.broker_id, CLUSTER, incarnation, self._directory, (Endpoint("PLAINTEXT", "127.0.0.1", 9092),)
        )
        return (
            "register",
            lambda node, reply: node.controller.register(request, CONTEXT, Answering(reply)),
            incarnation,
        )

    def _heartbeat(self, epoch: BrokerEpoch) -> tuple[str, Ask, object]:
        request = Heartbeat(self.broker_id, epoch, int(epoch), want_fence=self._rng.random() < 0.1)

        def ask(node: Process, reply: Reply[Any]) -> None:
            if request.want_fence:
                self._ledger.fence_wanted(node.replica, self.broker_id)
            node.controller.heartbeat(request, CONTEXT, Answering(reply))

        return "heartbeat", ask, None

    def _unregister(self, node: Process, reply: Reply[Any]) -> None:
        node.controller.unregister(UnregisterBroker(self.broker_id), CONTEXT, Answering(reply))

    # -- learning ---------------------------------------------------------------------------------

    def _learn(self, attempt: Attempt) -> None:
        if attempt.outcome == "done":
            self.successes += 1
            self._leader = attempt.node
            if attempt.kind == "register":
                self.epoch = attempt.answer
            elif attempt.kind == "unregister":
                self.epoch = None
        elif isinstance(attempt.answer, StaleBrokerEpoch):
            self.epoch = None
        else:
            self._leader = None


def _read(node: Process, reply: Reply[Any]) -> None:
    """The first free producer id, as a linearizable read."""
    node.submit(lambda view, _now: Decision((), producer_ids.latest(view).end), reply)
