"""A broker that takes its blocks from ZooKeeper itself, as Kafka does below protocol version 3.0.

Run         ``python -m tests.zookeeper.rival --connect HOST:PORT/CHROOT --broker N --history FILE``, until
            SIGTERM, until ``--blocks`` are taken, or until its ids are exhausted (exit status 5).
History     a JSON line per event, written before the next thing is done: ``{"event": "block", "broker",
            "first", "last", "version", "at_ns"}``, ``exhausted``, ``started``, ``stopped``. Who has a block
            has a line; a process that is killed may have taken one block more than it says.
Kafka       read data and version; none: ids 0 to 999; ``last > 2^63 - 1 - 1000``: exhausted; else the next
            1000, written on the condition of that version; a write that met a broken connection is repeated
            when there is one again. If then the version does not fit: before 3.0 the block counts as
            taken if the znode holds exactly it (``--kafka 2``), since 3.0 all begins anew (``--kafka 3``).

Shares no code with bridge/: it is what bridge/ is tested against.

Source      Kafka 0.11.0.0, 2.8.0 ProducerIdManager; 3.0.0 ZkProducerIdManager; KafkaZkClient.
"""

import argparse
import json
import logging
import os
import signal
import sys
import threading
import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from subprocess import DEVNULL, Popen
from typing import Any, Final, NamedTuple

from kazoo.client import KazooClient
from kazoo.exceptions import BadVersionError, ConnectionClosedError, ConnectionLoss, SessionExpiredError

from tests.zookeeper.kafka_rule import KafkaExhausted, kafkas_content, next_block_of_kafka

PATH: Final = "/latest_producer_id_block"
EXHAUSTED_STATUS: Final = 5


class Block(NamedTuple):
    """The ids from ``first`` to ``last``, inclusive, are ``broker``'s; ``at_ns`` by the monotonic clock."""

    broker: int
    first: int
    last: int
    at_ns: int


class _Rival:
    def __init__(self, client: Any, broker: int, kafka: int, stopping: threading.Event) -> None:
        self._client = client
        self._broker = broker
        self._kafka = kafka
        self._stopping = stopping

    def take(self) -> tuple[int, int, int] | None:
        """First and last id, and the znode's version; None when told to stop."""
        while (read := self._insist(lambda: self._client.get(PATH))) is not None:
            data, stat = read
            first, last = next_block_of_kafka(data)
            content = kafkas_content(self._broker, first, last)
            try:
                wrote = self._insist(lambda: self._client.set(PATH, content, stat.version))  # noqa: B023
                return None if wrote is None else (first, last, wrote.version)
            except BadVersionError:
                if self._kafka < 3 and self._holds(first, last):
                    return first, last, -1
        return None

    def _holds(self, first: int, last: int) -> bool:
        """Kafka's checkProducerIdBlockZkData: is this what we meant to write?"""
        read = self._insist(lambda: self._client.get(PATH))
        if read is None or read[0] is None:
            return False
        found = json.loads(read[0])
        return (found["broker"], int(found["block_start"]), int(found["block_end"])) == (
            self._broker,
            first,
            last,
        )

    def _insist(self, call: Any) -> Any:
        """As KafkaZkClient.retryRequestUntilConnected; None when told to stop."""
        while not self._stopping.is_set():
            try:
                return call()
            except (ConnectionLoss, SessionExpiredError, ConnectionClosedError):
                self._stopping.wait(0.01)
        return None


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--connect", required=True)
    parser.add_argument("--broker", type=int, required=True)
    parser.add_argument("--history", type=Path, required=True)
    parser.add_argument("--blocks", type=int, default=sys.maxsize)
    parser.add_argument("--kafka", type=int, choices=(2, 3), default=2)
    options = parser.parse_args()
    logging.getLogger("kazoo").setLevel(logging.CRITICAL)
    stopping = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stopping.set())
    history = os.open(options.history, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)

    def note(event: str, **facts: int) -> None:
        line = {"event": event, "broker": options.broker, **facts, "at_ns": time.monotonic_ns()}
        os.write(history, json.dumps(line).encode() + b"\n")

    client = KazooClient(options.connect, timeout=4.0)
    client.start_async()
    note("started")
    rival = _Rival(client, options.broker, options.kafka, stopping)
    status = 0
    try:
        for _ in range(options.blocks):
            taken = rival.take()
            if taken is None:
                break
            note("block", first=taken[0], last=taken[1], version=taken[2])
        note("stopped")
    except KafkaExhausted:
        note("exhausted")
        status = EXHAUSTED_STATUS
    client.stop()
    client.close()
    return status


# -- for those who run it -----------------------------------------------------------------------------------


def start_rival(connect: str, broker: int, history: Path, *arguments: str) -> Popen[bytes]:
    """A process of its own; to be ended by the caller."""
    return Popen(
        [
            sys.executable, "-m", "tests.zookeeper.rival", "--connect", connect, "--broker", str(broker),
            "--history", str(history), *arguments,
        ],
        stdin=DEVNULL,
        cwd=Path(__file__).resolve().parents[2],
    )  # fmt: skip


def read_history(path: Path) -> list[dict[str, Any]]:
    """The whole lines so far."""
    content = path.read_bytes() if path.exists() else b""
    return [json.loads(line) for line in content[: content.rfind(b"\n") + 1].splitlines()]


def blocks_of(histories: Iterable[Path]) -> list[Block]:
    """Every block that anyone says to have taken."""
    return [
        Block(line["broker"], line["first"], line["last"], line["at_ns"])
        for history in histories
        for line in read_history(history)
        if line["event"] == "block"
    ]


def overlaps(blocks: Sequence[Block]) -> list[tuple[Block, Block]]:
    """Pairs that share an id; ``(earlier, later)`` by first id."""
    found = []
    reaches: Block | None = None
    for block in sorted(blocks, key=lambda block: (block.first, block.last)):
        if reaches is not None and block.first <= reaches.last:
            found.append((reaches, block))
        if reaches is None or block.last > reaches.last:
            reaches = block
    return found


if __name__ == "__main__":
    sys.exit(main())
