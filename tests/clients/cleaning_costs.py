"""``make bench-cleaning-kafka``: produce beside a log cleaner that works, here and on Apache Kafka.

Each round   a compacted topic is filled with old values, not due for cleaning; a probe is produced to another
             partition of the same broker; then the topic's settings make it due, and the probe goes on until
             the log does not get smaller any more.
Cleaned      bytes that went or were read again per second, from the first time that the log got smaller to
             the last, by DescribeLogDirs; Kafka's pause before a pass is not counted.
Settings     Kafka's defaults, but for log.cleaner.backoff.ms, which is 100 on both.
"""

import statistics
import time
from typing import Final

import click
from confluent_kafka import Producer
from confluent_kafka.admin import (  # type: ignore[attr-defined]
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewTopic,
    ResourceType,
)

from fencepost.cluster.console import table
from fencepost.testing.cluster import Cluster
from tests.clients.log_sizes import log_size

VALUE: Final = b"v" * 1000
KEYS: Final = 1_000
QUIET_S: Final = 2.0  # the log was not smaller for so long: the pass is over
PASS_S_MAX: Final = 120.0
PROBE_SLICE: Final = 200
SETTINGS: Final = {
    "segment.bytes": str(1024 * 1024),
    "cleanup.policy": "compact",
    "min.cleanable.dirty.ratio": "1",
}


class Probe:
    """Records of 1,000 bytes, with acks=1, as fast as the broker takes them."""

    def __init__(self, bootstrap: str, topic: str) -> None:
        self._topic = topic
        settings = {"bootstrap.servers": bootstrap, "acks": 1, "linger.ms": 5}
        self._producer = Producer({**settings, "queue.buffering.max.messages": 20_000})
        self.count = 0

    def go_on(self, until_s: float) -> float:
        """Records per second."""
        began_s, began = time.monotonic(), self.count
        while time.monotonic() < until_s:
            for _ in range(PROBE_SLICE):
                self._producer.produce(self._topic, VALUE, on_delivery=self._counted)
            self._producer.poll(0)
            if len(self._producer) > 10_000:
                self._producer.poll(0.01)
        return (self.count - began) / (time.monotonic() - began_s)

    def end(self) -> None:
        self._producer.flush(60)

    def _counted(self, error: object, _message: object) -> None:
        self.count += error is None


def measured(bootstrap: str, name: str, megabytes: int, seconds: float) -> tuple[float, float, float]:
    """(records per second alone, beside the cleaner, MB cleaned per second)."""
    admin = AdminClient({"bootstrap.servers": bootstrap})
    dirty, probed = f"dirty-{name}", f"probe-{name}"
    created = admin.create_topics(
        [
            NewTopic(
                dirty, 1, replica_assignment=[[1]], config={**SETTINGS, "min.cleanable.dirty.ratio": "1"}
            ),
            NewTopic(probed, 1, replica_assignment=[[1]]),
        ]
    )
    for each in created.values():
        each.result(30)
    time.sleep(1)
    filler = Producer({"bootstrap.servers": bootstrap, "linger.ms": 20, "batch.size": 100_000})
    for number in range(megabytes * 1000):
        filler.produce(dirty, VALUE, key=b"%d" % (number % KEYS))
        if number % 1000 == 0:
            filler.poll(0)
            if len(filler) > 50_000:
                filler.flush(60)
    filler.flush(60)
    probe = Probe(bootstrap, probed)
    probe.go_on(time.monotonic() + seconds / 2)
    alone = probe.go_on(time.monotonic() + seconds)
    resource = ConfigResource(
        ResourceType.TOPIC,
        dirty,
        incremental_configs=[
            ConfigEntry("min.cleanable.dirty.ratio", "0.01", incremental_operation=AlterConfigOpType.SET)
        ],
    )
    before = log_size(bootstrap, 1, dirty)
    for each in admin.incremental_alter_configs([resource]).values():
        each.result(30)
    beside, cleaned = _beside(bootstrap, dirty, before, probe)
    probe.end()
    for each in admin.delete_topics([dirty, probed]).values():
        each.result(30)
    return alone, beside, cleaned


def _beside(bootstrap: str, dirty: str, before: int, probe: Probe) -> tuple[float, float]:
    """Records per second while the log gets smaller, and MB per second that went meanwhile."""
    sizes = [(time.monotonic(), before, probe.count)]
    deadline_s = time.monotonic() + PASS_S_MAX
    last_s = time.monotonic()
    while time.monotonic() < deadline_s:
        probe.go_on(time.monotonic() + 0.1)
        size = log_size(bootstrap, 1, dirty)
        if size < sizes[-1][1]:
            last_s = time.monotonic()
            sizes.append((last_s, size, probe.count))
        elif len(sizes) > 1 and time.monotonic() - last_s > QUIET_S:
            break
        elif len(sizes) == 1:
            sizes[0] = (time.monotonic(), size, probe.count)
    (first_s, first, first_count), (end_s, end, end_count) = sizes[0], sizes[-1]
    took_s = max(end_s - first_s, 0.001)
    return (end_count - first_count) / took_s, (first - end) / took_s / 1e6


@click.command()
@click.argument("peer")
@click.option("--rounds", default=3, show_default=True)
@click.option("--megabytes", default=300, show_default=True, help="Old values to be cleaned in each round.")
@click.option("--seconds", default=5.0, show_default=True, help="Of the probe alone.")
def main(peer: str, rounds: int, megabytes: int, seconds: float) -> None:
    """Measure here and on PEER in turn, and print both."""
    found: dict[str, list[tuple[float, float, float]]] = {"here": [], "Apache Kafka": []}
    with Cluster(config={"log.cleaner.backoff.ms": 100}) as cluster:
        for number in range(rounds):
            order = list(found) if number % 2 == 0 else list(reversed(found))
            for name in order:
                where = cluster.bootstrap if name == "here" else peer
                found[name].append(measured(where, str(number), megabytes, seconds))
    rows = []
    for name, of_name in found.items():
        alone, beside, cleaned = (statistics.median(column) for column in zip(*of_name, strict=True))
        ratio = statistics.median(each[1] / each[0] for each in of_name)
        rows.append((name, f"{alone:,.0f}", f"{beside:,.0f}", f"{ratio:.2f}", f"{cleaned:.1f}"))
    head = ("CLUSTER", "RECORDS/S ALONE", "BESIDE THE CLEANER", "RATIO", "MB CLEANED/S")
    click.echo(table(head, rows))


if __name__ == "__main__":
    main()
