"""Kafka Connect, distributed: a file goes into a topic exactly once, and out to a file, while all is killed.

Source     FileStreamSource with exactly.once.source.support: each line is in the topic once, in order.
Sink       FileStreamSink, which is at least once: each line comes out, lines may come again.
Killed     in turn: the worker that runs the source (SIGKILL, started again), the leader, both workers.
Fetched    by Maven into .clients, once.
"""

import json
import os
import signal
import socket
import subprocess
import time
import urllib.error
import urllib.request
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any, Final

from fencepost.client.read_back import READ_COMMITTED
from tests.clients.libraries import confluent_read
from tests.clients.players import FETCHED, HERE, copied, need
from tests.clients.stories import StoryFailed
from tests.harness.nodes import Nodes, wait_for

NAME: Final = "kafka-connect"
VERSION: Final = "4.1.1"
TOPIC: Final = "connected"
LINES: Final = 300  # written before each kill, and after the last
WAIT_S_MAX: Final = 120.0
ASK_S_MAX: Final = 10.0


class Worker:
    """One process of Connect; its REST port is its own."""

    def __init__(self, class_path: str, folder: Path, cluster: Nodes, group: str) -> None:
        folder.mkdir(parents=True)
        self.folder = folder
        self.port = _free_port()
        settings = {
            "bootstrap.servers": cluster.bootstrap,
            "group.id": group,
            "key.converter": "org.apache.kafka.connect.storage.StringConverter",
            "value.converter": "org.apache.kafka.connect.storage.StringConverter",
            "config.storage.topic": f"{group}-configs",
            "offset.storage.topic": f"{group}-offsets",
            "status.storage.topic": f"{group}-status",
            "config.storage.replication.factor": 1,
            "offset.storage.replication.factor": 1,
            "status.storage.replication.factor": 1,
            "offset.storage.partitions": 3,
            "offset.flush.interval.ms": 500,
            "exactly.once.source.support": "enabled",
            "listeners": f"http://127.0.0.1:{self.port}",
            "session.timeout.ms": 6000,
            "heartbeat.interval.ms": 500,
            "scheduled.rebalance.max.delay.ms": 2000,
        }
        text = "".join(f"{name}={value}\n" for name, value in settings.items())
        (folder / "worker.properties").write_text(text)
        main = "org.apache.kafka.connect.cli.ConnectDistributed"
        self._command = ["java", "-Xmx256m", "-cp", class_path, main, str(folder / "worker.properties")]
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        with (self.folder / "out.txt").open("ab") as out:
            self._process = subprocess.Popen(self._command, stdout=out, stderr=out, cwd=self.folder)

    def kill(self) -> None:
        if self._process is not None and self._process.poll() is None:
            self._process.send_signal(signal.SIGKILL)
            self._process.wait()

    def ask(self, path: str, body: Any = None, method: str | None = None) -> Any:
        """None: it does not answer, or not now."""
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(
            f"http://127.0.0.1:{self.port}{path}",
            data,
            {"Content-Type": "application/json"},
            method=method,
        )
        try:
            with urllib.request.urlopen(request, timeout=ASK_S_MAX) as answer:  # noqa: S310
                return json.loads(answer.read() or b"{}")
        except (OSError, urllib.error.HTTPError):
            return None


def lines_once(cluster: Nodes, logs: Path) -> str:
    """Play it. Raises StoryFailed, NotHere."""
    need("java", "mvn")
    class_path = f"{copied(HERE / 'connect/pom.xml', FETCHED / 'connect')}/*"
    group = f"connect-{os.urandom(3).hex()}"
    folder = logs / group
    workers = [Worker(class_path, folder / str(number), cluster, group) for number in (1, 2)]
    cluster.run("topics", "create", "--topic", TOPIC, "--partitions", "1")
    source, sink = folder / "source.txt", folder / "sink.txt"
    source.touch()
    with ExitStack() as stack:
        for worker in workers:
            stack.callback(worker.kill)
            worker.start()
        _await_running(workers, _make(workers, source, sink))
        written = 0
        for strike in (_kill_source, _kill_leader, _kill_both):
            written = _write(source, written)
            strike(cluster, workers)
        written = _write(source, written)
        _await_running(workers, ("source", "sink"))
        expected = [f"line {number}" for number in range(written)]
        wait_for(
            f"every line came out, see {folder}",
            lambda: sink.exists() and set(expected) <= set(sink.read_text().splitlines()),
            WAIT_S_MAX,
        )
        found = confluent_read(cluster.bootstrap, TOPIC, written + 1, READ_COMMITTED)
    if found != expected:
        wrong = next(
            (number for number, (a, b) in enumerate(zip(found, expected, strict=False)) if a != b),
            min(len(found), len(expected)),
        )
        raise StoryFailed(f"{len(found)} lines of {written} in the topic; the first wrong one is {wrong}")
    again = len(sink.read_text().splitlines()) - written
    return f"{written} lines, each in the topic once and in order; all came out, {again} again"


def _make(workers: list[Worker], source: Path, sink: Path) -> tuple[str, ...]:
    connectors = {
        "source": {
            "connector.class": "org.apache.kafka.connect.file.FileStreamSourceConnector",
            "file": str(source),
            "topic": TOPIC,
            "exactly.once.support": "required",
            "transaction.boundary": "poll",
        },
        "sink": {
            "connector.class": "org.apache.kafka.connect.file.FileStreamSinkConnector",
            "file": str(sink),
            "topics": TOPIC,
            "consumer.override.auto.offset.reset": "earliest",
        },
    }
    for name, settings in connectors.items():
        made = {"tasks.max": 1, **settings}
        wait_for(
            f"connector {name} is made",
            lambda name=name, made=made: any(  # type: ignore[misc]
                each.ask(f"/connectors/{name}/config", made, "PUT") for each in workers
            ),
            WAIT_S_MAX,
        )
    return tuple(connectors)


def _await_running(workers: list[Worker], names: tuple[str, ...]) -> None:
    for name in names:
        wait_for(f"{name} runs", lambda name=name: _task(workers, name) is not None, WAIT_S_MAX)  # type: ignore[misc]


def _task(workers: list[Worker], name: str) -> str | None:
    """The worker whose task runs."""
    for each in workers:
        status = each.ask(f"/connectors/{name}/status") or {}
        for task in status.get("tasks", ()):
            if task["state"] == "RUNNING":
                return str(task["worker_id"])
    return None


def _kill_source(_cluster: Nodes, workers: list[Worker]) -> None:
    at = _task(workers, "source")
    struck = next((each for each in workers if at is not None and at.endswith(f":{each.port}")), workers[0])
    struck.kill()
    time.sleep(1)
    struck.start()


def _kill_leader(cluster: Nodes, _workers: list[Worker]) -> None:
    leader = cluster.leader()
    cluster.kill(leader)
    time.sleep(1)
    cluster.start(leader)


def _kill_both(_cluster: Nodes, workers: list[Worker]) -> None:
    for each in workers:
        each.kill()
    for each in workers:
        each.start()


def _write(source: Path, written: int) -> int:
    with source.open("a") as file:
        for number in range(written, written + LINES):
            file.write(f"line {number}\n")
            file.flush()
            time.sleep(0.01)
    return written + LINES


def _free_port() -> int:
    with closing(socket.socket()) as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


SCENARIOS: Final = {"lines of a file are copied once while workers and nodes die": lines_once}
