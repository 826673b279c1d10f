"""What three brokers go through while clients write: acts in an order by chance, then copies, then the end.

Acts      a clean restart, kill -9 of a coordinator with its open transactions, a replica that moves to
          another node and leaves a stray one behind, one that moves to another directory, records deleted,
          a topic deleted and made again, an unclean election, metadata until snapshots are taken.
Copied    while all of it still writes, in an order by chance; and once more when all nodes are stopped.
The end   one node is killed while a producer that waits for its leader alone writes, and stays down;
          a transaction is left open; the other two are stopped.
"""

import contextlib
import shutil
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from random import Random
from typing import Final

import click
from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import NewTopic  # type: ignore[attr-defined]
from kafka import KafkaAdminClient
from kafka import TopicPartition as Partition

from tests.audit.kafka.copying import copy_running
from tests.audit.kafka.three import Three, until, until_done
from tests.audit.kafka.traffic import WAIT_SECONDS, Traffic
from tests.audit.kafka.writers import PARTITIONS, Writers

WARM_SECONDS: Final = 6.0
BETWEEN_SECONDS: Final = 2.0
DOWN_SECONDS: Final = 3.0
LAST_SECONDS: Final = 4.0  # of two nodes, after the third's death
COORDINATORS: Final = {
    "segment.ms": "3000",
    "min.compaction.lag.ms": "60000",
    "max.compaction.lag.ms": "62000",
}
"""Of their logs: the last minute is whole, what came before is compacted."""

SETTINGS_CHANGED: Final = 12

_ROLLED: Final = {"segment.ms": "3000", "file.delete.delay.ms": "1000"}
TOPICS: Final[Mapping[str, dict[str, str]]] = {
    "orders": {},
    "invoices": {},
    "payments": {"min.insync.replicas": "2"},
    "compacted": {
        "cleanup.policy": "compact",
        "segment.ms": "2500",
        "min.cleanable.dirty.ratio": "0.01",
        "max.compaction.lag.ms": "1000",
        "file.delete.delay.ms": "2000",
        "delete.retention.ms": "0",
    },
    "compacted-kept": {  # its markers and tombstones stay for a day
        "cleanup.policy": "compact",
        "segment.ms": "2500",
        "min.cleanable.dirty.ratio": "0.01",
        "max.compaction.lag.ms": "1000",
        "file.delete.delay.ms": "2000",
    },
    "short": {**_ROLLED, "retention.ms": "4000"},
    "trimmed": _ROLLED,
    "plain": {},
}
WRITTEN: Final = tuple(each for each in TOPICS if each != "plain")
PLACED: Final[Mapping[str, Sequence[int]]] = {
    "moved": (1, 2),
    "stray": (3, 1),
    "unclean": (1, 2),
    "dirs": (2, 3),
}
"""Topics of one partition, and their nodes."""


class Life:
    """One cluster's."""

    def __init__(self, cluster: Three, seed: int) -> None:
        self._cluster = cluster
        self._random = Random(seed)
        self._traffic = Traffic(cluster.bootstrap, replicas=3)
        self._acts: list[Callable[[], None]] = [
            self.restart, self.kill_coordinator, self.move, self.change_directory, self.trim,
            self.make_again, self.elect_uncleanly, self.settings,
        ]  # fmt: skip

    def live(self, seconds: float, writers: Writers, copies: Path) -> None:
        """All of it; the nodes are stopped at the end, ``copies`` has ``running`` and ``stopped``."""
        self._random.shuffle(self._acts)
        began = time.monotonic()
        time.sleep(WARM_SECONDS)
        until_done(lambda: self._traffic.wear(COORDINATORS), "coordinators' topics")
        for act in self._acts:
            act()
            click.echo(f"  {time.monotonic() - began:4.0f} s: {act.__name__}; transactions {writers.done}")
            time.sleep(BETWEEN_SECONDS)
        while time.monotonic() - began < seconds:
            time.sleep(0.5)
        vanished = copy_running(self._logs(), copies / "running", self._random)
        click.echo(
            f"  {time.monotonic() - began:4.0f} s: copied while it ran; {vanished} files were gone meanwhile"
        )
        self._end(writers)
        for node_id, logs in self._logs().items():
            shutil.copytree(logs, copies / "stopped" / str(node_id))

    def make_topics(self) -> None:
        self._traffic.make_topics(TOPICS, PARTITIONS)
        self._traffic._producer("first")  # kafka-python waits for ever where there is no coordinator yet
        self._traffic.make_topics({"again": {}})
        wanted = [
            NewTopic(name, 1, replica_assignment=[list(nodes)], config=self._settings_of(name))
            for name, nodes in PLACED.items()
        ]
        for each in self._cluster.admin.create_topics(wanted).values():
            each.result(WAIT_SECONDS)

    def restart(self) -> None:
        """SIGTERM, and up again."""
        node = self._cluster.nodes[self._random.choice([*self._cluster.nodes])]
        node.stop()
        time.sleep(DOWN_SECONDS)
        node.start()
        self._cluster.await_in_sync()

    def kill_coordinator(self) -> None:
        """kill -9 of a node that leads a partition of __transaction_state: another ends what it had begun."""
        node = self._cluster.nodes[self._cluster.leader("__transaction_state", self._random.randrange(4))]
        node.kill()
        time.sleep(DOWN_SECONDS)
        node.start()
        self._cluster.await_in_sync()

    def move(self) -> None:
        """A replica moves from node 1 to node 3 while node 1 is down: node 1 keeps a stray one."""
        self._write("moved")
        self._write("stray")
        self._cluster.nodes[1].stop()
        admin = self._kafka_admin()
        admin.alter_partition_reassignments({Partition("moved", 0): [3, 2], Partition("stray", 0): [3, 2]})
        until(lambda: not admin.list_partition_reassignments() or None, "reassigned")
        admin.close()
        self._write("moved")
        self._write("stray")
        self._cluster.nodes[1].start()
        self._cluster.await_in_sync()

    def change_directory(self) -> None:
        """A replica moves to the other directory of its node."""
        self._write("dirs")
        node = self._cluster.nodes[2]
        (here,) = [each.parent for each in node.logs.glob("*/dirs-0")]
        (other,) = [each for each in node.logs.iterdir() if each.is_dir() and each != here]
        admin = self._kafka_admin()
        admin.alter_replica_log_dirs({("dirs", 0, 2): str(other)})
        admin.close()
        self._write("dirs")
        until(lambda: (other / "dirs-0").exists() or None, "moved to another directory")
        self._write("dirs")

    def trim(self) -> None:
        """Records before an offset are deleted, on a partition with transactions."""
        end = self._end_offset("trimmed", 0)
        deleted = self._cluster.admin.delete_records([TopicPartition("trimmed", 0, end * 2 // 3)])
        for each in deleted.values():
            each.result(WAIT_SECONDS)

    def make_again(self) -> None:
        """A topic is deleted while producers know it, and another one of its name made."""
        self._traffic.deleted_and_made_again()

    def elect_uncleanly(self) -> None:
        """What node 1 alone had, of transactions that the coordinator committed, is cut off when 2 leads."""
        first, second = self._cluster.nodes[1], self._cluster.nodes[2]
        self._write("unclean")
        second.kill()
        until(lambda: self._in_sync("unclean") == [1] or None, "node 2 is out of sync")
        for _ in range(3):
            self._write("unclean")
        first.kill()
        second.start()
        until(lambda: self._cluster.leader("unclean", 0) == 2 or None, "node 2 leads")
        self._write("unclean")
        first.start()
        self._cluster.await_in_sync()
        self._write("unclean")

    def settings(self) -> None:
        """Metadata, until snapshots of it are taken."""
        self._traffic.settings(SETTINGS_CHANGED)

    def _end(self, writers: Writers) -> None:
        dead = self._random.choice([*self._cluster.nodes])
        self._cluster.nodes[dead].kill()
        time.sleep(LAST_SECONDS)
        with contextlib.suppress(Exception):  # without its coordinator: then none is open
            self._traffic.left_open()
        writers.stop()
        self._cluster.stop_all()
        click.echo(f"  node {dead} was killed {LAST_SECONDS:.0f} s before the others were stopped")

    def _write(self, topic: str) -> None:
        """Two transactions, of which one is aborted; one that fails is left to the next producer."""
        for abort in (False, True):
            until_done(partial(self._transaction, topic, abort=abort), f"written to {topic}")

    def _transaction(self, topic: str, *, abort: bool) -> None:
        producer = self._traffic._producer(f"places-{topic}")
        producer.begin_transaction()
        producer.produce(topic, b"value", partition=0)
        producer.flush(WAIT_SECONDS)
        if abort:
            producer.abort_transaction(WAIT_SECONDS)
        else:
            producer.commit_transaction(WAIT_SECONDS)

    def _in_sync(self, topic: str) -> list[int]:
        return list(self._cluster.admin.list_topics(topic, timeout=5).topics[topic].partitions[0].isrs)

    def _end_offset(self, topic: str, partition: int) -> int:
        consumer = Consumer({"bootstrap.servers": self._cluster.bootstrap, "group.id": "-", "log_level": 0})
        try:
            return int(
                consumer.get_watermark_offsets(TopicPartition(topic, partition), timeout=WAIT_SECONDS)[1]
            )
        finally:
            consumer.close()

    def _kafka_admin(self) -> KafkaAdminClient:
        alive = [each.bootstrap for each in self._cluster.nodes.values() if not each.has_ended()]
        return KafkaAdminClient(bootstrap_servers=alive)

    def _logs(self) -> dict[int, Path]:
        return {node_id: node.logs for node_id, node in self._cluster.nodes.items()}

    @staticmethod
    def _settings_of(topic: str) -> dict[str, str]:
        is_unclean = topic == "unclean"
        return {"unclean.leader.election.enable": "true", "min.insync.replicas": "1"} if is_unclean else {}
