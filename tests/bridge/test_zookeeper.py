"""A real ZooKeeper through ``fencepost.bridge.zookeeper``: its log holds what is said to be written, no more.

Each test starts servers of its own. Waiting is on events and answers, bounded by the operations' own time.
"""

import asyncio
import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from kazoo.security import make_digest_acl

from fencepost.bridge.access import (
    Conflict,
    Outcome,
    Unknown,
    Written,
    ZooKeeperRefused,
    ZooKeeperUnavailable,
)
from fencepost.bridge.data_tree import SetData, Znode
from fencepost.bridge.files import ServerFiles, read_server
from fencepost.bridge.txn_log import Txn, read_log
from fencepost.bridge.zookeeper import ZooKeeper
from fencepost.records.invariant import InvariantViolation
from tests.bridge.live import connected, outside, walk
from tests.zookeeper.servers import Ensemble, Server, ensemble

pytestmark = pytest.mark.slow

PATH = "/latest_producer_id_block"


@pytest.fixture
def alone(tmp_path: Path) -> Iterator[Ensemble]:
    with ensemble(tmp_path, 1) as servers:
        yield servers


@pytest.fixture
def three(tmp_path: Path) -> Iterator[Ensemble]:
    with ensemble(tmp_path, 3) as servers:
        yield servers


def test_what_is_asked_is_answered(alone: Ensemble) -> None:
    async def story() -> None:
        async with connected(alone.connect_string) as zookeeper:
            assert await zookeeper.get(PATH) is None
            assert await zookeeper.children("/nowhere") is None
            assert isinstance(await zookeeper.conditional_set(PATH, b"x", 0), Conflict)
            assert isinstance(await zookeeper.create("/a/b", b""), Conflict)
            assert await zookeeper.create(PATH, None) == Written(0, None)
            assert isinstance(await zookeeper.create(PATH, b"other"), Conflict)
            made = await zookeeper.get(PATH)
            assert made is not None
            assert made == Znode(None, 0, made.created_zxid, made.created_zxid)
            wrote = await zookeeper.conditional_set(PATH, b"x", 0)
            assert isinstance(wrote, Written)
            assert await zookeeper.get(PATH) == Znode(b"x", 1, wrote.zxid or 0, made.created_zxid)
            assert isinstance(await zookeeper.conditional_set(PATH, b"y", 0), Conflict)
            assert isinstance(await zookeeper.conditional_set(PATH, b"y", 2), Conflict)
            assert await zookeeper.children("/") == ("latest_producer_id_block", "zookeeper")
            with pytest.raises(InvariantViolation):
                await zookeeper.conditional_set(PATH, b"y", -1)
            assert (await zookeeper.get(PATH) or made).data == b"x"

    asyncio.run(story())


def test_a_chroot_keeps_clusters_apart(alone: Ensemble) -> None:
    with outside(alone) as client:
        client.ensure_path("/one")
        client.create("/two/cluster/id", b'{"version":"1","id":"second"}', makepath=True)

    async def story() -> None:
        async with (
            connected(f"{alone.connect_string}/one") as one,
            connected(f"{alone.connect_string}/two") as two,
        ):
            await one.create(PATH, b"1")
            await two.create(PATH, b"2")
            assert ((await one.get(PATH)) or Znode(None, 0, 0, 0)).data == b"1"
            assert await one.children("/") == ("latest_producer_id_block",)
            assert (await one.identity()).cluster_id is None
            identity = await two.identity()
            assert (identity.cluster_id, identity.chroot) == ("second", "/two")
            assert identity.created_zxid
            tree, forbidden = await two.read_tree()
            assert sorted(tree) == ["/", "/cluster", "/cluster/id", PATH]
            assert forbidden == ()

    asyncio.run(story())


def test_the_whole_tree_is_read_and_what_is_forbidden_is_named(alone: Ensemble) -> None:
    with outside(alone) as client:
        for number in range(300):
            client.create(f"/brokers/topics/topic-{number}/partitions", b"x", makepath=True)
        expected = walk(client)
        client.create("/secret", b"", acl=[make_digest_acl("fence", "post", all=True)])

        async def story() -> None:
            async with connected(alone.connect_string) as zookeeper:
                tree, forbidden = await zookeeper.read_tree()
                assert tree == expected | {"/": tree["/"]}
                assert forbidden == ("/secret",)

        asyncio.run(story())


def test_an_access_list_is_obeyed(alone: Ensemble) -> None:
    with outside(alone) as client:
        client.create(PATH, b"", acl=[make_digest_acl("fence", "post", all=True)])

    async def story() -> None:
        async with connected(alone.connect_string) as anyone:
            with pytest.raises(ZooKeeperRefused, match="NoAuth"):
                await anyone.get(PATH)
            with pytest.raises(ZooKeeperRefused, match="NoAuth"):
                await anyone.conditional_set(PATH, b"x", 0)
        async with connected(alone.connect_string, digest=("fence", "post")) as fence:
            assert isinstance(await fence.conditional_set(PATH, b"x", 0), Written)

    asyncio.run(story())


def test_changes_are_seen_also_through_a_restart(alone: Ensemble) -> None:
    async def story() -> None:
        async with connected(alone.connect_string) as zookeeper:
            changes = zookeeper.changes(PATH)
            assert await anext(changes) is None
            with outside(alone) as client:
                await asyncio.to_thread(client.create, PATH, b"0")
                assert await _data(changes) == b"0"
                await asyncio.to_thread(client.set, PATH, b"1")
                assert await _data(changes) == b"1"
                waiting = asyncio.ensure_future(_data(changes))
                await asyncio.to_thread(_restart, alone.servers[0])
                await asyncio.to_thread(client.retry, client.set, PATH, b"2")
                assert await waiting == b"2"
                await asyncio.to_thread(client.delete, PATH)
                assert await anext(changes) is None
            await changes.aclose()  # type: ignore[attr-defined]

    asyncio.run(story())


async def _data(changes: Any) -> bytes | None:
    async with asyncio.timeout(30):
        znode = await anext(changes)
    assert znode is not None
    return znode.data  # type: ignore[no-any-return]


def _restart(server: Server) -> None:
    server.kill()
    server.start()
    server.await_serving()


def test_without_servers_nothing_is_asked(alone: Ensemble) -> None:
    alone.kill()

    async def story() -> None:
        async with connected(alone.connect_string, operation_timeout_s=0.5) as zookeeper:
            with pytest.raises(ZooKeeperUnavailable, match=r"no connection in 0\.5 s"):
                await zookeeper.conditional_set(PATH, b"x", 0)
            with pytest.raises(ZooKeeperUnavailable, match="no connection"):
                await zookeeper.get(PATH)
            assert not zookeeper.is_connected

    asyncio.run(story())


def test_a_paused_server_leaves_the_outcome_unknown_and_the_loop_free(alone: Ensemble) -> None:
    """The write may be done after all, later; the client is replaced, for kazoo does not notice by itself."""

    async def story() -> None:
        async with connected(
            alone.connect_string, operation_timeout_s=1.0, session_timeout_s=4.0
        ) as zookeeper:
            await zookeeper.create(PATH, b"")
            server = alone.servers[0]
            server.pause()
            turns = 0

            async def turn() -> None:
                nonlocal turns
                while True:
                    turns += 1
                    await asyncio.sleep(0.01)

            turning = asyncio.ensure_future(turn())
            try:
                assert isinstance(await zookeeper.conditional_set(PATH, b"x", 0), Unknown)
                assert turns > 10
                with pytest.raises(ZooKeeperUnavailable):
                    await zookeeper.get(PATH)
            finally:
                server.resume()
                turning.cancel()
            found = await _insist_on_get(zookeeper)
            assert (found.version, found.data) in {(0, b""), (1, b"x")}
            done = await zookeeper.conditional_set(PATH, b"y", found.version)
            assert isinstance(done, Written | Conflict)  # Conflict: the late write came between

    asyncio.run(story())


async def _insist_on_get(zookeeper: ZooKeeper) -> Znode:
    async with asyncio.timeout(60):
        while True:
            try:
                found = await zookeeper.get(PATH)
            except ZooKeeperUnavailable:
                continue
            assert found is not None
            return found


def test_a_session_that_expired_is_followed_by_another(alone: Ensemble) -> None:
    async def story() -> None:
        async with connected(
            alone.connect_string, operation_timeout_s=0.5, session_timeout_s=1.0
        ) as zookeeper:
            await zookeeper.create(PATH, b"")
            alone.servers[0].pause()
            for _ in range(4):
                with pytest.raises(ZooKeeperUnavailable):
                    await zookeeper.get(PATH)
            alone.servers[0].resume()
            assert (await _insist_on_get(zookeeper)).version == 0

    asyncio.run(story())


def test_written_is_in_the_log_and_conflict_never_through_the_death_of_leaders(three: Ensemble) -> None:
    """Every attempt has content of its own, so the servers' own logs tell what became of it."""
    attempts: dict[bytes, Outcome] = {}

    async def writer(number: int, zookeeper: ZooKeeper, until: asyncio.Event) -> None:
        while not until.is_set():
            try:
                found = await zookeeper.get(PATH)
                assert found is not None
                content = f"{number}-{len(attempts)}".encode()
                attempts[content] = Unknown("not answered yet")
                attempts[content] = await zookeeper.conditional_set(PATH, content, found.version)
            except ZooKeeperUnavailable:
                attempts.pop(content, None)

    def count(kind: type[Outcome]) -> int:
        return sum(isinstance(outcome, kind) for outcome in attempts.values())

    async def story() -> None:
        options = {"operation_timeout_s": 2.0, "session_timeout_s": 4.0}
        async with (
            connected(three.connect_string, **options) as one,
            connected(three.connect_string, **options) as two,
        ):
            await one.create(PATH, b"")
            until = asyncio.Event()
            writers = [
                asyncio.ensure_future(writer(number, zookeeper, until))
                for number, zookeeper in enumerate((one, two, one, two))
            ]
            rng = random.Random(1)
            for _ in range(3):
                await _until(lambda: count(Written), at_least=count(Written) + 100)
                leader = await asyncio.to_thread(three.leader)
                leader.kill()
                await _until(lambda: count(Written), at_least=count(Written) + 20)
                await asyncio.to_thread(three.start)
                if rng.random() < 0.5:
                    follower = (await asyncio.to_thread(three.followers))[0]
                    await asyncio.to_thread(_restart, follower)
            until.set()
            await asyncio.gather(*writers)

    asyncio.run(story())
    three.stop()
    logged = _sets(three)
    assert count(Written) > 300
    assert count(Conflict) > 0
    for content, outcome in attempts.items():
        match outcome:
            case Written(version, zxid):
                assert logged[content] == (version, zxid)
            case Conflict():
                assert content not in logged
    versions = [version for version, _ in logged.values()]
    assert sorted(versions) == list(range(1, len(versions) + 1))


async def _until(count: Callable[[], int], *, at_least: int) -> None:
    async with asyncio.timeout(120):
        while count() < at_least:
            await asyncio.sleep(0.01)


def _sets(servers: Ensemble) -> dict[bytes, tuple[int, int]]:
    """What was written to the znode, by content: version and zxid, from the logs of all servers."""
    found: dict[bytes, tuple[int, int]] = {}
    last = max(read_server(ServerFiles(server.data)).zxid for server in servers.servers)
    for server in servers.servers:
        for path in (server.data / "version-2").glob("log.*"):
            for txn in read_log(path):
                if isinstance(txn, Txn) and txn.zxid <= last:
                    for change in txn.changes:
                        if isinstance(change, SetData) and change.path == PATH and change.data is not None:
                            found[change.data] = (change.version, txn.zxid)
    return found
