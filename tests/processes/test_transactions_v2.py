"""Transactions V2 on three nodes, by requests of our own: implicit adds, a pair per transaction, kills."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any, Final

import pytest

from fencepost.client.read_back import READ_COMMITTED, read_topic
from fencepost.controller.errors import ApiError, ErrorCode
from fencepost.controller.transactions.end_txn import EndTxn
from fencepost.records.types import ProducerId
from fencepost.wire.connection import SOFTWARE, Connection, ConnectionLost, NotConnected, RequestTimeout
from fencepost.wire.k00_produce import PRODUCE, PartitionData, Produce
from fencepost.wire.k10_find_coordinator import FIND_COORDINATOR, TRANSACTION, FindCoordinator
from fencepost.wire.k18_api_versions import API_VERSIONS, FinalizedFeature
from fencepost.wire.k22_init_producer_id import INIT_PRODUCER_ID, InitProducerId
from fencepost.wire.k26_end_txn import END_TXN
from tests.broker.batches import batch
from tests.harness.nodes import NO_QUOTA, Nodes, running, wait_for

pytestmark = pytest.mark.slow

TOPIC: Final = "t"
PARTITIONS: Final = 3
PRODUCERS: Final = 4
KILLS: Final = 3
TRANSACTIONS_MIN: Final = 12  # of each producer, at least; and some between two kills
SECONDS_MAX: Final = 120.0
TIMEOUT_MS: Final = 60_000
AGAIN: Final = (ConnectionLost, RequestTimeout, OSError)
RETRIED: Final = frozenset({3, 5, 6, 7, 13, 14, 15, 16, 19, 51, 56})


class V2Producer:
    """One transactional id, its pair, and what it was answered. Retries as Kafka's Java client does."""

    def __init__(self, nodes: Nodes, transactional_id: str) -> None:
        self._addresses = [nodes.address(node_id, "client") for node_id in nodes.node_ids]
        self._name = transactional_id
        self.pair = (ProducerId(-1), -1)
        self.pairs: list[tuple[int, int]] = []
        self.committed: list[bytes] = []

    async def begin(self) -> None:
        """InitProducerId."""
        answer = await self._ask_coordinator(INIT_PRODUCER_ID, InitProducerId(self._name, TIMEOUT_MS))
        self._take(answer)

    async def transaction(self, number: int, *, committed: bool) -> None:
        """Write one record to each partition, then end."""
        value = f"{self._name}/{number}".encode()
        for partition in range(PARTITIONS):
            await self._write(partition, value)
        request = EndTxn(self._name, *self.pair, committed, bumps_epoch=True)
        self._take(await self._ask_coordinator(END_TXN, request))
        if committed:
            self.committed += [value] * PARTITIONS

    def _take(self, answer: Any) -> None:
        self.pair = (answer.producer_id, answer.producer_epoch)
        assert self.pair not in self.pairs, "a pair that the producer had before"
        self.pairs.append(self.pair)

    async def _write(self, partition: int, value: bytes) -> None:
        producer_id, epoch = self.pair
        records = batch(
            value, producer_id=producer_id, producer_epoch=epoch, base_sequence=0, transactional=True
        )
        request = Produce(
            self._name, -1, 30_000, (PartitionData(TOPIC, partition, records),), adds_partitions=True
        )

        async def once() -> bool:
            for address in self._addresses:
                async with connected(address) as connection:
                    (row,) = (await connection.call(PRODUCE, request)).partitions
                if row.error_code != ErrorCode.NOT_LEADER_OR_FOLLOWER:
                    assert row.error_code == 0 or row.error_code in RETRIED, row
                    return bool(row.error_code == 0)
            return False

        await until(f"{value!r} is written", once)

    async def _ask_coordinator(self, api: Any, request: Any) -> Any:
        found: list[Any] = []

        async def once() -> bool:
            for address in self._addresses:
                async with connected(address) as connection:
                    (coordinator,) = (
                        await connection.call(FIND_COORDINATOR, FindCoordinator(TRANSACTION, (self._name,)))
                    ).coordinators
                if coordinator.port > 0:
                    async with connected((coordinator.host, coordinator.port)) as connection:
                        found.append(await connection.call(api, request))
                    return True
            return False

        await until(f"{api.name} of {self._name}", once)
        return found[-1]


async def until(what: str, once: Callable[[], Awaitable[bool]]) -> None:
    deadline = time.monotonic() + SECONDS_MAX
    while True:
        try:
            if await once():
                return
        except AGAIN:
            pass
        except ApiError as error:
            if error.code not in RETRIED:
                raise
        assert time.monotonic() < deadline, f"not in {SECONDS_MAX:.0f} s: {what}"
        await asyncio.sleep(0.02)


@asynccontextmanager
async def connected(address: tuple[str, int]) -> Any:
    connection = await Connection.open(*address)
    try:
        yield connection
    finally:
        connection.close()


def finalized(nodes: Nodes) -> tuple[FinalizedFeature, ...]:
    """What a node tells clients."""

    async def ask() -> tuple[FinalizedFeature, ...]:
        async with connected(nodes.address(nodes.node_ids[0], "client")) as connection:
            answer = await connection.call(API_VERSIONS, SOFTWARE)
            return tuple(answer.features.finalized)

    return asyncio.run(ask())


def says(nodes: Nodes, level: int) -> bool:
    """Whether a node tells clients that level; not before its listener for them is open."""
    try:
        found = finalized(nodes)
    except NotConnected:
        return False
    return {each.name: each.level for each in found}.get("transaction.version", 0) == level


@pytest.mark.row("939.10")
def test_each_transaction_has_a_pair_of_its_own_while_leaders_are_killed(tmp_path: Path) -> None:
    with running(tmp_path / "cluster", NO_QUOTA) as nodes:
        nodes.run("topics", "create", "--topic", TOPIC, "--partitions", PARTITIONS)
        producers = [V2Producer(nodes, f"v2-{number}") for number in range(PRODUCERS)]
        asyncio.run(produced_while_killed(nodes, producers))
        read = read_topic(nodes.bootstrap, TOPIC, READ_COMMITTED, timeout_s=SECONDS_MAX)
        expected = sorted(value for each in producers for value in each.committed)
        assert sorted(each.value for each in read) == expected
        for each in producers:
            assert [epoch for _, epoch in each.pairs] == list(range(len(each.pairs)))
        assert nodes.complaints() == []


async def produced_while_killed(nodes: Nodes, producers: list[V2Producer]) -> None:
    kills = 0
    enough = asyncio.Event()

    async def produce(each: V2Producer) -> None:
        await each.begin()
        number = 0
        while not enough.is_set() or number < TRANSACTIONS_MIN:
            await each.transaction(number, committed=number % 3 != 2)
            number += 1

    async def kill() -> None:
        nonlocal kills
        while kills < KILLS:
            before = sum(len(each.pairs) for each in producers)
            await until("transactions between kills", partial(more_than, producers, before + PRODUCERS))
            await asyncio.to_thread(restart_leader, nodes)
            kills += 1
        enough.set()

    await asyncio.gather(kill(), *(produce(each) for each in producers))


async def more_than(producers: list[V2Producer], count: int) -> bool:
    return sum(len(each.pairs) for each in producers) > count


def restart_leader(nodes: Nodes) -> None:
    leader = nodes.leader()
    nodes.kill(leader)
    nodes.start(leader)
    nodes.await_followed()


def test_the_feature_is_lowered_and_raised_and_clients_learn_of_it(tmp_path: Path) -> None:
    with running(tmp_path / "cluster", NO_QUOTA) as nodes:
        wait_for("a new cluster is at 2", lambda: says(nodes, 2))
        nodes.read("features", "downgrade", "--feature", "transaction.version=0", "--dry-run")
        assert says(nodes, 2)
        nodes.read("features", "downgrade", "--feature", "transaction.version=0")
        wait_for("clients learn that it is at 0", lambda: says(nodes, 0))
        nodes.run("features", "upgrade", "--feature", "transaction.version=3", status=1)
        nodes.read("features", "upgrade", "--feature", "transaction.version=2")
        wait_for("clients learn that it is at 2", lambda: says(nodes, 2))
        nodes.kill(nodes.leader())
        described = nodes.read("features", "describe")
        levels = {each["feature"]: each["finalized_version_level"] for each in described["features"]}
        assert levels == {"metadata.version": 25, "transaction.version": 2}
