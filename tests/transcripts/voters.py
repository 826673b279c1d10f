"""Real voters in a story: who leads, what is in the logs, what clients are told."""

from pathlib import Path
from typing import Any

from fencepost.controller import producer_ids
from fencepost.controller.decision import Decision
from fencepost.controller.producer_ids import AllocateProducerIds
from fencepost.controller.replay import Applied, Superseded
from fencepost.quorum.journal import NO_OP
from fencepost.quorum.proposer import OUTCOME_WAIT_S
from fencepost.quorum.replica import Replica
from fencepost.records.entry import Entry, decode_entry
from fencepost.records.types import NodeId
from tests.quorum.rig import BROKER, Rig
from tests.transcripts.words import answer, contents

ROLES = {"follower": "follows{term}", "candidate": "campaigns", "leader": "leads{term}"}


class StoryRig(Rig):
    """A bench that writes down what its voters do."""

    def __init__(self, root: Path, count: int) -> None:
        self.said: list[str] = []
        super().__init__(root, count)

    def start(self, node: int) -> Replica:
        replica = super().start(node)
        applied = replica.proposer.applied

        def noting(entry: Entry, outcome: Applied | Superseded) -> None:
            index = replica.applied[0]
            if isinstance(outcome, Applied):
                self.said.append(f"n{node} applies {index}, version {outcome.version}: {contents(entry)}")
            else:
                self.said.append(f"n{node} finds {index} superseded at version {outcome.version}")
            applied(entry, outcome)

        replica.proposer.applied = noting  # type: ignore[method-assign]
        return replica

    def log_of(self, node: NodeId) -> Any:
        return Roles(self, node)


class Roles:
    """A log that keeps what matters to a story."""

    def __init__(self, rig: StoryRig, node: NodeId) -> None:
        self._rig = rig
        self._node = node

    def info(self, event: str, **facts: Any) -> None:
        if event == "role_changed":
            term = f" in term {self._rig[self._node].raft.term}"
            self._rig.said.append(f"n{self._node} {ROLES[facts['role']].format(term=term)}")

    def warning(self, event: str, **facts: Any) -> None: ...
    def error(self, event: str, **facts: Any) -> None: ...


class VoterStory:
    """Commands: what ``_run``, ``_break`` and ``_look`` match."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._rig: StoryRig | None = None

    @property
    def rig(self) -> StoryRig:
        """The bench; there is none before ``voters``."""
        if self._rig is None:
            raise ValueError("a story of voters begins with 'voters 3'")
        return self._rig

    def close(self) -> None:
        """Let go of every file."""
        if self._rig is not None:
            self._rig.close()

    def perform(self, command: str) -> list[str]:
        """Run one command; what happened meanwhile, in order."""
        words = command.replace(":", "").replace(",", "").split()
        if words[0] == "voters":
            self._rig = StoryRig(self._root, int(words[1]))
            return []
        self.rig.said.clear()
        shown = self._run(words, command)
        return [*self.rig.said, *shown]

    def _run(self, words: list[str], command: str) -> list[str]:
        rig = self.rig
        match words:
            case ["elect", node, *helpers]:
                rig.elect(number(node), *map(number, helpers[1:]))
            case ["register", "at", node]:
                rig.register(number(node))
            case ["ask", node, client, "allocates"]:
                self._allocate(number(node), client)
            case ["ask", node, client, "allocates", "with", "an", "old", "epoch"]:
                self._allocate(number(node), client, epoch=0)
            case ["ask", node, client, "reads"]:
                self._ask(
                    number(node), client, lambda view, _now: Decision((), producer_ids.latest(view).end)
                )
            case ["turn", *nodes]:
                rig.turn(*map(number, nodes))
            case ["deliver", source, "->", target]:
                rig.deliver(number(source), number(target))
            case ["settle", *nodes]:
                rig.settle(*map(number, nodes))
            case ["wait", "until", "patience", "ends"]:
                rig.wait(OUTCOME_WAIT_S)
                rig.maintenance_tick()
            case _:
                if not self._break(words):
                    return self._look(words, command)
        return []

    def _break(self, words: list[str]) -> bool:
        """Faults, and their end. Whether the command is one."""
        rig = self.rig
        match words:
            case ["cut", "off", node]:
                self._cut_off(number(node))
            case ["reconnect", node]:
                rig.connect(number(node))
            case ["kill", node]:
                rig.crash(number(node))
            case ["start", node]:
                rig.start(number(node))
                rig.connect(number(node))
            case ["wipe", node]:
                rig.wipe(number(node), 0xBEEF)
            case ["readmit", "by", leader]:
                for _ in range(5):
                    rig.settle()
                    rig.maintenance_tick(number(leader))
                    rig.flow()
                rig.settle()
            case _:
                return False
        return True

    def _cut_off(self, node: int) -> None:
        """Its connections are gone, and nobody sees them close."""
        rig = self.rig
        for peer in rig.replicas:
            if peer != node:
                rig.part(node, peer)
                rig.drop(node, peer)
                rig.drop(peer, node)

    def _look(self, words: list[str], command: str) -> list[str]:
        match words:
            case ["log", node]:
                return self._log(number(node))
            case ["images"]:
                return [f"n{node}: ids below {end} are given out" for node, end in self.rig.images().items()]
            case _:
                raise ValueError(f"what is {command!r}?")

    def _allocate(self, node: int, client: str, epoch: int | None = None) -> None:
        sent = self.rig.epoch_of(node) if epoch is None else epoch
        request = AllocateProducerIds(BROKER, type(self.rig.epoch_of(node))(sent))
        self._ask(node, client, lambda view, _now: producer_ids.decide_allocate(view, request, 1000))

    def _ask(self, node: int, client: str, decide: Any) -> None:
        self.rig.submit(
            node, decide, lambda told, _ms: self.rig.said.append(f"{client} is told {answer(told)}")
        )

    def _log(self, node: int) -> list[str]:
        replica = self.rig[node]
        lines = []
        for command, index, term in replica.journal:
            if index == replica.journal.first_index:
                continue
            said = "(a new term)" if command == NO_OP else contents(decode_entry(command[1:]))
            committed = "" if index <= replica.raft.commit_index else ", not committed"
            lines.append(f"{index}: term {term}{committed}: {said}")
        return lines


def number(node: str) -> int:
    """n1 -> 1."""
    if not node.startswith("n"):
        raise ValueError(f"{node!r} is not a node")
    return int(node[1:])
