"""An upgrade's world: a real ZooKeeper, old brokers that write it themselves, our nodes, brokers that ask us.

Given       every block that anyone was ever told is his, from three places that do not know of each other:
            the old brokers' own histories, what the asking clients were answered, and, for the nodes' own
            brokers, the committed log.
Wasted      blocks are no fault: taken, and told to nobody.
"""

import asyncio
import contextlib
import json
import random
import threading
import time
import uuid
from collections.abc import Iterator, Sequence
from pathlib import Path
from subprocess import Popen
from typing import Any

from kazoo.client import KazooClient

from fencepost.cluster.local_cluster import LocalCluster
from fencepost.cluster.target import controllers_of
from fencepost.controller.brokers import Endpoint, RegisterBroker
from fencepost.controller.errors import ApiError
from fencepost.controller.producer_ids import AllocateProducerIds
from fencepost.records.types import BrokerEpoch, BrokerId
from fencepost.snapshots.history import Allocation, producer_id_history
from fencepost.wire.client import ConnectionLost, ControllerClient, RequestTimeout
from fencepost.wire.k62_broker_registration import BROKER_REGISTRATION
from fencepost.wire.k67_allocate_producer_ids import ALLOCATE_PRODUCER_IDS
from tests.harness.nodes import NO_QUOTA, Nodes, running
from tests.zookeeper.rival import PATH, Block, blocks_of, overlaps, start_rival
from tests.zookeeper.servers import Ensemble

CLUSTER_ID = "WtaFx7jaQ0mQnKYQyVQ4sQ"
OLD_BROKER_FIRST = 101
ASKER_FIRST = 501
ASK_SECONDS = 5.0
END_SECONDS = 180.0  # generous: the machine may be busy


@contextlib.contextmanager
def outside(servers: Ensemble) -> Iterator[Any]:
    """kazoo itself, blocking."""
    client = KazooClient(servers.connect_string, timeout=4.0)
    client.start(timeout=END_SECONDS)
    try:
        yield client
    finally:
        client.stop()
        client.close()


FIRST_BLOCK = b'{"version":1,"broker":0,"block_start":"0","block_end":"999"}'


def make_kafkas_znodes(servers: Ensemble, chroot: str = "", block: bytes | None = FIRST_BLOCK) -> None:
    """What a Kafka cluster makes when it is born, and the block that its first producer's broker took."""
    with outside(servers) as client:
        for path in ("/brokers/ids", "/brokers/topics", "/cluster"):
            client.ensure_path(chroot + path)
        client.create(f"{chroot}/cluster/id", f'{{"version":"1","id":"{CLUSTER_ID}"}}'.encode())
        client.create(f"{chroot}/controller_epoch", b"1")
        client.create(chroot + PATH, block)


@contextlib.contextmanager
def upgrading(directory: Path, connect: str, *overrides: str, count: int = 3) -> Iterator[Nodes]:
    """Our nodes, new, up, configured for the upgrade; at the end their logs are clean and they are down."""
    enabled = ("zookeeper.metadata.migration.enable=true", f"zookeeper.connect={connect}")
    with running(directory, NO_QUOTA, *enabled, *overrides, count=count) as nodes:
        yield nodes


class OldBrokers:
    """Kafka's own loop as processes, each with a history of its own."""

    def __init__(self, connect: str, folder: Path, count: int, *arguments: str) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        numbers = range(OLD_BROKER_FIRST, OLD_BROKER_FIRST + count)
        self._connect = connect
        self._arguments = arguments
        self.histories = {number: folder / f"old-broker-{number}" for number in numbers}
        self.processes: dict[int, Popen[bytes]] = {}

    def __enter__(self) -> "OldBrokers":
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        for process in self.processes.values():
            process.kill()
            process.wait(timeout=END_SECONDS)

    def start(self) -> None:
        """Start those that do not run, also those that were exhausted. Each of another Kafka."""
        for number, history in self.histories.items():
            running = self.processes.get(number)
            if running is None or running.poll() is not None:
                kafka = ("--kafka", str(2 + number % 2))
                self.processes[number] = start_rival(self._connect, number, history, *kafka, *self._arguments)

    def stop(self) -> None:
        """SIGTERM; returns when they are gone."""
        for process in self.processes.values():
            process.terminate()
        self.await_ended()

    def await_ended(self) -> dict[int, int]:
        """Exit status by broker."""
        return {number: each.wait(timeout=END_SECONDS) for number, each in self.processes.items()}

    def blocks(self) -> list[Block]:
        return blocks_of(self.histories.values())


class Askers:
    """Brokers that ask the active controller for blocks, at full speed; each keeps what it was answered."""

    def __init__(self, cluster: LocalCluster, count: int, pause_s: float = 0.0) -> None:
        self._target = controllers_of(cluster)
        self._cluster_id = cluster.cluster_id
        self._pause_s = pause_s
        self._ids = range(ASKER_FIRST, ASKER_FIRST + count)
        self._ended = threading.Event()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._ask_all()), name="askers")
        self._failure: BaseException | None = None
        self.blocks: list[Block] = []
        self.refusals: dict[str, int] = {}

    def __enter__(self) -> "Askers":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def stop(self) -> None:
        """Returns when nobody asks any more."""
        self._ended.set()
        self._thread.join(timeout=END_SECONDS)
        assert not self._thread.is_alive(), "the askers do not end"
        if self._failure is not None:
            raise self._failure

    async def _ask_all(self) -> None:
        try:
            await asyncio.gather(*map(self._ask, self._ids))
        except BaseException as failure:  # noqa: BLE001 - the test that owns us fails of it
            self._failure = failure

    async def _ask(self, broker_id: int) -> None:
        rng = random.Random(broker_id)
        client = ControllerClient(
            self._target.addresses, rng=rng, client_id=f"asker-{broker_id}", attempt_timeout_s=ASK_SECONDS
        )
        epoch: BrokerEpoch | None = None
        try:
            while not self._ended.is_set():
                try:
                    if epoch is None:
                        epoch = await self._register(client, broker_id)
                    request = AllocateProducerIds(BrokerId(broker_id), epoch)
                    block = await client.call(ALLOCATE_PRODUCER_IDS, request, timeout_s=ASK_SECONDS)
                except ApiError as error:
                    self.refusals[str(error)] = self.refusals.get(str(error), 0) + 1
                    await asyncio.sleep(0.02)
                except (ConnectionLost, RequestTimeout):
                    await asyncio.sleep(0.02)
                else:
                    last = block.first + block.length - 1
                    self.blocks.append(Block(broker_id, block.first, last, time.monotonic_ns()))
                    await asyncio.sleep(self._pause_s)
        finally:
            await client.close()

    async def _register(self, client: ControllerClient, broker_id: int) -> BrokerEpoch:
        request = RegisterBroker(
            broker_id=BrokerId(broker_id),
            cluster_id=self._cluster_id,
            incarnation_id=uuid.UUID(int=broker_id),
            directory_id=uuid.UUID(int=broker_id),
            endpoints=(Endpoint("NONE", "127.0.0.1", 1),),
        )
        return await client.call(BROKER_REGISTRATION, request, timeout_s=ASK_SECONDS)


def blocks_in_log(nodes: Nodes) -> list[Block]:
    """What the log gave to brokers, oldest first: also what a leader that died did not answer with."""
    found = []
    for item in producer_id_history([nodes.home(node_id) for node_id in nodes.node_ids]):
        if isinstance(item, Allocation) and item.broker_id >= 0:
            assert item.first is not None, f"a block without a start: {item}"
            found.append(Block(item.broker_id, item.first, item.end - 1, 0))
    return found


def nodes_own_blocks(nodes: Nodes) -> list[Block]:
    """What the log gave to the nodes' own brokers."""
    return [each for each in blocks_in_log(nodes) if each.broker in nodes.node_ids]


def require_no_overlap(*given: Sequence[Block]) -> int:
    """How many blocks there are in all. Fails with the pairs that share an id."""
    blocks = [block for some in given for block in some]
    found = overlaps(blocks)
    assert not found, f"{len(found)} overlaps, the first: {found[:5]}"
    return len(blocks)


def first_of_new_era(block_end: int, logged: Sequence[Block], asked: Sequence[Block]) -> int:
    """The first id above the fence that the log gave. Fails if a broker has a block that the log has not.

    An archive may lack the last ones for a moment.
    """
    given = {(each.first, each.last) for each in logged if each.first > block_end}
    end = max(given, default=(0, 0))[0]
    strange = {(each.first, each.last) for each in asked if block_end < each.first <= end} - given
    assert not strange, f"not in the log: {sorted(strange)[:5]}"
    return min(given)[0]


def znode(servers: Ensemble, chroot: str = "") -> tuple[bytes | None, int]:
    """Content and version, from outside."""
    with outside(servers) as client:
        data, stat = client.get(chroot + PATH)
        return data, int(stat.version)


def block_end(servers: Ensemble, chroot: str = "") -> int:
    """The inclusive end that the znode holds."""
    return int(json.loads(znode(servers, chroot)[0] or b"{}")["block_end"])
