"""An operator sends one request after the other to the node that answered last, else to any."""

import random
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from typing import Any, Final

from fencepost.controller.decision import Decision
from fencepost.controller.errors import ApiError
from fencepost.controller.view import View
from fencepost.quorum.port import Reply
from fencepost.records.types import NodeId
from tests.simulation.agenda import Agenda
from tests.simulation.ledger import Ledger
from tests.simulation.process import Process

PATIENCE_S: Final = 1.5
PAUSE_S: Final = (0.05, 0.4)

Ask = Callable[[Process, Reply[Any]], None]


class Operator(ABC):
    """See the module."""

    def __init__(
        self, agenda: Agenda, rng: random.Random, ledger: Ledger, processes: Mapping[NodeId, Process]
    ) -> None:
        self._agenda = agenda
        self._rng = rng
        self._ledger = ledger
        self._processes = processes
        self._leader: NodeId | None = None
        agenda.after(rng.uniform(0.5, 1.5), self._act)

    @abstractmethod
    def _act(self) -> None:
        """Send the next request."""

    def _read(self, read: Callable[[View], Any], done: Callable[[Any], None]) -> None:
        """A linearizable one."""

        def decide(view: View, _now_ms: int) -> Decision[Any]:
            return Decision((), read(view))

        self._send(lambda node, reply: node.submit(decide, reply), done)

    def _send(
        self,
        ask: Ask,
        done: Callable[[Any], None],
        refused: Callable[[ApiError], None] = lambda _error: None,
    ) -> None:
        """The next step follows an answer, or the end of patience, after which no answer is heard."""
        waiting = [True]
        if self._leader is None:
            self._leader = self._rng.choice(sorted(self._processes))
        node = self._processes[self._leader]

        def go_on() -> None:
            if waiting[0]:
                waiting[0] = False
                self._agenda.after(self._rng.uniform(*PAUSE_S), self._act)

        def reply(answer: Any, _throttle_ms: int) -> None:
            if isinstance(answer, ApiError):
                self._leader = None
                if waiting[0]:
                    refused(answer)
            elif waiting[0]:
                done(answer)
            go_on()

        def give_up() -> None:
            if waiting[0]:
                self._leader = None
                go_on()

        def arrive() -> None:
            try:
                ask(node, reply)
            except ApiError as refusal:
                reply(refusal, 0)

        self._agenda.after(PATIENCE_S, give_up)
        self._agenda.after(self._rng.uniform(0.0, 0.003), node.run, arrive)
