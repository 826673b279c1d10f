"""A call of a real node fails, by seed: which call, which file, which error, how often; and what clients see.

One broker holds each topic, so that what it acknowledged is nowhere else. While the call fails, records are
produced and producer ids are given out. Then the disk is well again: where the node still runs and no
partition is offline, clients are served without a word; else the node is started again.

Checked     each acknowledged record is there, once and in order; no producer id was given out twice; the node
            says the path and the error; the images are equal.
Run         .venv/bin/python -m tests.processes.disk_errors --seeds 200 --from 0
            ``--at-start``: each file that a node uses while it starts.
"""

import argparse
import contextlib
import errno
import os
import random
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import confluent_kafka

from fencepost.cluster import lifecycle, state
from fencepost.cluster.console import Failed
from fencepost.cluster.local_cluster import create_cluster
from tests.harness.failing_calls import FOREVER, Faults, compiled
from tests.harness.nodes import JSON_LOGS, NO_QUOTA, Nodes
from tests.ports import cluster_port
from tests.processes.raw_client import producer_id

_MADE: Final = ("create", "write", "sync", "rename")
PLACES: Final = {  # of a node's files, by a part of their paths; what is called on them
    "/store/data.mdb": ("write", "sync"),
    "/archive/": ("write", "sync"),
    "/snapshots": ("mkdir", *_MADE, "unlink"),
    "/{topic}-0": ("mkdir", "create", "open", "write", "sync", "read", "rename", "unlink"),
    ".log": ("create", "open", "write", "sync", "read"),
    ".index": ("create", "open", "write", "sync"),
    ".timeindex": ("create", "write", "sync"),
    ".txnindex": ("create", "write", "sync"),
    ".snapshot": (*_MADE, "unlink"),
    ".checksums": (*_MADE, "read"),
    "leader-epoch-checkpoint": _MADE,
    "partition.metadata": _MADE,
    "hosted-logs": _MADE,
    "/data": ("create", "write", "sync", "rename"),
}
AT_START: Final = {  # likewise, of what a node uses while it starts
    "/store/data.mdb": ("open", "read", "write", "sync"),
    "/store/.lock": ("open",),
    "/store/lock.mdb": ("open",),
    "/archive/__cluster_metadata-0/": ("open", "read", "write", "sync"),
    "/data/.lock": ("open", "truncate", "write", "sync"),
    "/{topic}-0/": ("open", "read", "create", "rename"),
    "/hosted-logs": ("open", "read"),
    "/store-starts": ("open", "read", *_MADE),
    "/clock.json": ("open", "read", *_MADE),
    "/meta.properties": ("open", "read"),
    "/bootstrap.json": ("open", "read"),
    "/node.properties": ("open", "read"),
    "/log.txt": ("write",),
}
NEW: Final = ("leader-epoch-checkpoint", "partition.metadata", "hosted-logs")
"""Files of new topics: the call fails while the topic is made."""

FULL: Final = frozenset({"create", "write", "sync", "rename", "truncate", "mkdir"})
"""What a full disk refuses. All calls may answer EIO."""

LOG: Final = "log.txt"
COUNTS: Final = (1, 1, 3, FOREVER)
RECORDS: Final = 12  # before, while and after the call fails
SETTINGS: Final = (
    JSON_LOGS, NO_QUOTA, "snapshot.entries.interval=5", "log.segment.bytes=1200",
    "log.retention.check.interval.ms=200", "log.flush.interval.messages=3",
)  # fmt: skip
WAIT_S: Final = 6.0


@dataclass(frozen=True)
class Fault:
    """One case."""

    seed: int
    call: str
    place: str
    error: int
    skipped: int
    count: int
    leads: bool  # the node is the leader
    starts: bool  # it was killed, and starts while the call fails

    @classmethod
    def of(cls, seed: int, *, at_start: bool = False) -> "Fault":
        rng = random.Random(seed)
        places = AT_START if at_start else PLACES
        place = rng.choice(sorted(places))
        call = rng.choice(places[place])
        error = rng.choice((errno.ENOSPC, errno.EIO)) if call in FULL else errno.EIO
        place = place.format(topic=topic_of(seed))
        skipped, count = rng.choice((0, 0, 0, 1) if at_start else (0, 0, 1, 3)), rng.choice(COUNTS)
        leads, starts = rng.random() < 0.5, rng.random() < 0.3
        return cls(seed, call, place, error, skipped, count, leads, starts or at_start)

    def __str__(self) -> str:
        count = "ever after" if self.count == FOREVER else f"{self.count} times"
        return (
            f"seed {self.seed}: {self.call} of *{self.place}* fails with {errno.errorcode[self.error]}, "
            f"{count} after {self.skipped}, at {'the leader' if self.leads else 'a follower'}"
            f"{' that starts' if self.starts else ''}"
        )


def topic_of(seed: int) -> str:
    return f"t{seed}"


@dataclass
class Seen:
    """What clients saw."""

    acknowledged: dict[int, bytes] = field(default_factory=dict)  # by offset
    refused: int = 0

    def delivered(self, error: Any, message: Any) -> None:
        if error is None:
            assert message.offset() not in self.acknowledged, f"offset {message.offset()} twice"
            self.acknowledged[message.offset()] = message.value()
        else:
            self.refused += 1


class Trial:
    """A cluster whose nodes have the library, and one case after the other."""

    def __init__(self, nodes: Nodes) -> None:
        self.nodes = nodes
        self.faults = {each: Faults(nodes.node(each).directory) for each in nodes.node_ids}
        self.producer_ids: Counter[int] = Counter()
        self.outcomes: Counter[str] = Counter()

    def start(self, *node_ids: int) -> None:
        """With the library, in programs of their own."""
        nodes = [self.nodes.node(each) for each in node_ids]
        children = lifecycle.start_nodes(self.nodes.cluster, nodes)
        self.nodes._children += children.values()
        state.await_answering(nodes, children)

    def run(self, fault: Fault) -> str:
        """Returns what became of the node. Raises AssertionError."""
        nodes, topic, seen = self.nodes, topic_of(fault.seed), Seen()
        leader = nodes.leader()
        victim = leader if fault.leads else next(each for each in nodes.node_ids if each != leader)
        faults, mark = self.faults[victim], nodes.log_size(victim)
        late = fault.place in NEW or (fault.call == "mkdir" and fault.place.endswith("-0"))
        if not late:
            self.created(topic, victim)
            self.produced(topic, seen, RECORDS, WAIT_S)
            assert len(seen.acknowledged) == RECORDS, f"{seen.refused} refused before anything failed"
        if fault.starts:
            nodes.kill(victim)
        faults.arm(fault.call, fault.place, fault.error, skipped=fault.skipped, count=fault.count)
        try:
            if fault.starts:
                with contextlib.suppress(Failed):
                    self.start(victim)
            if late:
                with contextlib.suppress(AssertionError):
                    self.created(topic, victim)
            self.produced(topic, seen, 3 * RECORDS, WAIT_S)
            self.given_out(victim)
            self.logged(f"{topic}-entries", victim)
        finally:
            faults.disarm()
        hits, path = faults.hits, faults.path
        outcome = self.recovered(victim, mark) if hits else "not reached"
        if late and topic not in nodes.run("topics", "list"):
            self.created(topic, victim)
        self.served(topic, seen, victim)
        self.checked(topic, seen)
        if outcome not in ("not reached", "no trouble"):
            self.said(fault, victim, mark, path)
        self.outcomes[outcome] += 1
        nodes.run("topics", "delete", "--topic", topic)
        return f"{outcome}, {hits} hits, first {Path(path).name if path else '-'}, {seen.refused} refused"

    def created(self, topic: str, victim: int) -> None:
        self.nodes.run("topics", "create", "--topic", topic, "--replica-assignment", str(victim))

    def logged(self, topic: str, victim: int) -> None:
        """Entries with records: the archive is written, and snapshots are taken."""
        with contextlib.suppress(AssertionError):
            self.created(topic, next(each for each in self.nodes.node_ids if each != victim))
            self.nodes.run("topics", "delete", "--topic", topic)

    def produced(self, topic: str, seen: Seen, count: int, seconds: float) -> None:
        producer = confluent_kafka.Producer(
            {
                "bootstrap.servers": self.nodes.bootstrap,
                "enable.idempotence": True,
                "message.timeout.ms": int(seconds * 1000),
                "linger.ms": 0,
                "log_level": 0,
            }
        )
        for number in range(count):
            producer.produce(
                topic, f"{count}-{number}".encode() + b"." * 100, partition=0, on_delivery=seen.delivered
            )
            producer.poll(0.02)
        producer.flush(2 * seconds)

    def given_out(self, victim: int) -> None:
        for each in self.nodes.node_ids:
            if each != victim:
                with contextlib.suppress(AssertionError, OSError):
                    self.producer_ids[producer_id(self.nodes.address(each, "client"))] += 1
        twice = [each for each, count in self.producer_ids.items() if count > 1]
        assert not twice, f"producer ids given out twice: {twice}"

    def troubles(self, victim: int, mark: int) -> list[dict[str, Any]]:
        return [
            each
            for each in self.nodes.events(victim, since=mark)
            if each.get("level") in ("warning", "error", "critical") or "unreadable" in each
        ]

    def recovered(self, victim: int, mark: int) -> str:
        """The disk is well: started again only where the node died or a partition is offline."""
        nodes = self.nodes
        if nodes.node(victim).status() == "dead":
            self.start(victim)
            outcome = "ended"
        elif any("offline" in each["event"] for each in self.troubles(victim, mark)):
            nodes.send(victim, signal.SIGTERM)
            nodes.await_status(victim, "dead")
            self.start(victim)
            outcome = "offline"
        else:
            return "served on" if self.troubles(victim, mark) else "no trouble"
        return outcome

    def served(self, topic: str, seen: Seen, victim: int) -> None:
        """Records are taken again."""
        before = len(seen.acknowledged)
        deadline = time.monotonic() + 40
        while len(seen.acknowledged) < before + 3:
            assert time.monotonic() < deadline, f"no record is taken again by node {victim}"
            if self.nodes.node(victim).status() == "dead":  # it was about to end when it was looked at
                self.start(victim)
            self.produced(topic, seen, 3, WAIT_S)
        self.given_out(victim)

    def checked(self, topic: str, seen: Seen) -> None:
        consumer = confluent_kafka.Consumer(
            {"bootstrap.servers": self.nodes.bootstrap, "group.id": "check", "enable.auto.commit": False}
        )
        found: dict[int, bytes] = {}
        try:
            consumer.assign([confluent_kafka.TopicPartition(topic, 0, 0)])
            last, deadline = max(seen.acknowledged), time.monotonic() + 30
            while not found or max(found) < last:
                assert time.monotonic() < deadline, f"record {last} of {topic} is not there: {sorted(found)}"
                message = consumer.poll(1)
                if message is not None and message.error() is None:
                    found[message.offset() or 0] = message.value() or b""
        finally:
            consumer.close()
        lost = {at: value for at, value in seen.acknowledged.items() if found.get(at) != value}
        assert not lost, f"acknowledged and lost: {lost}"
        values = Counter(found.values())
        self.nodes.await_equal_images()
        assert all(count <= 3 for count in values.values())

    def said(self, fault: Fault, victim: int, mark: int, path: str) -> None:
        """One sentence has the path and the error."""
        words = os.strerror(fault.error).lower()
        lines = [str(each) for each in self.troubles(victim, mark) if each["event"] != "authorizer_missing"]
        assert not any("unreadable" in each and "Traceback" in each for each in lines), lines
        named = [each for each in lines if words in each.lower()]
        where: tuple[str, ...] = (path, str(Path(path).parent), Path(path).name, Path(path).parent.name)
        if Path(path).name == LOG:  # it cannot say so itself; later it says that lines were lost
            where = ("log_lines_lost",)
        assert any(part in each for each in named for part in where), (
            f"no line names {path} and {words!r}: {lines}"
        )


@contextlib.contextmanager
def trial(folder: Path, *more: str) -> Iterator[Trial]:
    """Three nodes with the library. ``more``: settings."""
    library = compiled(folder)
    nodes = Nodes(create_cluster(folder / "cluster", 3, cluster_port(), (*SETTINGS, *more)))
    tried = Trial(nodes)
    before = os.environ.get("LD_PRELOAD")
    os.environ["LD_PRELOAD"] = str(library)
    try:
        nodes._children += lifecycle.bring_up(nodes.cluster).values()
        yield tried
    finally:
        if before is None:
            del os.environ["LD_PRELOAD"]
        else:
            os.environ["LD_PRELOAD"] = before
        for each in tried.faults.values():
            each.disarm()
        nodes.down()


def say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=50)
    parser.add_argument("--from", dest="first", type=int, default=0)
    parser.add_argument("--at-start", action="store_true", help="the node was killed, and starts meanwhile")
    chosen = parser.parse_args()
    failed = 0
    with tempfile.TemporaryDirectory() as name, trial(Path(name)) as tried:
        for seed in range(chosen.first, chosen.first + chosen.seeds):
            fault = Fault.of(seed, at_start=chosen.at_start)
            try:
                say(f"{fault}: {tried.run(fault)}")
            except AssertionError as error:
                failed += 1
                say(f"{fault}: FAILED: {error}")
                dead = [each for each in tried.nodes.node_ids if tried.nodes.node(each).status() == "dead"]
                for each in dead:
                    tried.start(each)
    say(f"{chosen.seeds} cases, {failed} failed; {dict(sorted(tried.outcomes.items()))}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
