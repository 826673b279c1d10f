"""What scripts say to voters on a bench: elect, register, allocate, settle.

No driver of its own: what a script says becomes events of the driver that ships (voters.py). A Replica
refuses a test that turns it by hand (tests/one_driver.py).
"""

import uuid
from collections.abc import Iterable, Mapping
from typing import Any, Final

from fencepost.controller import brokers, producer_ids, voters
from fencepost.controller.brokers import Endpoint, HeartbeatTracker, RegisterBroker
from fencepost.controller.decision import Decision
from fencepost.quorum.journal import REGULAR
from fencepost.quorum.port import Decide, Reply
from fencepost.records.batch import BatchRecord, encode_batch
from fencepost.records.control import encode_control
from fencepost.records.entry import Entry, encode_entry
from fencepost.records.types import BrokerEpoch, BrokerId, ImageVersion, Log, NodeId, ProposalNumber, Term
from tests.quorum.clients import Answers
from tests.quorum.voters import CLUSTER, Voters

BROKER: Final = BrokerId(7)


class Rig(Voters):
    """Voters, and what a script says in one word."""

    def campaign(self, node: int) -> None:
        """Its election deadline passes."""
        self.turn(node)  # or it would think that it was away itself
        self[node].raft._SyncObj__raftElectionDeadline = self.now - 1
        self.turn(node)

    def elect(self, node: int, *voters: int) -> None:
        """Make a node an active leader with the help of these (all by default), and let things settle."""
        among = (node, *voters) if voters else ()
        self.turn()
        self.flow(*among)
        self.campaign(node)
        self.flow(*among)
        if not self[node].proposer.active:  # its followers' logs differ from its own
            self.settle(*among)
        assert self[node].proposer.active, f"node {node} is not active"

    def settle(self, *nodes: int) -> None:
        """Heartbeats and frames until every node knows what is committed."""
        for _ in range(3):
            self.heartbeat(*nodes)
            self.flow(*nodes)

    def ask(self, node: int, decide: Decide[Any]) -> Answers:
        """Submit a decision. The node takes no turn: the script decides when."""
        answers = Answers()
        self.submit(node, decide, answers)
        return answers

    def submit(self, node: int, decide: Decide[Any], reply: Reply[Any], **how: Any) -> None:
        """Submit a decision with a reply of the script's own."""
        self.carry_out(node, self.drivers[NodeId(node)].submit(decide, reply, **how))

    def allocate(self, node: int, length: int = 1000, epoch: int | None = None) -> Answers:
        """Submit an allocation for ``BROKER``, registered with ``register``."""
        return self.ask(node, self.decide_allocate(node, length, epoch))

    def decide_allocate(self, node: int, length: int = 1000, epoch: int | None = None) -> Decide[Any]:
        """What ``allocate`` submits."""
        sent = self.epoch_of(node) if epoch is None else BrokerEpoch(epoch)
        request = producer_ids.AllocateProducerIds(BROKER, sent)
        return lambda view, _now: producer_ids.decide_allocate(view, request, length)

    def epoch_of(self, node: int) -> BrokerEpoch:
        broker = self[node].image.get(brokers.BROKERS, BROKER)
        return BrokerEpoch(-1) if broker is None else broker.epoch

    def register(self, node: int) -> None:
        """Register ``BROKER`` and let it be applied everywhere that is reached."""
        request = RegisterBroker(
            BROKER, CLUSTER, uuid.UUID(int=1), uuid.UUID(int=2), (Endpoint("PLAINTEXT", "127.0.0.1", 9092),)
        )
        heartbeats = HeartbeatTracker(0, 9000)
        answers = self.ask(
            node,
            lambda view, now_ms: brokers.decide_register(
                view, request, cluster_id=CLUSTER, heartbeats=heartbeats, now_ms=now_ms
            ),
        )
        self.turn(node)
        self.flow()
        self.settle()
        assert answers.all, "the registration was not answered"

    def read(self, node: int) -> Answers:
        """Submit a linearizable read of the first free producer id."""
        return self.ask(node, lambda view, _now: Decision((), producer_ids.latest(view).end))

    def voters_entry(self, bound: Mapping[NodeId, uuid.UUID]) -> bytes:
        """The command of an entry that holds a Voters record and that the fence will not let through."""
        record = encode_control(voters.voters_record(bound))
        batch = encode_batch([BatchRecord(*record)], timestamp_ms=self.wall_ms, control=True)
        entry = Entry(ImageVersion(0), Term(0), NodeId(1), ProposalNumber(0), ((Log.METADATA, batch),))
        return REGULAR + encode_entry(entry)

    def commands(self, node: int) -> list[tuple[int, int]]:
        """(index, term) of every entry in a node's journal."""
        return [(index, term) for _, index, term in self[node].journal]

    def images(self, nodes: Iterable[int] = ()) -> dict[int, int]:
        """Node -> first free producer id, by its own image."""
        return {int(n): int(producer_ids.latest(self[n].image).end) for n in nodes or self.drivers}
