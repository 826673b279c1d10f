"""Bytes of a node's store that changed, stopped or running: no answer comes from them, no id twice."""

import itertools
import signal
from pathlib import Path

import lmdb
import msgspec
import pytest

from fencepost.controller.cluster_version import CLUSTER_VERSION
from fencepost.controller.producer_ids import PRODUCER_IDS
from fencepost.snapshots.reader import MAP_BYTES, read_store
from fencepost.snapshots.rows import row_key
from fencepost.snapshots.store import Store
from fencepost.snapshots.sums import Verdict
from tests.harness.nodes import Nodes, wait_for
from tests.processes.checks import check_run
from tests.processes.load import Load

pytestmark = pytest.mark.slow

BEHIND = 2_048  # ids that were given out already


def saved(store: Path) -> bool:
    """An image is saved now and then: until it is, all that was allocated is in the journal."""
    with read_store(store) as reader:
        return reader.get(PRODUCER_IDS, 0) is not None


def set_back(store: Path) -> None:
    """The row of producer ids says less than what was given out."""
    with read_store(store) as reader:
        row = reader.get(PRODUCER_IDS, 0)
        generation = msgspec.msgpack.decode(reader.meta_get("generation") or b"\0", type=int)
    assert row is not None
    lower = msgspec.structs.replace(row, first=row.first - BEHIND, end=row.end - BEHIND)
    change(
        store, b"image", row_key(generation, PRODUCER_IDS.name, bytes(8)), PRODUCER_IDS.encode_value(lower)
    )


def change(store: Path, table: bytes, key: bytes, value: bytes) -> None:
    env = lmdb.open(str(store), max_dbs=8, map_size=MAP_BYTES)
    with env.begin(write=True) as txn:
        assert txn.replace(key, value, db=env.open_db(table, txn=txn)) not in (None, value)
    env.close()


def make_differ(store: Path, version: int) -> None:
    """The image is another one than the others', with checksums that fit, as after a fault in memory."""
    opened = Store.open(store)
    try:
        assert opened.verify_image() is Verdict.SOUND
        opened.image.put(CLUSTER_VERSION, 0, version)
        opened.flush()
    finally:
        opened.close()


def flip_entry(store: Path) -> None:
    """The last entry of the journal is another one."""
    env = lmdb.open(str(store), max_dbs=8, map_size=MAP_BYTES)
    with env.begin() as txn:
        cursor = txn.cursor(db=env.open_db(b"journal", txn=txn))
        assert cursor.last()
        key, value = bytes(cursor.key()), bytes(cursor.value())
    env.close()
    change(store, b"journal", key, value[:-1] + bytes((value[-1] ^ 1,)))


def test_a_row_that_was_set_back_gives_no_id_twice(nodes: Nodes, since: int) -> None:
    with Load(nodes, seed=31) as load:
        load.await_done(20)
        wait_for("the image of node 1 is saved with a block", lambda: saved(nodes.home(1) / "store"))
        nodes.kill(*nodes.node_ids)
        set_back(nodes.home(1) / "store")
        mark = nodes.log_size(1)
        nodes.start(*nodes.node_ids)
        assert nodes.events(1, "image_damaged", mark)
        load.await_done(20)
        for other in (2, 3):  # so node 1 leads, or lets the other lead, with the image that it made again
            nodes.kill(other)
            load.await_done(20)
            nodes.start(other)
    check_run(nodes, load, since)


def test_a_node_with_a_changed_journal_joins_as_a_new_voter(nodes: Nodes, since: int) -> None:
    with Load(nodes, seed=32) as load:
        load.await_done(20)
        damaged = nodes.followers()[0]
        before = nodes.voter_id(damaged)
        nodes.kill(damaged)
        flip_entry(nodes.home(damaged) / "store")
        marks = {node_id: nodes.log_size(node_id) for node_id in nodes.node_ids}
        nodes.start(damaged)
        (event,) = nodes.events(damaged, "store_damaged", marks[damaged])
        assert "checksum" in event["reason"]
        assert Path(event["kept"]).is_dir()
        assert nodes.voter_id(damaged) != before
        wait_for(
            f"node {damaged} is readmitted",
            lambda: any(nodes.events(each, "voter_readmitted", mark) for each, mark in marks.items()),
        )
        load.await_done(20)
    check_run(nodes, load, since)


def test_a_row_that_changes_in_a_running_leader_gives_no_id_twice(nodes: Nodes, since: int) -> None:
    """The scrub finds it: the leader steps down, and comes back with the image of the next one."""
    with Load(nodes, seed=33) as load:
        load.await_done(20)
        leader = nodes.leader()
        store = nodes.home(leader) / "store"
        wait_for("the leader's image is saved with a block", lambda: saved(store))
        mark = nodes.log_size(leader)
        set_back(store)
        assert "checksum" in nodes.await_event(leader, "image_bad", mark)["reason"]
        load.await_done(20)
        nodes.await_event(leader, "image_restored", mark)
        load.await_done(20)
    check_run(nodes, load, since)


def test_an_operator_says_whose_image_a_node_takes(nodes: Nodes) -> None:
    leader = nodes.await_followed()
    node = nodes.followers()[0]
    nodes.kill(node)
    words = ("storage", "repair", "--node", node, "--trust", leader)
    assert nodes.read(*words) == {"node_id": node, "trusts": leader}
    mark = nodes.log_size(node)
    nodes.start(node)
    assert nodes.events(node, "image_bad", mark)[0]["trusted"] == leader
    nodes.await_event(node, "image_restored", mark)
    nodes.await_equal_images()


def test_a_node_with_a_bad_image_acknowledges_while_another_is_down(nodes: Nodes, since: int) -> None:
    """It is to take the image of the one that is down; until that one leads its acknowledgements count."""
    with Load(nodes, seed=34) as load:
        load.await_done(20)
        leader = nodes.await_followed()
        bad, down = nodes.followers()
        nodes.kill(bad, down)
        nodes.read("storage", "repair", "--node", bad, "--trust", down)
        mark = nodes.log_size(bad)
        nodes.start(bad)
        nodes.await_event(bad, "image_bad", mark)
        load.await_done(20)
        assert not nodes.events(bad, "image_restored", mark)
        nodes.start(down)
        load.await_done(20)
        nodes.send(leader, signal.SIGTERM)  # or it takes along what only the bad one has, too
        nodes.await_status(leader, "dead")
        nodes.await_event(bad, "image_restored", mark)
        load.await_done(20)
        nodes.start(leader)
    check_run(nodes, load, since)


def test_two_bad_images_at_once_are_named_until_an_operator_says_who_is_right(
    nodes: Nodes, since: int
) -> None:
    with Load(nodes, seed=35) as load:
        load.await_done(20)
        nodes.kill(*nodes.node_ids)
        for node_id in (1, 2):
            make_differ(nodes.home(node_id) / "store", 1_000_000 * node_id)
        marks = {int(node_id): nodes.log_size(node_id) for node_id in nodes.node_ids}
        nodes.start(*nodes.node_ids)
        topics = itertools.count()

        def all_differ() -> bool:
            """The row that differs is written again. A node's first digest is not of all that changed."""
            nodes.run("topics", "create", "--topic", f"differs-{next(topics)}")
            found = [nodes.events(node_id, "images_differ", mark) for node_id, mark in marks.items()]
            assert all("storage repair --trust NODE" in event["next"] for events in found for event in events)
            return all(any(len(set(event["digests"].values())) == 3 for event in events) for events in found)

        wait_for("each node says that the three images differ", all_differ)
        nodes.kill(1, 2)
        for node_id in (1, 2):
            nodes.read("storage", "repair", "--node", node_id, "--trust", 3)
            marks[node_id] = nodes.log_size(node_id)
        nodes.start(1, 2)
        for node_id in (1, 2):
            nodes.await_event(node_id, "image_restored", marks[node_id])
        load.await_done(20)
    nodes.up()
    for topic in range(next(topics)):
        nodes.run("topics", "delete", "--topic", f"differs-{topic}")
    check_run(nodes, load, since)
