"""A peer that knows the cluster's secret sends what is no message, or a message with absurd numbers in it.

Goal        the first closes its connection and reaches nothing; the second stops no node.
Method      frames of tests/hostile/voters.py on real sockets; replicas on a bench for what can be decoded.
Trusted     a voter may claim terms and a log: those are said in docs/limits.md.
Replay      the seed is in the test's id.
"""

import asyncio
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

import fencepost.quorum.snapshotter
from fencepost.quorum.messages import (
    NAME_MAX,
    Ack,
    Behind,
    Message,
    NewerTerm,
    RequestVote,
    SnapshotAck,
    SnapshotBegin,
    SnapshotChunk,
    TimeoutNow,
    Vote,
    decode,
    encode,
)
from fencepost.records.invariant import CorruptData
from fencepost.records.types import NodeId
from fencepost.snapshots import snapshot
from fencepost.wire.limited_log import LINES_MAX
from tests.hostile.voters import Voter, changed, is_message, samples, send_as
from tests.ports import free_port
from tests.quorum.conftest import MakeRig
from tests.quorum.rig import Rig
from tests.quorum.test_links import ONE, SECRET, TWO, Node, running, until
from tests.quorum.transfers import advance, catch_up
from tests.together import table
from tests.wire.stage import capturing_log

FRAMES = 300
EDGES = (0, 1, 2, 3, 5, 6, 7, 100, 2**31 - 1, 2**31, 2**53, 2**63 - 1, 2**63, 2**64 - 1, -1, -5, -(2**63))
TEXTS = ("", "state", "x" * 64, "x" * 65, "../../etc", "\0", "00000000000000000005-0000000001")
RAW = (
    b"",
    b"{}",
    b"[" * 5_000,
    b'{"a":' + b"[" * 5_000,
    b"\xff",
    b"null",
    b'{"log_level": 99}',
    bytes(70_000),
)


@pytest.mark.parametrize("seed", [1], ids="seed-{}".format)
def test_a_damaged_frame_closes_its_connection_and_reaches_nothing(seed: int) -> None:
    async def story() -> None:
        ports = {ONE: free_port(), TWO: free_port()}
        node = Node(ONE, ports)
        voter = Voter("cluster", SECRET, TWO, Node(TWO, ports).directory, ("127.0.0.1", 1))
        async with running(node):
            address = ("127.0.0.1", node.port)
            endings = await asyncio.to_thread(send_as, voter, [address], random.Random(seed), FRAMES)
            assert endings == {"closed after the frame": FRAMES}
            assert node.messages == []
            assert len(node.log) <= 2 * LINES_MAX
            other = Node(TWO, ports)
            async with running(other):  # the voter itself is let in as ever
                await until(lambda: node.has("connected 2")() and other.has("connected 1")())
                node.links.send(TWO, encode(TimeoutNow(7)))
                await until(lambda: other.messages == [(ONE, TimeoutNow(7))])

    asyncio.run(story())


@pytest.mark.parametrize("seed", range(3), ids="seed-{}".format)
def test_whatever_is_changed_in_a_frame_it_is_a_message_or_corrupt(seed: int) -> None:
    rng = random.Random(seed)
    found = {is_message(changed(rng, rng.choice(samples(rng)))[4:]) for _ in range(20_000)}
    assert found == {True, False}


def variants(message: Message) -> Iterator[Message]:
    """The message with each field but its term changed, as far as that can be decoded."""
    names = message.__struct_fields__
    for name in names[1:]:
        value = getattr(message, name)
        others: tuple[Any, ...] = ()
        if isinstance(value, bool):
            others = (True, False)
        elif isinstance(value, int):
            others = EDGES
        elif isinstance(value, str):
            others = TEXTS
        elif isinstance(value, bytes):
            others = RAW
        for other in others:
            raw = encode(msgspec.structs.replace(message, **{name: other}))
            try:
                yield decode(raw)
            except CorruptData:
                continue


MESSAGES: dict[str, Message] = {
    type(each).__name__: each
    for each in (
        Behind(1, 100),
        Ack(1, 3, reset=False, success=True),
        Ack(1, 3, reset=True, success=False),
        RequestVote(1, 3, 1),
        Vote(1),
        TimeoutNow(0),
        NewerTerm(0),
        SnapshotBegin(1, "00000000000000000005-0000000001", b"{}"),
        SnapshotChunk(1, "00000000000000000005-0000000001", "state", 0, b"rows"),
        SnapshotAck(1, "00000000000000000005-0000000001", "state", 4, "", installed=False),
    )
}


@pytest.mark.parametrize("kind", MESSAGES)
@pytest.mark.parametrize("target", [1, 3], ids=["leader", "follower"])
def test_no_number_or_name_in_a_message_stops_a_node(tmp_path: Path, kind: str, target: int) -> None:
    """Of the peer whose word counts: a follower for the leader, the leader for a follower."""
    rig = Rig(tmp_path)
    rig.elect(1)
    rig.register(1)
    source = 2 if target == 1 else 1
    term = rig[target].raft.term
    count = 0
    for message in variants(MESSAGES[kind]):
        if isinstance(message, Behind) and target == 1:
            continue  # a second leader of one term: Raft is broken already
        rig.deliver(source, target, msgspec.structs.replace(message, term=min(message.term * term, term)))
        rig.maintenance_tick(target)
        count += 1
    assert count or not MESSAGES[kind].__struct_fields__[1:] or target == 1
    assert rig[target].raft.term == term
    rig.settle()
    answers = rig.allocate(1)
    rig.turn(1)
    rig.flow()
    rig.settle()
    assert answers.codes == ["[0, 1000)"]
    rig.close()


def test_what_a_follower_acknowledges_of_a_snapshot_stops_no_leader(
    make_rig: MakeRig, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A snapshot is on its way to it; it acknowledges absurd positions of absurd files."""
    monkeypatch.setattr(fencepost.quorum.snapshotter, "TAIL_ENTRIES", 0)
    rig = make_rig(3, snapshot_entries=5)
    rig.elect(1)
    rig.register(1)
    rig.crash(3)
    advance(rig, 1, 10)
    rig.maintenance_tick(1)
    rig.work()
    rig.start(3)
    rig.connect(3)
    for _ in range(4):
        rig.heartbeat(1)
        rig.deliver(1, 3)
    ack = rig.take(3, 1, SnapshotAck)
    for message in variants(ack):
        assert isinstance(message, SnapshotAck)
        rig[1].snapshotter.send_to(NodeId(3))  # the transfer begins again where the last ack ended it
        rig.deliver(3, 1, message)
    catch_up(rig)


def test_refused_snapshots_fill_no_log(make_rig: MakeRig) -> None:
    log, events = capturing_log()
    rig = make_rig(3)
    rig.elect(1)
    rig.crash(3)
    rig.log_of = lambda _node: log  # type: ignore[method-assign]
    rig.start(3)
    rig.connect(3)
    rig.settle()
    term = rig[3].raft.term
    for _ in range(100):
        rig.deliver(1, 3, SnapshotBegin(term, "n" * NAME_MAX, b"{}"))
        rig.deliver(1, 3, SnapshotAck(term, "n", "", 0, installed=True))
    refused = [event for event in events if event["event"].startswith("snapshot_")]
    assert len(refused) == LINES_MAX


@table(
    "manifest",
    [
        pytest.param(b'{"a":' + b"[" * 60_000, id="lists"),
        pytest.param(b'{"a":' * 12_000, id="objects"),
        pytest.param(b'{"files":' * 7_000, id="files"),
    ],
)
def test_a_deeply_nested_manifest_is_a_corrupt_snapshot(manifest: bytes) -> None:
    with pytest.raises(snapshot.CorruptSnapshot):
        snapshot.decode_manifest(manifest, "it")


def test_votes_of_other_terms_are_not_remembered(tmp_path: Path) -> None:
    rig = Rig(tmp_path)
    rig.elect(1)
    before = len(rig[1].firewall._votes)
    for term in (*range(1_000), *range(2**31 - 1_000, 2**31)):
        if term != rig[1].raft.term:
            rig.deliver(2, 1, Vote(term))
    assert len(rig[1].firewall._votes) == before
    rig.close()
