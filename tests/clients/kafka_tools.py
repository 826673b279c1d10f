"""Kafka's command line tools, one after the other in one JVM, at a node of ours and at one of Apache Kafka.

One JVM    as a start of its own costs each tool some seconds.
"""

import base64
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final, NamedTuple

from tests.clients import kafka_broker
from tests.clients.explained import SETTINGS
from tests.clients.players import FETCHED, HERE, copied
from tests.clients.stories import StoryFailed
from tests.harness.nodes import NO_QUOTA, running
from tests.ports import free_port

_JVM: Final = (
    "-XX:TieredStopAtLevel=1",
    "-XX:+UseSerialGC",
    "-Dorg.slf4j.simpleLogger.defaultLogLevel=error",
)


class Ended(NamedTuple):
    """What a tool did."""

    status: int
    stdout: str
    stderr: str


class Tools:
    """See the module."""

    def __init__(self, process: "subprocess.Popen[str]") -> None:
        self._process = process

    def run(self, tool: str, *words: str) -> Ended:
        """Raises StoryFailed: the JVM has ended."""
        stdin, stdout = self._process.stdin, self._process.stdout
        assert stdin is not None
        assert stdout is not None
        stdin.write("\t".join((tool, *words)) + "\n")
        stdin.flush()
        line = stdout.readline().split()
        if len(line) != 3:
            raise StoryFailed(f"the JVM of Kafka's tools ended in {tool} {words}")
        printed, complained = (base64.b64decode(each[1:]).decode() for each in line[1:])
        return Ended(int(line[0]), printed, complained)


@contextmanager
def tools() -> Iterator[Tools]:
    """Raises players.NotHere: no Java, no Maven, or Maven cannot get the jars."""
    kafka_broker.fetch()
    jars = copied(HERE / "tools/pom.xml", FETCHED / "tools")
    class_path = f"{kafka_broker.class_path()}:{jars}/*"
    command = ["java", *_JVM, "-cp", class_path, str(HERE / "tools/Tools.java")]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as process:
        try:
            yield Tools(process)
        finally:
            process.kill()


class Side(NamedTuple):
    """One of two clusters."""

    bootstrap: str
    controller: str


@contextmanager
def both() -> Iterator[tuple[Side, Side]]:
    """A new node of ours and a new one of Apache Kafka, both with id 1."""
    controllers = {1: free_port()}
    with tempfile.TemporaryDirectory(prefix="fencepost-both-") as home:
        broker = kafka_broker.Broker(
            Path(home) / "kafka", SETTINGS, node_id=1, port=free_port(), controllers=controllers
        )
        broker.start()
        try:
            with running(Path(home) / "ours", NO_QUOTA, count=1) as nodes:
                ours = Side(nodes.bootstrap, "{}:{}".format(*nodes.address(1, "controller")))
                yield ours, Side(broker.bootstrap, f"127.0.0.1:{controllers[1]}")
        finally:
            broker.kill()
