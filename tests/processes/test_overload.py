"""One node against everything a stranger can hold open: others are served, its memory is bounded, all go.

Goal        stalled uploads, idle connections, half-sent scrapes, unread replies and a lack of descriptors do
            not stop other clients; the node's memory grows by no more than its bound and 64 MiB; when their
            time is over, the node closes those connections.
Method      a cluster with the default limits, but for shorter times; the leader is attacked; a transactional
            producer of librdkafka commits all the while.
Figures     are in the report: ``pytest -rP``.
"""

import contextlib
import resource
import socket
import struct
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from fencepost.client.transactional_producer import Outcome, Record, TransactionalProducer
from fencepost.wire.descriptors import RESERVE_MIN
from fencepost.wire.request_memory import SMALL_FRAME_BYTES_MAX
from tests.harness.command import in_process
from tests.harness.nodes import CALM, NO_QUOTA, Nodes, running, wait_for

pytestmark = pytest.mark.slow

MIB = 1024 * 1024
IDLE_S = 6
SETTINGS = (f"connections.max.idle.ms={IDLE_S * 1000}", NO_QUOTA, *CALM)
MEMORY_KIB_MAX = (256 + 64) * 1024
LOG_BYTES_MAX = 256 * 1024
SEND_BYTES = 256 * 1024
ZEROS = memoryview(bytes(SEND_BYTES))


class Stranger:
    """A socket that sends what it has as fast as it is taken, and then stalls."""

    def __init__(self, address: tuple[str, int], head: bytes, size: int, source: int) -> None:
        self.socket = socket.socket()
        self.socket.bind((f"127.0.0.{2 + source % 250}", 0))
        self.socket.connect(address)
        self.socket.setblocking(False)
        self._head = head
        self._left = size
        self.is_stalled = False  # it has nothing left to send

    def push(self) -> None:
        """Send some more: the head, and then zeros."""
        with contextlib.suppress(OSError):
            if self._head:
                self.socket.sendall(self._head)
                self._head = b""
            while self._left:
                self._left -= self.socket.send(ZEROS[: self._left])
            self.is_stalled = True

    def is_closed(self) -> bool:
        """The other side closed, or cut it off."""
        try:
            while received := self.socket.recv(SEND_BYTES):
                del received
        except BlockingIOError:
            return False
        except OSError:
            return True
        return True


class Strangers:
    """Many of them, and a thread that pushes."""

    def __init__(self) -> None:
        self.all: list[Stranger] = []
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._push, daemon=True)
        self._thread.start()

    def come(self, count: int, address: tuple[str, int], head: bytes = b"", size: int = 0) -> list[Stranger]:
        new = [Stranger(address, head, size, number) for number in range(count)]
        self.all += new
        return new

    def open_count(self) -> int:
        return sum(not each.is_closed() for each in self.all)

    def leave(self) -> None:
        self._stopped.set()
        self._thread.join()
        for each in self.all:
            each.socket.close()

    def _push(self) -> None:
        while not self._stopped.wait(0.01):
            for each in [each for each in self.all if not each.is_stalled]:
                each.push()


class Witness:
    """A producer that commits one transaction after the other, and the highest memory of a node meanwhile."""

    def __init__(self, nodes: Nodes, node_id: int) -> None:
        self.committed = 0
        self.longest_s = 0.0
        self.rss_kib_max = 0
        self.failed: BaseException | None = None
        self._nodes, self._node_id = nodes, node_id
        self._producer = TransactionalProducer(nodes.cluster.bootstrap, "witness")
        self._stopped = threading.Event()
        self._threads = [threading.Thread(target=each, daemon=True) for each in (self._commit, self._look)]

    def start(self) -> None:
        for each in self._threads:
            each.start()

    def stop(self) -> None:
        self._stopped.set()
        for each in self._threads:
            each.join()

    def some_commits(self, count: int = 5) -> None:
        """Wait until so many more transactions are committed."""
        wanted = self.committed + count
        wait_for("transactions commit", lambda: self.failed or self.committed >= wanted)
        assert self.failed is None, self.failed

    def _commit(self) -> None:
        try:
            while not self._stopped.wait(0.02):
                begun_s = time.monotonic()
                assert self._producer.write([Record("served", b"x")]) is Outcome.COMMITTED
                self.longest_s = max(self.longest_s, time.monotonic() - begun_s)
                self.committed += 1
        except BaseException as error:  # noqa: BLE001 - said by the test
            self.failed = error

    def _look(self) -> None:
        while not self._stopped.wait(0.05):
            self.rss_kib_max = max(self.rss_kib_max, self._nodes.rss_anon_kib(self._node_id))


@pytest.fixture(scope="module")
def nodes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Nodes]:
    with running(tmp_path_factory.mktemp("overload") / "cluster", *SETTINGS) as started:
        yield started


@pytest.fixture
def strangers() -> Iterator[Strangers]:
    many = Strangers()
    yield many
    many.leave()


def test_what_strangers_hold_open_is_bounded_and_goes(nodes: Nodes, strangers: Strangers) -> None:
    leader = nodes.await_followed()
    leadership, mark = nodes.leadership(), nodes.log_size(leader)
    client, metrics = nodes.address(leader, "client"), nodes.address(leader, "metrics")
    witness = Witness(nodes, leader)
    witness.start()
    try:
        witness.some_commits(20)
        before_kib = nodes.rss_anon_kib(leader)
        witness.rss_kib_max = 0

        strangers.come(50, client, struct.pack(">i", 100 * MIB), 95 * MIB)
        witness.some_commits(20)
        strangers.come(5000, client)
        witness.some_commits(20)
        strangers.come(500, metrics, b"GET /metrics HTTP/1.1\r\nHost:")
        witness.some_commits(20)
        assert nodes.metrics(leader)["fencepost_raft_leader_id"] == leader
        held = strangers.open_count()
        begun_s = time.monotonic()
        wait_for("all strangers are closed", lambda: strangers.open_count() == 0, 90)
        gone_s = time.monotonic() - begun_s
        witness.some_commits(20)
    finally:
        witness.stop()
    grown_kib = witness.rss_kib_max - before_kib
    logged = nodes.log_size(leader) - mark
    sys.stdout.write(
        f"\n{held} strangers open, gone after {gone_s:.0f} s; memory {before_kib / 1024:.0f} MiB and "
        f"{grown_kib / 1024:.0f} MiB more at its highest; {witness.committed} commits, the longest "
        f"{witness.longest_s:.2f} s; {logged} bytes logged"
    )
    assert grown_kib <= MEMORY_KIB_MAX
    assert logged <= LOG_BYTES_MAX
    nodes.await_followed()
    assert nodes.leadership() == leadership
    assert nodes.complaints() == []


def test_small_frames_that_stall_are_bounded_too(nodes: Nodes, strangers: Strangers) -> None:
    leader = nodes.await_followed()
    witness = Witness(nodes, leader)
    witness.start()
    try:
        witness.some_commits(20)
        before_kib = nodes.rss_anon_kib(leader)
        witness.rss_kib_max = 0
        head = struct.pack(">i", SMALL_FRAME_BYTES_MAX)
        strangers.come(4000, nodes.address(leader, "client"), head, SMALL_FRAME_BYTES_MAX - 1)
        witness.some_commits(20)
        strangers.come(4000, nodes.address(leader, "controller"), head, SMALL_FRAME_BYTES_MAX - 1)
        witness.some_commits(20)
        wait_for("all strangers are closed", lambda: strangers.open_count() == 0, 90)
    finally:
        witness.stop()
    grown_kib = witness.rss_kib_max - before_kib
    sys.stdout.write(
        f"\nmemory {before_kib / 1024:.0f} MiB and {grown_kib / 1024:.0f} MiB more at its highest"
    )
    assert grown_kib <= MEMORY_KIB_MAX
    assert nodes.complaints() == []


def _leads(nodes: Nodes, node_id: int) -> bool:
    """By its own metrics; False where the connection is reset."""
    try:
        return nodes.metrics(node_id)["fencepost_raft_leader_id"] == node_id
    except OSError:
        return False


def test_a_node_without_descriptors_serves_on(nodes: Nodes, strangers: Strangers) -> None:
    """Its limit is lowered under it, as low as what it has open: nothing at all is left for a while."""
    leader = nodes.await_followed()
    leadership, pid = nodes.leadership(), nodes.pid(leader)
    open_now = len(list(Path(f"/proc/{pid}/fd").iterdir()))
    before = resource.prlimit(pid, resource.RLIMIT_NOFILE)
    witness = Witness(nodes, leader)
    witness.start()
    try:
        witness.some_commits(20)
        strangers.come(400, nodes.address(leader, "client"))
        strangers.come(400, nodes.address(leader, "controller"))
        resource.prlimit(pid, resource.RLIMIT_NOFILE, (open_now + 2 * RESERVE_MIN, before[1]))
        witness.some_commits(20)
        strangers.come(1000, nodes.address(leader, "client"))
        # A new connection may be reset while every descriptor is taken; a moment later it is served.
        create = ("topics", "create", "--if-not-exists", "--topic", "later", "--partitions", "20")
        where = ("--dir", nodes.directory)
        wait_for("a new client is served", lambda: in_process(*create, *where).status == 0, 60)
        witness.some_commits(20)
        wait_for("its metrics name it as the leader", lambda: _leads(nodes, leader), 60)
    finally:
        resource.prlimit(pid, resource.RLIMIT_NOFILE, before)
        witness.stop()
    sys.stdout.write(f"\n{witness.committed} commits, the longest {witness.longest_s:.2f} s")
    nodes.await_followed()
    assert nodes.leadership() == leadership
    assert nodes.events(leader, "partition_offline") == []
    assert nodes.complaints() == []


def test_clients_that_read_no_replies_are_bounded(nodes: Nodes) -> None:
    """Each fetches the same megabytes and reads nothing."""
    leader = nodes.await_followed()
    witness = Witness(nodes, leader)
    witness.start()
    nodes.run("topics", "create", "--topic", "large", "--partitions", "3")
    filler = TransactionalProducer(nodes.cluster.bootstrap, "filler")
    for _ in range(12):
        records = [Record("large", bytes(200_000), partition) for partition in range(3) for _ in range(6)]
        assert filler.write(records) is Outcome.COMMITTED
    rows = b"".join(struct.pack(">iqi", index, 0, 16 * MIB) for index in range(3))  # offset 0, so many bytes
    body = struct.pack(">iiiibi", -1, 500, 1, 16 * MIB, 0, 1) + b"\0\5large" + struct.pack(">i", 3) + rows
    fetch = struct.pack(">ihhih", 10 + len(body), 1, 4, 7, -1) + body
    sockets = []
    try:
        witness.some_commits(20)
        before_kib = nodes.rss_anon_kib(leader)
        witness.rss_kib_max = 0
        for node_id in nodes.node_ids:
            for number in range(100):
                each = socket.socket()
                each.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
                each.bind((f"127.0.0.{2 + number}", 0))
                each.connect(nodes.address(node_id, "client"))
                each.sendall(fetch)
                sockets.append(each)
        witness.some_commits(20)
    finally:
        witness.stop()
        for each in sockets:
            each.close()
    grown_kib = witness.rss_kib_max - before_kib
    sys.stdout.write(f"\nmemory {before_kib / 1024:.0f} MiB, at most {grown_kib / 1024:.0f} MiB more")
    assert grown_kib <= MEMORY_KIB_MAX
    assert nodes.complaints() == []
