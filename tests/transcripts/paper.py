"""The fence on paper: images, and one log to which anybody may append whatever it decided, however late.

There is no Raft here. Raft keeps most of these logs from ever being written; the fence must hold for
all of them (a library that forwards proposals, as pysyncobj does, writes some).
"""

import uuid
from dataclasses import dataclass, field

from fencepost.controller import brokers, producer_ids
from fencepost.controller.brokers import HeartbeatTracker
from fencepost.controller.decision import Decision
from fencepost.controller.replay import Applied, apply, replay_record
from fencepost.controller.view import EmptyView, Overlay
from fencepost.records.batch import BatchRecord, encode_batch
from fencepost.records.control import LeaderChange, encode_control
from fencepost.records.entry import Entry, decode_records
from fencepost.records.logged import encode_record
from fencepost.records.schema import RegisterBrokerRecord
from fencepost.records.types import BrokerEpoch, BrokerId, ImageVersion, Log, NodeId, ProposalNumber, Term
from tests.transcripts.words import answer, contents

BROKER, BROKER_EPOCH = BrokerId(7), BrokerEpoch(0)
UUID_OF_BROKER = uuid.UUID(int=7)


@dataclass
class Node:
    """An image, how much of the log is in it, and the epoch in which the node believes to lead."""

    image: Overlay = field(default_factory=lambda: Overlay(EmptyView()))
    applied: int = 0
    epoch: int = 0


class Paper:
    """Commands: nodes, claims, decides, appends, applies, image."""

    def __init__(self) -> None:
        self._nodes: dict[str, Node] = {}
        self._log: list[Entry] = []
        self._decided: dict[str, tuple[str, Entry, object]] = {}  # by client: node, entry, answer
        self._proposals = 0

    def perform(self, command: str) -> list[str]:
        """Run one command."""
        match command.replace(":", "").split():
            case ["nodes", *names]:
                for name in names:
                    self._nodes[name] = Node()
                    register(self._nodes[name].image)
                return []
            case [name, "claims", "epoch", epoch]:
                return self._claim(name, int(epoch))
            case [name, "decides", client, "allocates"]:
                return self._decide(name, client, "allocate")
            case [name, "decides", client, "fences", "the", "broker"]:
                return self._decide(name, client, "fence")
            case ["append", client]:
                _, entry, _ = self._decided[client]
                return self._append(entry)
            case [*names, "apply" | "applies"]:
                return [line for name in names for line in self._apply(name)]
            case [name, "image"]:
                return self._show(name)
            case _:
                raise ValueError(f"what is {command!r}?")

    def _claim(self, name: str, epoch: int) -> list[str]:
        self._nodes[name].epoch = epoch
        record = BatchRecord(*encode_control(LeaderChange(leader_id=NodeId(int(name[1:])))))
        batch = encode_batch([record], timestamp_ms=0, control=True)
        return self._append(self._entry(name, ((Log.METADATA, batch),)))

    def _decide(self, name: str, client: str, what: str) -> list[str]:
        node = self._nodes[name]
        decision: Decision[object]
        if what == "allocate":
            request = producer_ids.AllocateProducerIds(BROKER, BROKER_EPOCH)
            decided = producer_ids.decide_allocate(node.image, request, 1000)
            decision = Decision(decided.records, decided.response)
        else:
            expired = brokers.decide_expire(node.image, HeartbeatTracker(0, 1), now_ms=1)
            decision = Decision(expired.records, "fenced")
        parts = [encode_record(record)[1] for record in decision.records]
        entry = self._entry(name, ((Log.METADATA, encode_batch(parts, timestamp_ms=0)),))
        self._decided[client] = (name, entry, decision.response)
        return [f"{contents(entry)} (base version {entry.base_version}, epoch {entry.controller_epoch})"]

    def _entry(self, name: str, batches: tuple[tuple[Log, bytes], ...]) -> Entry:
        node = self._nodes[name]
        self._proposals += 1
        return Entry(
            ImageVersion(node.image.header.version),
            Term(node.epoch),
            NodeId(int(name[1:])),
            ProposalNumber(self._proposals),
            batches,
        )

    def _append(self, entry: Entry) -> list[str]:
        self._log.append(entry)
        return [f"log {len(self._log)}: n{entry.proposer}, {contents(entry)}"]

    def _apply(self, name: str) -> list[str]:
        node = self._nodes[name]
        said = []
        for index in range(node.applied, len(self._log)):
            entry = self._log[index]
            outcome = apply(node.image, entry, decode_records(entry))
            done = "applied" if isinstance(outcome, Applied) else "superseded"
            line = f"{name} log {index + 1}: {done}, version {outcome.version}"
            for client, (asked, decided, response) in self._decided.items():
                if asked == name and decided == entry:
                    told = answer(response) if done == "applied" else "not leader, nothing was done"
                    line += f", {client} is told {told}"
            said.append(line)
        node.applied = len(self._log)
        return said

    def _show(self, name: str) -> list[str]:
        view = self._nodes[name].image
        broker = view.get(brokers.BROKERS, BROKER)
        fenced = "fenced" if broker is None or broker.fenced else "not fenced"
        header = view.header
        led = f"version {header.version}, epoch {header.controller_epoch}, controller n{header.leader_id}"
        end = producer_ids.latest(view).end
        return [f"{led}, ids below {end} are given out, broker {BROKER} is {fenced}"]


def register(view: Overlay) -> None:
    """Broker 7, unfenced, from the beginning of time."""
    record = RegisterBrokerRecord(
        broker_id=BROKER,
        incarnation_id=UUID_OF_BROKER,
        broker_epoch=BROKER_EPOCH,
        end_points=(),
        features=(),
        fenced=False,
    )
    replay_record(view, record)
