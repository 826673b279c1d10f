"""A bit of a real node's files flips, drawn by structure: what the node says, and how it comes back.

Structures  are in flip_structures.py. The node is dead, or runs, in either role.
Checked     a majority serves; no producer id is given out twice; acknowledged records are read back, unless a
            command gave them up; logs begin where their records were deleted; of a compacted one, the last
            values of keys are those acknowledged last; in the end the images are equal. A flip in unused
            space changes nothing.
Outcomes    by structure: "nothing", "by itself" with the events, "by command" with what was typed.
Run         .venv/bin/python -m tests.processes.flips --seeds 300 --from 0
"""

import argparse
import contextlib
import os
import random
import signal
import sys
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import confluent_kafka
from confluent_kafka.admin import AdminClient

from fencepost.cluster.console import Failed
from fencepost.cluster.local_cluster import create_cluster
from tests.harness.nodes import JSON_LOGS, NO_QUOTA, Nodes
from tests.ports import cluster_port
from tests.processes.flip_structures import COMPACTED, STRUCTURES, TOPIC
from tests.processes.raw_client import producer_id

KEYS: Final = 5
DELETED_BEFORE: Final = 5  # of each partition of TOPIC: inside its first segment
SETTINGS: Final = (
    JSON_LOGS,
    NO_QUOTA,
    "snapshot.entries.interval=40",
    "log.segment.bytes=4000",
    "log.cleaner.backoff.ms=300",
)
WAIT_S: Final = 20.0


class Trial:
    """A cluster, and one case after the other."""

    def __init__(self, nodes: Nodes) -> None:
        self.nodes = nodes
        self.producer_ids: set[int] = set()
        self.acknowledged: dict[int, dict[int, bytes]] = defaultdict(dict)  # by partition and offset
        self.values: dict[int, dict[bytes, tuple[int, bytes]]] = defaultdict(dict)  # of COMPACTED, by key
        self.written = 0
        self.outcomes: dict[str, Counter[str]] = defaultdict(Counter)
        self.case = ""
        self.started_at: dict[int, int] = {}
        """Of each node that was started again, how long its log was then."""
        nodes.run("topics", "create", "--topic", TOPIC, "--replica-assignment", "1,2,3")
        compacted = ("--config", "cleanup.policy=compact", "--config", "min.cleanable.dirty.ratio=0.01")
        nodes.run("topics", "create", "--topic", COMPACTED, "--replica-assignment", "1,2,3", *compacted)
        for _ in range(12):
            self.served(nodes.node_ids)
        self.delete_records()

    def delete_records(self) -> None:
        admin = AdminClient({"bootstrap.servers": self.nodes.bootstrap})
        first = [
            confluent_kafka.TopicPartition(TOPIC, index, DELETED_BEFORE)
            for index in sorted(self.acknowledged)
        ]
        for each in admin.delete_records(first).values():
            each.result(WAIT_S)
        for found in self.acknowledged.values():
            for offset in range(DELETED_BEFORE):
                del found[offset]

    def run(self, seed: int, only: str) -> str:
        """Raises AssertionError."""
        rng, nodes = random.Random(seed), self.nodes
        structure = rng.choice(sorted(name for name in STRUCTURES if only in name))
        leads, runs, is_killed = rng.random() < 0.5, rng.random() < 0.3, rng.random() < 0.5
        leader = nodes.await_followed()
        victim = leader if leads else rng.choice([each for each in nodes.node_ids if each != leader])
        mark = nodes.log_size(victim)
        self.case = (
            f"{structure}, {'the leader' if leads else 'a follower'} that {'runs' if runs else 'is dead'}"
        )
        if not runs:
            self.end(victim, kill=is_killed)
        place = next(STRUCTURES[structure](nodes.home(victim), rng), None)
        how = f"{'the leader' if leads else 'a follower'} that {'runs' if runs else 'is dead'}"
        if place is None:
            self.back(victim)
            return f"{structure}, {how}: not there"
        file, at = place
        self.case += f", {file.relative_to(nodes.home(victim))} at {at}"
        with open(file, "r+b") as stream:
            stream.seek(at)
            byte = stream.read(1)[0]
            stream.seek(at)
            stream.write(bytes((byte ^ 1 << rng.randrange(8),)))
        self.served([each for each in nodes.node_ids if each != victim])
        if runs and nodes.node(victim).status() == "running":
            time.sleep(0.5)
            self.end(victim, kill=is_killed)
        outcome = self.came_back(victim, mark)
        if "unused" in structure:
            assert outcome == "nothing", f"a flip in unused space: {outcome}"
        self.served(nodes.node_ids)
        self.checked()
        self.outcomes[structure][outcome.partition(":")[0]] += 1
        return f"{structure}, {how}, {file.relative_to(nodes.home(victim))} at {at}: {outcome}"

    def end(self, victim: int, *, kill: bool) -> None:
        if self.nodes.node(victim).status() == "dead":
            return  # by itself: what it read next was damaged
        if kill:
            self.nodes.kill(victim)
        else:
            self.nodes.send(victim, signal.SIGTERM)
            self.nodes.await_status(victim, "dead")

    def back(self, victim: int) -> bool:
        """Start it. False: it ended."""
        if self.nodes.node(victim).status() == "dead":
            self.started_at[victim] = self.nodes.log_size(victim)
            try:
                self.nodes.start(victim)
            except Failed as error:
                self.case += f" (start: {error})"
        deadline = time.monotonic() + WAIT_S
        while self.nodes.node(victim).status() == "running":
            with contextlib.suppress(OSError):
                leaders = {
                    self.nodes.metrics(each)["fencepost_raft_leader_id"] for each in self.nodes.node_ids
                }
                if len(leaders) == 1 and min(leaders) > 0:
                    return True
            assert time.monotonic() < deadline, f"node {victim} runs and follows none"
            time.sleep(0.05)
        return False

    def came_back(self, victim: int, mark: int) -> str:
        nodes = self.nodes
        typed: list[str] = []
        if not self.back(victim) and not self.back(victim):  # once more: some damage is repaired by a start
            report = nodes.run("storage", "verify", "--node", victim, status=1)
            typed.append("storage verify; " + report.replace("\n", " ")[-200:])
            (nodes.home(victim) / "store").rename(nodes.home(victim) / f"store.{time.time_ns()}")
            assert self.back(victim), f"it does not start without its store: {self.said(victim, mark)}"
        nodes.await_equal_images()
        self.await_scrubbed(victim)
        for event in nodes.events(victim, "partition_offline", mark):
            topic, _, number = event["partition"].rpartition("-")
            if topic in (TOPIC, COMPACTED) and self.is_offline(victim, event["partition"]):
                self.end(victim, kill=False)
                words = ("storage", "repair", "--node", victim, "--partition", event["partition"])
                repaired = nodes.read(*words, "--accept-data-loss")
                self.given_up(topic, int(number), repaired["end_offset"])
                typed.append(f"storage repair --partition ({event['reason'][:80]})")
                assert self.back(victim), "it does not start after storage repair"
        if nodes.events(victim, "archive_damaged", self.started_at[victim]):
            self.end(victim, kill=False)
            nodes.run("storage", "repair", "--node", victim, "--archive")
            typed.append("storage repair --archive")
            assert self.back(victim), "it does not start after storage repair --archive"
            self.await_scrubbed(victim)
            again = nodes.events(victim, "archive_damaged", self.started_at[victim])
            assert not again, f"its archive is damaged after the repair: {again}"
        said = self.said(victim, mark)
        if typed:
            return f"by command: {typed}; {said}"
        return f"by itself: {said}" if said else "nothing"

    def given_up(self, topic: str, index: int, end: int) -> None:
        """A partition was cut there. Of keys whose last value is gone any value may be the last one."""
        if topic == COMPACTED:
            found = self.values[index]
            self.values[index] = {key: row for key, row in found.items() if row[0] < end}
            return
        for offset in list(self.acknowledged[index]):
            if offset >= end:
                del self.acknowledged[index][offset]

    def await_scrubbed(self, victim: int) -> None:
        """The first rounds of the scrubs are over: what changed in its logs and archives is found."""
        deadline = time.monotonic() + WAIT_S
        while True:
            since = self.nodes.events(victim, since=self.started_at[victim])
            if {"logs_scrubbed", "archive_scrubbed"} <= {each["event"] for each in since}:
                return
            assert time.monotonic() < deadline, f"node {victim} does not come to the end of its scrub"
            time.sleep(0.05)

    def is_offline(self, victim: int, name: str) -> bool:
        offline = self.nodes.events(victim, "partition_offline", self.started_at[victim])
        return any(each.get("partition") == name for each in offline)

    def said(self, victim: int, mark: int) -> list[str]:
        passing = {"attempt_failed", "authorizer_missing", "broker_left_unnoticed", "loop_stalled"}
        return sorted(
            {
                each["event"]
                for each in self.nodes.events(victim, since=mark)
                if each.get("level") in ("warning", "error", "critical") and each["event"] not in passing
            }
        )

    def served(self, node_ids: list[Any]) -> None:
        """These nodes give out ids, none twice, and take records."""
        for each in node_ids:
            deadline = time.monotonic() + WAIT_S
            while True:
                try:
                    given = producer_id(self.nodes.address(each, "client"))
                    break
                except (AssertionError, OSError):
                    assert time.monotonic() < deadline, f"node {each} gives out no id"
                    time.sleep(0.05)
            assert given not in self.producer_ids, f"producer id {given} was given out twice"
            self.producer_ids.add(given)
        producer = confluent_kafka.Producer(
            {"bootstrap.servers": self.nodes.bootstrap, "message.timeout.ms": 20_000, "log_level": 0}
        )
        refused: list[Any] = []

        def delivered(error: Any, message: Any) -> None:
            if error is not None:
                refused.append(error)
            elif message.topic() == COMPACTED:
                self.values[message.partition()][message.key()] = (message.offset(), message.value())
            else:
                found = self.acknowledged[message.partition()]
                assert message.offset() not in found, f"{message.offset()} was acknowledged twice"
                found[message.offset()] = message.value()

        for each in node_ids:
            for number in range(4):
                index = int(each) - 1
                producer.produce(TOPIC, os.urandom(60), partition=index, on_delivery=delivered)
                key = b"key %d" % ((self.written + number) % KEYS)
                producer.produce(COMPACTED, os.urandom(200), key, index, on_delivery=delivered)
        self.written += 1
        assert producer.flush(WAIT_S + 5) == 0
        assert not refused, f"refused: {refused[0]}"

    def checked(self) -> None:
        consumer = confluent_kafka.Consumer(
            {"bootstrap.servers": self.nodes.bootstrap, "group.id": "flips", "enable.auto.commit": False}
        )
        missing = {
            (index, at): value for index, rows in self.acknowledged.items() for at, value in rows.items()
        }
        try:
            for index in self.acknowledged:
                low, _ = consumer.get_watermark_offsets(confluent_kafka.TopicPartition(TOPIC, index), WAIT_S)
                assert low == DELETED_BEFORE, f"partition {index} begins at {low}"
            consumer.assign(
                [confluent_kafka.TopicPartition(TOPIC, index, DELETED_BEFORE) for index in self.acknowledged]
            )
            deadline = time.monotonic() + 30
            while missing:
                assert time.monotonic() < deadline, f"acknowledged and not there: {sorted(missing)[:5]}"
                for message in consumer.consume(500, 0.5):
                    at = (message.partition(), message.offset())
                    if message.error() is None and at in missing:
                        assert missing.pop(at) == message.value(), f"another record is at {at}"
            for index, values in self.values.items():
                self.checked_values(consumer, index, values)
        finally:
            consumer.close()

    def checked_values(self, consumer: Any, index: int, values: dict[bytes, tuple[int, bytes]]) -> None:
        """What a partition of COMPACTED has last of each key is what was acknowledged last."""
        partition = confluent_kafka.TopicPartition(COMPACTED, index, 0)
        _, end = consumer.get_watermark_offsets(partition, WAIT_S)
        consumer.assign([partition])
        found: dict[bytes, tuple[int, bytes]] = {}
        deadline = time.monotonic() + 30
        while values and max((row[0] for row in found.values()), default=-1) < end - 1:
            assert time.monotonic() < deadline, f"{COMPACTED}-{index} is not read to its end, {end}"
            for message in consumer.consume(500, 0.5):
                if message.error() is None:
                    found[message.key()] = (message.offset(), message.value())
        for key, row in values.items():
            assert found.get(key) == row, f"{COMPACTED}-{index}: another value is the last one of {key!r}"


@contextlib.contextmanager
def cluster(folder: Path) -> Iterator[Nodes]:
    """Three nodes, up. Their logs may say anything."""
    nodes = Nodes(create_cluster(folder / "cluster", 3, cluster_port(), SETTINGS))
    try:
        nodes.up()
        yield nodes
    finally:
        nodes.down()


def say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=300)
    parser.add_argument("--from", dest="first", type=int, default=0)
    parser.add_argument("--only", default="", help="structures with this in their names")
    chosen = parser.parse_args()
    failed, seed, end = 0, chosen.first, chosen.first + chosen.seeds
    totals: dict[str, Counter[str]] = defaultdict(Counter)
    while seed < end:  # after a failure a cluster of its own: this one may be broken for the others
        with tempfile.TemporaryDirectory() as name, cluster(Path(name)) as nodes:
            trial, fails = Trial(nodes), False
            while seed < end and not fails:
                try:
                    say(f"seed {seed}: {trial.run(seed, chosen.only)}")
                except (AssertionError, OSError) as error:
                    fails = True
                    failed += 1
                    say(f"seed {seed}: {trial.case}: FAILED: {error}")
                seed += 1
            for structure, outcomes in trial.outcomes.items():
                totals[structure] += outcomes
    for structure, outcomes in sorted(totals.items()):
        say(f"{structure}: {dict(outcomes)}")
    say(f"{chosen.seeds} cases, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
