"""Which requests unchanged applications send to a broker of ours, and which to one of Apache Kafka instead.

A client asks a broker for the versions that it serves, and does without what is missing: what it lacks shows
only beside a broker that has it. So each application runs twice, on one node each, behind a proxy that notes
the key and the version of every request.

    SPARK_RECORDS=20000 python -m tests.clients.requests_seen [--only kafka-streams] [--seconds 40]
"""

import random
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any, Final

import click
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]

from fencepost.cluster.local_cluster import create_cluster
from tests.clients import kafka_broker, kafka_connect, kafka_streams, spark_streaming
from tests.clients.explained import SETTINGS
from tests.clients.players import FETCHED, HERE, copied
from tests.harness.nodes import JSON_LOGS, NO_QUOTA, Nodes, ended_clean, wait_for
from tests.ports import cluster_port, free_port

READ_BYTES: Final = 65_536
HEAD: Final = struct.Struct(">ihhih")
NOT_THE_APPLICATIONS: Final = (b"rdkafka", b"broker-", b"AddPartitions", b"TransactionMarker", b"fencepost")
"""Client ids of the suite's own client, and of brokers that send something to themselves."""
PRIVATE_FROM: Final = 20_000
STARTED_S_MAX: Final = 120.0

Seen = dict[int, set[int]]  # versions by key


class Tap:
    """A proxy on a port of loopback. ``seen``: what went through it."""

    def __init__(self, port: int, target: int) -> None:
        self.seen: Seen = {}
        self._target = target
        self._listener = socket.create_server(("127.0.0.1", port))
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        self._listener.close()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                broker = socket.create_connection(("127.0.0.1", self._target))
                for source, target, notes in ((client, broker, True), (broker, client, False)):
                    threading.Thread(target=self._copy, args=(source, target, notes), daemon=True).start()

    def _copy(self, source: socket.socket, target: socket.socket, notes: bool) -> None:
        """A frame begins with its length, the key, the version, a number and the client's id."""
        unread, passed = b"", 0  # the begin of a frame; bytes of a frame that are still to come
        with suppress(OSError):
            while data := source.recv(READ_BYTES):
                target.sendall(data)
                if not notes:
                    continue
                unread, passed = unread + data[passed:], max(0, passed - len(data))
                while len(unread) >= HEAD.size:
                    length, key, version, _, id_length = HEAD.unpack_from(unread)
                    end = HEAD.size + max(0, id_length)
                    if len(unread) < end:
                        break
                    self._note(unread[HEAD.size : end], key, version)
                    unread, passed = unread[4 + length :], max(0, 4 + length - len(unread))
        for each in (source, target):
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)

    def _note(self, client_id: bytes, key: int, version: int) -> None:
        if not client_id.startswith(NOT_THE_APPLICATIONS) and key < PRIVATE_FROM:
            self.seen.setdefault(key, set()).add(version)


class Named:
    """What the applications of the suite need of a cluster."""

    def __init__(self, bootstrap: str) -> None:
        self.bootstrap = bootstrap


@contextmanager
def ours(folder: Path) -> Iterator[Tap]:
    port = free_port()
    advertised = f"advertised.listeners=PLAINTEXT://127.0.0.1:{port}"
    nodes = Nodes(create_cluster(folder / "ours", 1, cluster_port(), (JSON_LOGS, NO_QUOTA, advertised)))
    tap = Tap(port, nodes.address(1, "client")[1])
    with ended_clean(nodes):
        nodes.up()
        yield tap
    tap.close()


@contextmanager
def kafkas(folder: Path) -> Iterator[Tap]:
    kafka_broker.fetch()
    port, controller = free_port(), free_port()
    broker = kafka_broker.Broker(
        folder / "kafka", SETTINGS, node_id=1, port=free_port(), controllers={1: controller}
    )
    config = folder / "kafka" / "server.properties"
    with config.open("a") as file:
        file.write(f"advertised.listeners=PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller}\n")
    tap = Tap(port, broker.port)
    broker.start()
    try:
        yield tap
    finally:
        broker.kill()
        tap.close()


def _made(bootstrap: str, *topics: str) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})
    wanted = [NewTopic(each, spark_streaming.PARTITIONS, 1) for each in topics]
    for future in admin.create_topics(wanted).values():
        future.result(60)


def streams(bootstrap: str, direct: str, folder: Path, seconds: float) -> None:
    """Two instances, so that there are standby tasks; one is ended, and comes back."""
    _made(direct, "lines", "counted", "windowed")
    jars = copied(HERE / "streams/pom.xml", FETCHED / "streams")
    command = ["java", "-Xmx256m", "-cp", f"{jars}/*", str(HERE / "streams/Counts.java")]
    cluster: Any = Named(bootstrap)
    instances = [kafka_streams.Instance(command, folder / f"{each}", cluster, "counts") for each in (1, 2)]
    feed = kafka_streams.Feed(direct, random.Random(1))
    with ExitStack() as stack:
        for each in instances:
            stack.callback(each.end)
            each.start()
        for each in instances:
            wait_for(f"Streams runs, see {each.folder}", each.is_running, STARTED_S_MAX)
        feed.go_on(seconds / 2)
        instances[0].end()
        instances[0].start()
        feed.go_on(seconds / 2)
        wait_for(f"Streams runs, see {folder}", instances[0].is_running, STARTED_S_MAX)
        feed.end()


def connect(bootstrap: str, direct: str, folder: Path, seconds: float) -> None:
    """One worker with an exactly-once source and a sink."""
    class_path = f"{copied(HERE / 'connect/pom.xml', FETCHED / 'connect')}/*"
    _made(direct, kafka_connect.TOPIC)
    cluster: Any = Named(bootstrap)
    worker = kafka_connect.Worker(class_path, folder / "worker", cluster, "connect")
    source, sink = folder / "source.txt", folder / "sink.txt"
    source.touch()
    worker.start()
    try:
        kafka_connect._await_running([worker], kafka_connect._make([worker], source, sink))
        written = kafka_connect._write(source, 0)
        wait_for("all came out", lambda: sink.exists() and len(sink.read_text().splitlines()) >= written, 120)
        time.sleep(seconds / 4)
    finally:
        worker.kill()


def spark(bootstrap: str, direct: str, folder: Path, _seconds: float) -> None:
    """A topic with transactions is read, another one is written."""
    jars = copied(HERE / "spark/pom.xml", FETCHED / "spark")
    _made(direct, spark_streaming.SOURCE, spark_streaming.TARGET)
    spark_streaming._fill(direct)
    command = [sys.executable, "-m", "tests.clients.spark_query", bootstrap, str(jars), str(folder), "rest"]
    with (folder / "out.txt").open("wb") as out:
        subprocess.run(command, stdout=out, stderr=out, timeout=300, check=True)


APPLICATIONS: Final[dict[str, Callable[[str, str, Path, float], None]]] = {
    kafka_streams.NAME: streams,
    kafka_connect.NAME: connect,
    spark_streaming.NAME: spark,
}


@click.command()
@click.option("--only", "names", multiple=True, type=click.Choice(tuple(APPLICATIONS)))
@click.option("--seconds", default=40.0, help="How long what has no end runs.")
def main(names: tuple[str, ...], seconds: float) -> None:
    """Print each application's keys, and with which version on either side."""
    for name in names or tuple(APPLICATIONS):
        found: dict[str, Seen] = {}
        for side, cluster in (("ours", ours), ("Kafka", kafkas)):
            with tempfile.TemporaryDirectory(prefix=f"fencepost-{name}-") as home:
                folder = Path(home)
                with cluster(folder) as tap:
                    port = tap._listener.getsockname()[1]
                    direct = f"127.0.0.1:{tap._target}"
                    (folder / "application").mkdir()
                    APPLICATIONS[name](f"127.0.0.1:{port}", direct, folder / "application", seconds)
                    found[side] = dict(tap.seen)
        for key in sorted({*found["ours"], *found["Kafka"]}):
            said = [sorted(found[side].get(key, ())) for side in ("ours", "Kafka")]
            click.echo(f"{name} {key} ours {said[0]} Kafka {said[1]}")


if __name__ == "__main__":
    main()
