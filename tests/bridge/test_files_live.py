"""What is read from a stopped server's files is what it answered before, and what it answers next."""

import gzip
import random
from pathlib import Path
from typing import Any

import pytest
from kazoo.exceptions import KazooException
from kazoo.security import make_digest_acl

from fencepost.bridge.data_tree import Znodes, new_tree
from fencepost.bridge.ensemble import read_ensemble
from fencepost.bridge.files import ServerFiles, read_server
from fencepost.bridge.txn_log import TornTail, Txn, read_log
from fencepost.bridge.znodes import BLOCK_PATH, ZnodeBlock, block_after, format_block, parse_block
from fencepost.records.types import BrokerId
from tests.bridge.live import outside, walk
from tests.zookeeper.servers import Ensemble, ensemble, wait_until

pytestmark = pytest.mark.slow

SETS = 400
SNAPSHOT_EVERY = {"zookeeper.snapCount": "60"}
GZIP = {"zookeeper.snapshot.compression.method": "gz"}
EXTENDED = {"zookeeper.extendedTypesEnabled": "true"}


def work(servers: Ensemble, client: Any, rng: random.Random) -> None:
    """Blocks by conditional writes, and everything else that Kafka and its tools do to a tree."""
    client.create(BLOCK_PATH, None)
    client.ensure_path("/brokers/ids")
    client.ensure_path("/brokers/topics")
    block = None
    for number in range(SETS):
        block = block_after(block, broker=BrokerId(rng.randrange(3)))
        client.set(BLOCK_PATH, format_block(block), number)
        if number % 7 == 0:
            parts = client.transaction()
            parts.create(f"/brokers/topics/{number}", b"{}")
            parts.check(BLOCK_PATH, number + 1)
            parts.set_data("/brokers", str(number).encode())
            parts.commit()
        if number % 11 == 0:
            parts = client.transaction()
            parts.create("/nothing", b"")
            parts.delete("/nowhere")
            parts.commit()
        if number % 50 == 0:
            with outside(servers) as other:
                other.create(f"/brokers/ids/{number}", b"", ephemeral=True)
                other.create("/brokers/ids/sequence-", b"", ephemeral=True, sequence=True)
            client.create(f"/brokers/ids/{number + 1}", b"", ephemeral=True)
        if number % 35 == 34:
            client.delete(f"/brokers/topics/{number - 34}")
        if number % 90 == 0:
            client.set_acls("/brokers/topics", [make_digest_acl("u", "p", all=True)], -1)
            client.add_auth("digest", "u:p")


def read_all(servers: Ensemble) -> list[Znodes]:
    trees = [read_server(ServerFiles(server.data)) for server in servers.servers]
    assert [tree.doubts for tree in trees] == [()] * len(trees)
    assert [tree.remarks for tree in trees] == [()] * len(trees)
    return [tree.znodes for tree in trees]


@pytest.mark.parametrize("count", [1, 3], ids=["alone", "three"])
@pytest.mark.parametrize("end", ["stop", "kill"])
def test_the_files_hold_what_was_answered(tmp_path: Path, count: int, end: str) -> None:
    properties = {**SNAPSHOT_EVERY, **EXTENDED, **(GZIP if end == "kill" else {})}
    with ensemble(tmp_path, count, properties=properties) as servers, outside(servers) as client:
        work(servers, client, random.Random(count))
        client.sync("/")
        answered = walk(client)
        zxid = max(server.zxid() for server in servers.servers)
        _await_applied(servers, zxid)
        if end == "stop":
            servers.stop()
        else:
            servers.kill()
        for znodes in read_all(servers):
            assert znodes == answered
        tree = read_ensemble([ServerFiles(server.data) for server in servers.servers])
        assert (tree.reasons, tree.size, tree.chosen.zxid) == ((), count, zxid)
        znode = tree.chosen.znodes[BLOCK_PATH]
        block = parse_block(znode.data, znode.version)
        assert isinstance(block, ZnodeBlock)
        assert (block.last, znode.version) == (SETS * 1000 - 1, SETS)
    snapshots = list((servers.servers[0].data / "version-2").glob("snapshot.*"))
    assert len(snapshots) > 3
    if end == "kill":
        assert all(gzip.decompress(path.read_bytes())[:4] == b"ZKSN" for path in snapshots)


def _await_applied(servers: Ensemble, zxid: int) -> None:
    wait_until("all have applied", lambda: all(server.zxid() >= zxid for server in servers.servers))


def test_every_digest_of_a_long_log_is_ours(tmp_path: Path) -> None:
    with ensemble(tmp_path, 1, properties=SNAPSHOT_EVERY) as servers, outside(servers) as client:
        work(servers, client, random.Random(5))
        servers.kill()
    folder = servers.servers[0].data / "version-2"
    tree = new_tree()
    checked = 0
    for path in sorted(folder.glob("log.*"), key=lambda path: int(path.suffix[1:], 16)):
        for txn in read_log(path):
            assert isinstance(txn, Txn)
            tree.apply(txn.changes, txn.zxid, txn.time_ms)
            assert txn.digest is not None
            assert txn.digest[1] % 2**64 == tree.digest()
            checked += 1
    assert checked > SETS


@pytest.mark.parametrize("seed", range(2), ids="seed-{}".format)
def test_killed_under_load_the_files_say_what_the_server_says_next(tmp_path: Path, seed: int) -> None:
    """The server recovers from the very files that we read: torn tails, half-written snapshots and all."""
    rng = random.Random(seed)
    with ensemble(tmp_path, 1, properties=SNAPSHOT_EVERY) as servers:
        server = servers.servers[0]
        for _ in range(3):
            acknowledged = -1
            with outside(servers) as client:
                client.ensure_path(BLOCK_PATH)
                version = client.get(BLOCK_PATH)[1].version
                writes = [
                    client.set_async(BLOCK_PATH, str(version + n).encode(), version + n) for n in range(500)
                ]
                for write in writes[: rng.randrange(50, 400)]:
                    acknowledged = write.get(timeout=30).version
                server.kill()
                for write in writes:
                    try:
                        acknowledged = max(acknowledged, write.get(timeout=30).version)
                    except KazooException:
                        break
                tree = read_server(ServerFiles(server.data))
                assert tree.doubts == ()
                assert tree.znodes[BLOCK_PATH].version >= acknowledged
                servers.start()
            with outside(servers) as client:
                assert walk(client) == tree.znodes


def test_a_log_torn_by_hand_is_what_the_server_makes_of_it(tmp_path: Path) -> None:
    with ensemble(tmp_path, 1) as servers:
        server = servers.servers[0]
        with outside(servers) as client:
            client.create(BLOCK_PATH, b"")
            for number in range(20):
                client.set(BLOCK_PATH, str(number).encode(), number)
        rng = random.Random(3)
        for _ in range(4):
            server.kill()
            log = max((server.data / "version-2").glob("log.*"), key=lambda path: int(path.suffix[1:], 16))
            content = log.read_bytes().rstrip(b"\0")
            log.write_bytes(content[: -rng.randrange(1, 60)] + bytes(rng.randrange(3) * 50))
            tree = read_server(ServerFiles(server.data))
            torn = [each for each in read_log(log) if isinstance(each, TornTail)]
            assert len(torn) == 1
            assert f"{log}, position {torn[0].position}" in tree.remarks[-1]
            servers.start()
            with outside(servers) as client:
                assert walk(client) == tree.znodes
                client.set(BLOCK_PATH, b"after", tree.znodes[BLOCK_PATH].version)
