"""Nothing says "I have it" before the disk does (H9), and a crash at any frame leaves a voter that is right.

What is on disk is read from the disk: through a read transaction, which sees only what was flushed.
"""

import msgspec
import pytest

from fencepost.quorum.messages import Ack, Message, RequestVote, SnapshotAck, TimeoutNow, Vote
from fencepost.quorum.raft_log import LEADER
from fencepost.quorum.replica import FLUSH_WAIT_S, Replica
from fencepost.records.types import NodeId
from fencepost.snapshots.image import image_digest
from tests.quorum.conftest import MakeRig
from tests.quorum.rig import Rig


class Crash(Exception):
    """The process dies at this very frame."""


def on_disk(replica: Replica, index: int) -> bool:
    """The entry is in the flushed journal."""
    with replica.store.env.begin() as txn:
        return txn.get(index.to_bytes(8, "big"), db=replica.store.journal_db) is not None


def term_and_vote_on_disk(replica: Replica) -> tuple[int, int | None]:
    with replica.store.env.begin() as txn:
        raw = [txn.get(name, db=replica.store.meta_db) for name in (b"raft.term", b"raft.vote")]
    term, vote = (None if each is None else msgspec.msgpack.decode(each) for each in raw)
    return term or 0, vote


# -- before anything leaves ----------------------------------------------------------------------------------


def test_h9_an_ack_leaves_when_the_entry_is_on_disk(three: Rig) -> None:
    seen: list[bool] = []

    def check(replica: Replica, _target: NodeId, message: Message) -> None:
        if isinstance(message, Ack) and message.success:
            seen.append(on_disk(replica, message.next_index - 1))

    three.on_send = check
    for _ in range(3):
        three.allocate(1)
        three.turn(1)
        three.flow()
    assert seen == [True] * 6


def test_h9_a_vote_leaves_when_it_is_on_disk(make_rig: MakeRig) -> None:
    rig = make_rig(3)
    seen: list[tuple[object, object]] = []

    def check(replica: Replica, target: NodeId, message: Message) -> None:
        if isinstance(message, Vote):
            seen.append((term_and_vote_on_disk(replica), (message.term, target)))

    rig.on_send = check
    for candidate in (1, 2, 3):
        rig.campaign(candidate)
        rig.flow()
    assert len(seen) == 6
    assert all(disk == said for disk, said in seen)


def test_h9_a_candidate_asks_for_votes_when_its_own_is_on_disk(make_rig: MakeRig) -> None:
    rig = make_rig(3)
    seen: list[tuple[object, object]] = []

    def check(replica: Replica, _target: NodeId, message: Message) -> None:
        if isinstance(message, RequestVote):
            seen.append((term_and_vote_on_disk(replica), (message.term, replica.config.node_id)))

    rig.on_send = check
    rig.campaign(2)
    assert seen == [((1, 2), (1, 2))] * 2


def test_nothing_else_that_speaks_of_the_journal_overtakes_its_flush(three: Rig) -> None:
    unflushed: list[bool] = []

    def check(replica: Replica, _target: NodeId, message: Message) -> None:
        if isinstance(message, Ack | Vote | RequestVote | SnapshotAck | TimeoutNow):
            unflushed.append(replica.journal.must_flush)

    three.on_send = check
    three.allocate(1)
    three.turn(1)
    three.flow()
    three.elect(2)
    assert unflushed
    assert not any(unflushed)


def test_h9_an_answer_leaves_when_the_leaders_own_entry_is_on_disk(three: Rig) -> None:
    """The leader counts itself, so it must have flushed before the tick that counts."""
    seen: list[bool] = []
    index = three[1].journal.last_index + 1
    three.submit(1, three.decide_allocate(1), lambda _answer, _ms: seen.append(on_disk(three[1], index)))
    three.step(1)  # proposed and sent, not flushed
    assert not on_disk(three[1], index)
    three.receive(2, 1, three.frames[NodeId(1), NodeId(2)].pop())
    three.turn(2)
    for ack in three.frames[NodeId(2), NodeId(1)]:
        three.receive(1, 2, ack)  # a majority with the leader, if its own entry counts
    three.step(1)
    assert seen == [True]


# -- a crash -------------------------------------------------------------------------------------------------


def test_an_acknowledged_entry_survives_a_crash_of_who_acknowledged_it(three: Rig) -> None:
    three.allocate(1)
    three.turn(1)
    three.deliver(1, 2)
    ack = three.take(2, 1, Ack)
    three.crash(2)
    assert three.start(2).journal.last_index >= ack.next_index - 1


def test_a_vote_survives_a_crash(make_rig: MakeRig) -> None:
    """Else it is given twice, and two leaders are elected in one term (PySyncObj #84, #201, #202)."""
    rig = make_rig(3)
    rig.campaign(1)
    rig.deliver(1, 2)
    rig.take(2, 1, Vote)
    rig.crash(2)
    rig.start(2)
    rig.connect(2)
    rig.deliver(3, 2, RequestVote(1, 1, 0))
    assert not [m for m in rig.frames[NodeId(2), NodeId(3)] if isinstance(m, Vote)]


def test_what_was_not_flushed_was_never_said(three: Rig) -> None:
    """The follower dies at its first frame after the append: no ack left, the entry may be gone."""

    def die(replica: Replica, _target: NodeId, _message: Message) -> None:
        if replica.config.node_id == 2:
            raise Crash

    last = three[2].journal.last_index
    three.allocate(1)
    three.turn(1)
    three.receive(2, 1, three.frames[NodeId(1), NodeId(2)].pop())
    three.crash(2)  # before its turn
    assert three.start(2).journal.last_index == last
    three.connect(2)
    three.on_send = die
    three.heartbeat(1)
    with pytest.raises(Crash):
        three.deliver(1, 2)  # at its turn: flushed, then dead before a peer knew
    three.on_send = lambda *_: None
    three.crash(2)
    three.start(2)
    three.connect()
    three.settle()
    assert three.commands(2) == three.commands(1)


def test_all_at_once_and_again(three: Rig) -> None:
    """kill -9 of every node: same state, same log, and the next block is the next."""
    for _ in range(5):
        three.allocate(1)
        three.turn(1)
        three.flow()
    three.settle()
    before = {node: image_digest(three[node].store) for node in (1, 2, 3)}
    for node in (1, 2, 3):
        three.crash(node)
    for node in (1, 2, 3):
        three.start(node)
    three.connect()
    three.elect(2)
    answers = three.allocate(2)
    three.turn(2)
    three.flow()
    assert len(set(before.values())) == 1
    assert answers.codes == ["[5000, 6000)"]


def test_an_image_is_never_ahead_of_its_log(three: Rig) -> None:
    """Applied index, journal and rows move in one transaction: a crash takes back all three or none."""
    three.allocate(1)
    three.turn(1)
    three.flow()
    three.crash(1)
    restarted = three.start(1)
    with restarted.store.reader() as reader:
        index, _ = reader.applied()
        version = reader.header.version
    assert index <= restarted.journal.last_index
    assert restarted.raft.applied_index == index
    three.connect(1)
    three.elect(2)
    three.settle()
    assert three[1].image.header.version > version
    assert len({image_digest(three[node].store) for node in (1, 2, 3)}) == 1


def test_h7_a_restart_keeps_what_was_acknowledged_after_the_last_snapshot(make_rig: MakeRig) -> None:
    """pysyncobj would clear a journal that begins before its newest dump."""
    rig = make_rig(3, snapshot_entries=4)
    rig.elect(1)
    rig.register(1)
    for _ in range(6):
        rig.allocate(1)
        rig.turn(1)
        rig.flow()
    rig.settle()
    rig.maintenance_tick()
    rig.work()  # published; killed before anything was compacted
    for _ in range(3):
        rig.allocate(1)
        rig.turn(1)
        rig.flow()
    last = rig[2].journal.last_index
    rig.crash(2)
    assert rig.start(2).journal.last_index == last


def test_a_new_leader_commits_nothing_before_its_own_flush(make_rig: MakeRig) -> None:
    rig = make_rig(3)
    rig.flow()
    rig.campaign(1)
    rig.deliver(1, 2)
    rig.receive(1, 2, rig.take(2, 1, Vote))
    assert rig[1].raft.role == LEADER
    assert (rig[1].journal.must_flush, rig[1].raft.commit_index) == (True, 1)


def test_an_idle_node_writes_nothing(three: Rig) -> None:
    written = []
    for _ in range(4):
        three.wait(2 * FLUSH_WAIT_S)
        three.settle()
        three.maintenance_tick(2)
        written.append(three[2].store.env.info()["last_txnid"])
    assert written[1:] == written[1:2] * 3
