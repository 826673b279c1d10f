"""Snapshots on real nodes: who fell behind catches up by one; one wrong byte is refused by name.

The journal keeps the last 4 MiB for followers that are a little behind, so these tests make the log heavy:
with registrations as large as they may be, beside the load.
"""

import asyncio
import random
import shutil
import signal
import uuid
from collections.abc import Iterator
from itertools import takewhile
from pathlib import Path
from typing import Any

import pytest

from fencepost.controller.brokers import (
    NAME_CHARACTERS_MAX,
    REGISTRATION_FEATURES_MAX,
    Endpoint,
    Feature,
    RegisterBroker,
)
from fencepost.records.types import BrokerId
from fencepost.snapshots import snapshot
from fencepost.snapshots.history import producer_id_history
from fencepost.snapshots.segments import Hole
from fencepost.snapshots.snapshot import CorruptSnapshot
from fencepost.wire.client import ControllerClient
from fencepost.wire.k62_broker_registration import BROKER_REGISTRATION
from tests.harness.command import in_process, stdout_of
from tests.harness.nodes import NO_QUOTA, Nodes, revive, running, wait_for, wipe
from tests.processes import archive_reader
from tests.processes.checks import check_run
from tests.processes.load import Load

pytestmark = pytest.mark.slow

ENTRIES_BETWEEN = 300
HEAVY_IDS = range(900, 910)  # brokers of 100 KB each: their rows make a snapshot of several chunks
HEAVY_ROUNDS = 5  # 5 MB: more than the journal keeps behind a snapshot
ANSWER_SECONDS_MAX = 60.0
RSS_ANON_KIB_MAX = 100 * 1024


@pytest.fixture(scope="module")
def small_snapshots(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Nodes]:
    directory = tmp_path_factory.mktemp("snapshots") / "cluster"
    with running(directory, NO_QUOTA, f"snapshot.entries.interval={ENTRIES_BETWEEN}") as started:
        yield started


@pytest.fixture
def nodes(small_snapshots: Nodes) -> Nodes:
    """This module's own cluster, whole."""
    return revive(small_snapshots)


def log_end(nodes: Nodes, node_id: int) -> int:
    """Where a node's Raft log ends, as the leader knows it."""
    rows = nodes.read("quorum", "describe", "--replication")
    (end,) = [row["log_end_offset"] for row in rows if row["node_id"] == node_id]
    return int(end)


def leave_behind(nodes: Nodes, follower: int, end: int, load: Load) -> None:
    """Go on until the others took two snapshots each and their logs begin after ``end``.

    Both of them: entries this heavy stall a busy disk, so any of the two may lead at the end.
    """
    marks = marks_without(nodes, follower)

    def look() -> bool:
        taken = [nodes.events(node_id, "snapshot_taken", mark) for node_id, mark in marks.items()]
        return all(len(each) >= 2 and any(s["journal_from"] > end for s in each) for each in taken)

    for _ in range(2):
        asyncio.run(_register_heavily(nodes))
        load.await_done(ENTRIES_BETWEEN)
    wait_for(f"nodes {[*marks]} forget their logs up to {end}", look)


def marks_without(nodes: Nodes, follower: int) -> dict[int, int]:
    """Of the other two: where their logs of events end now."""
    return {node_id: nodes.log_size(node_id) for node_id in nodes.node_ids if node_id != follower}


def await_of_any(nodes: Nodes, marks: dict[int, int], name: str, **fields: Any) -> dict[str, Any]:
    """The first such event after its mark, of whichever node leads."""

    def look() -> dict[str, Any] | None:
        for node_id, mark in marks.items():
            for event in nodes.events(node_id, name, mark):
                if all(event.get(key) == value for key, value in fields.items()):
                    return event
        return None

    return wait_for(f"one of {[*marks]} logs {name} {fields}", look)


async def _register_heavily(nodes: Nodes) -> None:
    controllers = [nodes.address(node_id, "controller") for node_id in nodes.node_ids]
    client = ControllerClient(controllers, rng=random.Random(1), attempt_timeout_s=ANSWER_SECONDS_MAX)
    names = [
        f"{number:03}" + "\N{FENCER}" * (NAME_CHARACTERS_MAX - 3)
        for number in range(REGISTRATION_FEATURES_MAX)
    ]
    try:
        for broker_id in [*HEAVY_IDS] * HEAVY_ROUNDS:
            request = RegisterBroker(
                broker_id=BrokerId(broker_id),
                cluster_id=nodes.cluster.cluster_id,
                incarnation_id=uuid.uuid4(),
                directory_id=uuid.UUID(int=broker_id),
                endpoints=(Endpoint("NONE", "127.0.0.1", 1),),
                features=tuple(Feature(name, 1, 1) for name in names),
            )
            await client.call(BROKER_REGISTRATION, request, timeout_s=ANSWER_SECONDS_MAX)
    finally:
        await client.close()


def newest(nodes: Nodes, node_id: int) -> Path:
    return snapshot.listed(nodes.home(node_id) / "snapshots")[0]


def flip(file: Path, seed: int) -> None:
    """One bit of one byte, anywhere in the file."""
    rng = random.Random(seed)
    content = bytearray(file.read_bytes())
    content[rng.randrange(len(content))] ^= 1 << rng.randrange(8)
    file.write_bytes(content)


@pytest.mark.row("card.1", "card.7")
def test_a_follower_that_was_paused_catches_up(nodes: Nodes, since: int) -> None:
    """By what waits in its sockets, by the leader's journal or by a snapshot: as it comes."""
    nodes.await_followed()
    (follower, *_) = nodes.followers()
    with Load(nodes, seed=10) as load:
        load.await_done(20)
        end = log_end(nodes, follower)
        nodes.send(follower, signal.SIGSTOP)
        try:
            leave_behind(nodes, follower, end, load)
        finally:
            nodes.send(follower, signal.SIGCONT)
        load.await_done(20)
    check_run(nodes, load, since)


@pytest.mark.row("730.10", "730.13", "card.1", "card.2", "card.7")
def test_a_dead_follower_refuses_flipped_snapshots_by_name_and_catches_up_by_another(
    nodes: Nodes, since: int
) -> None:
    nodes.await_followed()
    (follower, *_) = nodes.followers()
    with Load(nodes, seed=12) as load:
        own = nodes.home(follower) / "snapshots"
        wait_for("two snapshots of the follower", lambda: len(snapshot.listed(own)) == 2)
        end, mark = log_end(nodes, follower), nodes.log_size(follower)
        nodes.kill(follower)
        kept = snapshot.listed(own)
        names = ["state", "manifest"]
        assert len(kept) == len(names)
        for seed, (directory, name) in enumerate(zip(kept, names, strict=True)):
            flip(directory / name, seed)
        leave_behind(nodes, follower, end, load)
        nodes.start(follower)
        refused = nodes.events(follower, "snapshot_refused", mark)
        assert [event["snapshot"] for event in refused] == [str(directory) for directory in kept]
        for event, name in zip(refused, names, strict=True):
            assert name in event["reason"]
        # Its peers have another one for it.
        installed = nodes.await_event(follower, "snapshot_installed", mark)
        assert installed["raft_index"] > end
    check_run(nodes, load, since)

    # Its own history names what it never saw; together with the others' nothing is missing.
    assert archive_reader.holes(nodes.home(follower))
    assert any(isinstance(item, Hole) for item in producer_id_history([nodes.home(follower)]))
    rows = nodes.read("producer-ids", "history")
    assert not [row for row in rows if row.get("hole")]
    for node_id in nodes.node_ids:
        assert nodes.rss_anon_kib(node_id) < RSS_ANON_KIB_MAX


@pytest.mark.row("card.2", "card.7")
def test_a_flipped_byte_on_the_leader_is_refused_by_name_and_never_sent(nodes: Nodes, since: int) -> None:
    nodes.await_followed()
    (follower, *_) = nodes.followers()
    with Load(nodes, seed=13) as load:
        load.await_done(20)
        end, mark = log_end(nodes, follower), nodes.log_size(follower)
        nodes.kill(follower)
        leave_behind(nodes, follower, end, load)
    marks = marks_without(nodes, follower)
    corrupt = [newest(nodes, node_id) for node_id in marks]  # who leads next is open
    for each in corrupt:
        flip(each / "state", 14)
    nodes.start(follower)
    refused = await_of_any(nodes, marks, "snapshot_refused")
    assert refused["snapshot"] in map(str, corrupt)
    assert "state" in refused["reason"]
    assert "SHA-256" in refused["reason"]
    nodes.await_event(follower, "snapshot_installed", mark)
    assert nodes.events(follower, "snapshot_refused", mark) == []
    check_run(nodes, load, since)


@pytest.mark.row("card.1", "card.7")
def test_a_wiped_voter_is_readmitted_after_a_snapshot(nodes: Nodes, since: int) -> None:
    """The log's beginning is gone for good: who has nothing needs the image first, and counts afterwards."""
    leader = nodes.await_followed()
    (wiped, *_) = nodes.followers()
    with Load(nodes, seed=17) as load:
        load.await_done(20)
        nodes.kill(wiped)
        leave_behind(nodes, wiped, log_end(nodes, leader), load)
        wipe(nodes, wiped)
        mark, marks = nodes.log_size(wiped), marks_without(nodes, wiped)
        nodes.start(wiped)
        nodes.await_event(wiped, "snapshot_installed", mark)
        readmitted = await_of_any(nodes, marks, "voter_readmitted", voter=wiped)
        assert readmitted["directory"] == nodes.directory_id(wiped)
        load.await_done(20)  # what was proposed before these is committed
        leader = nodes.await_followed()
        other = next(node_id for node_id in nodes.node_ids if node_id not in (wiped, leader))
        nodes.kill(other)
        load.await_done(20)
        nodes.start(other)
    check_run(nodes, load, since)


@pytest.mark.row("730.6", "card.2")
def test_a_snapshot_holds_the_latest_block_and_no_other(nodes: Nodes, tmp_path: Path) -> None:
    leader = nodes.await_followed()
    directory = newest(nodes, leader)
    (described,) = nodes.read("snapshot", "describe", str(directory))
    assert described["producer_id_records"] == 1

    # The same by kio, and against the log up to the snapshot's end.
    homes = [nodes.home(node_id) for node_id in nodes.node_ids]
    blocks = archive_reader.allocations(archive_reader.merged(homes))
    before = list(takewhile(lambda block: block.offset < described["end_offset"], blocks))
    checkpoint = directory / f"{directory.name}.checkpoint"
    (held,) = archive_reader.allocations(list(archive_reader.batches_of(checkpoint)))
    assert (held.broker_id, held.broker_epoch, held.end) == before[-1][3:]
    assert described["latest_block"]["end"] == held.end

    # One flipped bit anywhere in any of its files is noticed, and the file named.
    for file in sorted(directory.iterdir()):
        for seed in range(20):
            copy = tmp_path / str(seed) / directory.name
            shutil.copytree(directory, copy)
            flip(copy / file.name, seed)
            with pytest.raises(CorruptSnapshot, match=file.name):
                snapshot.verify(copy)
            shutil.rmtree(copy)
    flip(directory / "manifest", 3)
    stdout_of(in_process("snapshot", "describe", directory), 1)


@pytest.mark.row("730.3", "card.1", "card.7")
def test_kill_9_of_all_three_after_snapshots_and_compaction(nodes: Nodes, since: int) -> None:
    with Load(nodes, seed=15) as load:
        load.await_done(50)
        nodes.kill(*nodes.node_ids)
    nodes.start(*nodes.node_ids)
    with Load(nodes, seed=16) as second:
        second.await_done(20)
    check_run(nodes, load, since, second)
