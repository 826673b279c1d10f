"""Kafka Streams, exactly_once_v2: two instances of two threads count words while they and nodes are killed.

Struck     in rounds, each in another order (STREAMS_SEED): an instance killed (SIGKILL); the leader, and any
           node, killed; an instance paused (SIGSTOP) for longer than its session; both instances killed, the
           state of one removed, so that its stores come back from their changelogs.
Right      the counts of each word are 1, 2, 3, ... once each, and its windows add up to the last of them.
Fetched    by Maven into .clients, once.
"""

import os
import random
import shutil
import signal
import subprocess
import time
from collections import Counter, defaultdict
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Final

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, Producer, TopicPartition

from fencepost.client.read_back import READ_COMMITTED, consumer_settings
from fencepost.records.types import NodeId
from tests.clients.players import FETCHED, HERE, copied, need
from tests.clients.stories import StoryFailed, expect
from tests.harness.nodes import Nodes, wait_for

NAME: Final = "kafka-streams"
VERSION: Final = "4.3.1"
SECONDS: Final = float(os.environ.get("STREAMS_SECONDS", "40"))
SEED: Final = int(os.environ.get("STREAMS_SEED", "1"))
STRUCK_S: Final = 3.0  # an instance or a node is away
CALM_S: Final = 5.0  # after each strike
WORDS: Final = [f"word{number}" for number in range(40)]
PARTITIONS: Final = 4
PAUSE_S: Final = 8.0  # longer than the session of Counts.java
DONE_S_MAX: Final = 300.0
STARTED_S_MAX: Final = 240.0  # two virtual machines beside other work


class Instance:
    """One process of Counts.java; its state is kept from one life to the next."""

    def __init__(self, command: list[str], folder: Path, cluster: Nodes, application: str) -> None:
        self.folder = folder
        self._command = [*command, cluster.bootstrap, application, str(folder / "state")]
        self._process: subprocess.Popen[bytes] | None = None
        folder.mkdir(parents=True)

    def start(self) -> None:
        with (self.folder / "out.txt").open("ab") as out:
            self._process = subprocess.Popen(self._command, stdout=out, stderr=out, cwd=self.folder)

    def send(self, number: signal.Signals) -> None:
        assert self._process is not None
        self._process.send_signal(number)
        if number == signal.SIGKILL:
            self._process.wait()

    def end(self) -> None:
        if self._process is not None and self._process.poll() is None:
            self._process.kill()
            self._process.wait()

    def is_running(self) -> bool:
        states = [each for each in self._lines() if each.startswith("state ")]
        return bool(states) and states[-1] == "state RUNNING"

    def _lines(self) -> list[str]:
        return (self.folder / "out.txt").read_text("utf-8", "replace").splitlines()


class Feed:
    """Lines of words, written while the story goes on."""

    def __init__(self, bootstrap: str, rng: random.Random) -> None:
        self.counts: Counter[str] = Counter()
        self._producer = Producer(
            {"bootstrap.servers": bootstrap, "enable.idempotence": True, "linger.ms": 5}
        )
        self._rng = rng

    def go_on(self, seconds: float) -> None:
        until_s = time.monotonic() + seconds
        while time.monotonic() < until_s:
            words = self._rng.choices(WORDS, k=8)
            self.counts.update(words)
            self._producer.produce("lines", " ".join(words).encode(), key=str(self._rng.random()).encode())
            self._producer.poll(0)
            time.sleep(0.005)

    def end(self) -> None:
        if self._producer.flush(60):
            raise StoryFailed("lines were not written in a minute")


def counted_once(cluster: Nodes, logs: Path) -> str:
    """Play it. Raises StoryFailed, NotHere."""
    need("java", "mvn")
    jars = copied(HERE / "streams/pom.xml", FETCHED / "streams")
    command = ["java", "-Xmx256m", "-cp", f"{jars}/*", str(HERE / "streams/Counts.java")]
    application = f"counts-{os.urandom(3).hex()}"
    for topic in ("lines", "counted", "windowed"):
        cluster.run("topics", "create", "--topic", topic, "--partitions", PARTITIONS)
    instances = [Instance(command, logs / f"{application}-{each}", cluster, application) for each in (1, 2)]
    with ExitStack() as stack:
        for each in instances:
            stack.callback(each.end)
            each.start()
        rng = random.Random(SEED)
        feed = Feed(cluster.bootstrap, rng)
        for each in instances:
            wait_for(f"Streams runs, see {each.folder}", each.is_running, STARTED_S_MAX)
        strikes = _play(cluster, instances, feed, rng)
        feed.end()
        wait_for(
            f"all is counted, see {logs}/{application}-*",
            lambda: _totals(_values(cluster.bootstrap, "counted")) == feed.counts,
            DONE_S_MAX,
        )
        times = ", ".join(f"{number} x {name}" for name, number in sorted(strikes.items()))
        return f"{_judged(cluster.bootstrap, feed.counts)}; {times}"


def _play(cluster: Nodes, instances: list[Instance], feed: Feed, rng: random.Random) -> Counter[str]:
    """Strike for so long. How often each strike fell."""
    struck: Counter[str] = Counter()
    feed.go_on(CALM_S)
    until_s = time.monotonic() + SECONDS
    while time.monotonic() < until_s:
        for name in rng.sample(sorted(STRIKES), len(STRIKES)):
            STRIKES[name](cluster, rng.sample(instances, len(instances)), feed, rng)
            struck[name] += 1
            feed.go_on(CALM_S)
    return struck


def _kill_one(_cluster: Nodes, instances: list[Instance], feed: Feed, _rng: random.Random) -> None:
    instances[0].send(signal.SIGKILL)
    feed.go_on(STRUCK_S)
    instances[0].start()


def _pause_one(_cluster: Nodes, instances: list[Instance], feed: Feed, _rng: random.Random) -> None:
    instances[0].send(signal.SIGSTOP)
    feed.go_on(PAUSE_S)
    instances[0].send(signal.SIGCONT)


def _remove_state(_cluster: Nodes, instances: list[Instance], _feed: Feed, _rng: random.Random) -> None:
    for each in instances:
        each.send(signal.SIGKILL)
    state = instances[0].folder / "state"
    if state.exists():  # it may not have come so far since the last time
        shutil.rmtree(state)
    for each in instances:
        each.start()


def _kill_leader(cluster: Nodes, _instances: list[Instance], feed: Feed, _rng: random.Random) -> None:
    _kill_node(cluster, feed, cluster.leader())


def _kill_any(cluster: Nodes, _instances: list[Instance], feed: Feed, rng: random.Random) -> None:
    _kill_node(cluster, feed, rng.choice(cluster.node_ids))


def _kill_node(cluster: Nodes, feed: Feed, node_id: NodeId) -> None:
    cluster.kill(node_id)
    feed.go_on(STRUCK_S)
    cluster.start(node_id)


STRIKES: Final = {
    "instance killed": _kill_one,
    "instance paused": _pause_one,
    "leader killed": _kill_leader,
    "node killed": _kill_any,
    "state removed": _remove_state,
}


def _judged(bootstrap: str, expected: Counter[str]) -> str:
    found = _values(bootstrap, "counted")
    for word, counts in found.items():
        if counts != list(range(1, expected[word] + 1)):
            wrong = next((number, each) for number, each in enumerate(counts, start=1) if number != each)
            raise StoryFailed(f"{word}: count number {wrong[0]} is {wrong[1]}, of {expected[word]}")
    windows: Counter[str] = Counter()
    for window, counts in _values(bootstrap, "windowed").items():
        expect(f"counts of window {window}", counts, list(range(1, len(counts) + 1)))
        windows[window.split()[0]] += counts[-1]
    expect("the sums of windows", windows, expected)
    return f"{expected.total()} words of {len(expected)}, each counted once, in all and by windows"


def _totals(found: dict[str, list[int]]) -> Counter[str]:
    return Counter({word: counts[-1] for word, counts in found.items()})


def _values(bootstrap: str, topic: str) -> dict[str, list[int]]:
    """The numbers of each key, in the order in which a read_committed consumer gets them."""
    found: defaultdict[str, list[int]] = defaultdict(list)
    for record in _records(bootstrap, topic):
        found[record.key().decode()].append(int.from_bytes(record.value(), "big"))
    return found


def _records(bootstrap: str, topic: str) -> list[Any]:
    consumer = Consumer(consumer_settings(bootstrap, READ_COMMITTED))
    consumer.assign([TopicPartition(topic, each, OFFSET_BEGINNING) for each in range(PARTITIONS)])
    ended: set[int | None] = set()
    found = []
    try:
        while len(ended) < PARTITIONS:
            for message in consumer.consume(1000, 1.0):
                error = message.error()
                if error is None:
                    found.append(message)
                elif error.code() == KafkaError._PARTITION_EOF:
                    ended.add(message.partition())
    finally:
        consumer.close()
    return found


SCENARIOS: Final = {"two instances count words while all is killed": counted_once}
