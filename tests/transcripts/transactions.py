"""Transactional producers in stories: programs with one transactional id, partitions p0 to p3, a coordinator.

The cluster is that of the simulation on a calm day (tests/simulation/desk.py). Told is what the log of
transactions and the partitions say, and what the programs hear; I6 and I7 are not judged, for one story is
about how they break.
"""

from contextlib import ExitStack
from typing import Any

from fencepost.controller.errors import ErrorCode
from fencepost.controller.transactions.end_txn import EndTxnAnswer
from fencepost.controller.transactions.init_request import InitProducerIdAnswer
from fencepost.controller.transactions.states import State
from fencepost.records.transaction_log import TransactionForgotten, TransactionStateRecord
from fencepost.records.types import LogIndex
from tests.simulation.desk import Letter, Program, calm_desk
from tests.simulation.facts import Marked, Wrote
from tests.simulation.invariants import INVARIANTS
from tests.simulation.ledger import Ledger, News

ID = "payments"


class TransactionStory:
    """Commands: NAME starts, asks, writes, commits, aborts; settle, deliver, kill, wait, read; pN is away."""

    def __init__(self) -> None:
        self._stack = ExitStack()
        self._desk = self._stack.enter_context(calm_desk())
        self._desk.sim.invariants = [*INVARIANTS, self._note]
        self._programs: dict[str, Program] = {}
        self._names: dict[int, str] = {}  # whose purpose it is
        self._ended: set[str] = set()  # programs whose next batch begins another transaction
        self._late: list[Letter] = []
        self._said: list[str] = []
        self._seen = LogIndex(0)
        self._first: int | None = None

    def close(self) -> None:
        """End the cluster."""
        self._stack.close()

    def perform(self, command: str) -> list[str]:
        """Run one command; what happens until it is answered."""
        told = self._perform(command.replace(",", "").split())
        self._desk.look()
        said, self._said = self._said, []
        return [*said, *told]

    def _perform(self, words: list[str]) -> list[str]:
        match words:
            case ["transactions"]:
                pass
            case ["settle"]:
                self._desk.settle(ID)
            case ["kill", "the", "coordinator"]:
                self._desk.leader.kill()
                self._desk.wait(2.0)
            case [place, "is", "away" | "back" as where]:
                self._desk.sim.world.brokers[int(place[1:])].is_away(where == "away")
            case ["wait", seconds, "s"]:
                self._desk.wait(float(seconds))
            case ["read"]:
                return [self._names[number] for _, number in self._desk.read()] or ["nothing"]
            case ["deliver", "it"]:
                return [f"the late request is told {_word(self._late[0].deliver().answer())}"]
            case [name, *rest]:
                return self._act(name, rest)
        return []

    def _act(self, name: str, words: list[str]) -> list[str]:
        match words:
            case ["starts", *rest]:
                timeout_ms = int(rest[-2]) if rest else 60_000
                self._programs[name] = Program(self._desk, ID, timeout_ms=timeout_ms)
                return self._identify(name)
            case ["asks", "who", "it", "is"]:
                return self._identify(name)
            case ["writes", place]:
                return self._write(name, int(place[1:]))
            case ["commits" | "aborts" as end]:
                self._ended.add(name)
                return [f"{name} is told {_word(self._programs[name].end(end == 'commits'))}"]
            case ["commits" | "aborts" as end, "but", "the", "request", "is", "late"]:
                self._late = [self._programs[name].ending(end == "commits")]
                return []
        raise ValueError(f"what is {name} {words}?")

    def _identify(self, name: str) -> list[str]:
        answer = self._programs[name].identify()
        self._programs[name].begin()
        return [f"{name} is told {_word(answer, self._base(answer))}"]

    def _base(self, answer: Any) -> int:
        if self._first is None and isinstance(answer, InitProducerIdAnswer):
            self._first = answer.producer_id
        return self._first or 0

    def _write(self, name: str, place: int) -> list[str]:
        program = self._programs[name]
        if name in self._ended:
            self._ended.discard(name)
            program.begin()
        added = program.add(place)
        if added != ErrorCode.NONE:
            return [f"{name} is told {_word(added)}"]
        code = program.send(program.batch(place))
        return [] if code == ErrorCode.NONE else [f"{name} is told {_word(code)}"]

    # -- what is told -----------------------------------------------------------------------------

    def _note(self, _ledger: Ledger, news: News) -> None:
        for seen in news.seen:
            if seen.index > self._seen:
                self._seen = seen.index
                self._said += [self._record(each) for each in seen.transactions]
        for fact in news.facts:
            if isinstance(fact, Wrote):
                writer = next(n for n, p in self._programs.items() if p.purpose == fact.purpose)
                self._names[fact.purpose.number] = writer
                self._said.append(f"p{fact.place}: a batch of {writer}, {self._pair(*fact.pair)}")
            elif isinstance(fact, Marked):
                end = "commit" if fact.committed else "abort"
                self._said.append(f"p{fact.place}: {end} marker, {self._pair(*fact.pair)}")

    def _record(self, record: TransactionStateRecord | TransactionForgotten) -> str:
        if isinstance(record, TransactionForgotten):
            return f"log: {record.transactional_id} is forgotten"
        state = State(record.status).wire_name
        return f"log: {state}, {self._pair(record.producer_id, record.producer_epoch)}"

    def _pair(self, producer_id: int, epoch: int) -> str:
        if self._first is None:
            self._first = producer_id
        return f"producer {'ABC'[producer_id - self._first]} epoch {epoch}"


def _word(told: Any, first: int = 0) -> str:
    if isinstance(told, InitProducerIdAnswer):
        return f"producer {'ABC'[told.producer_id - first]} epoch {told.producer_epoch}"
    if told is None or isinstance(told, EndTxnAnswer) or told == ErrorCode.NONE:
        return "done"
    return ErrorCode(told).name
