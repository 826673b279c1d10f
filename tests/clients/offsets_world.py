"""Offsets of groups in every shape that ``__consumer_offsets-0`` may hold: plain, of transactions, forgotten.

Shapes      committed twice, with a text; by members that are there and by one that left; in a transaction
            that was committed, aborted, is open; overtaken by a plain commit; forgotten as offset, with its
            group, with its topic, by its own retention time; of a group deleted under an open transaction.
"""

import time
from datetime import timedelta
from typing import Any, Final

import confluent_kafka
from confluent_kafka import TopicPartition
from kio.schema.offset_commit.v4 import request as commit_v4
from kio.schema.types import GroupId, TopicName
from kio.static.primitive import i32, i64, i64Timedelta

from tests.harness.nodes import Nodes, wait_for
from tests.processes.raw_client import RawClient

CALL_SECONDS: Final = 60.0
PARTITIONS: Final = 3
RECORDS: Final = 9  # of each partition
RETENTION: Final = timedelta(milliseconds=1)
OPEN_MS: Final = 600_000  # of the transaction that stays open
CLIENT_ID: Final = "archived-app"
INSTANCE_ID: Final = "blue"
CHECK: Final = "offsets.retention.check.interval.ms=500"
"""A setting that the cluster of a world needs: what expires is forgotten soon."""

COMMITTED: Final = {
    "plain": {0: 4, 1: 2},
    "joined": {0: 5, 1: 6, 2: 7},
    "left": {2: 8},
    "committed": {0: 5},
    "aborted": {0: 1},
    "open": {0: 1},
    "overtaken": {0: 3},
    "forgotten": {1: 2},
}
"""By the last part of a group's name: what is committed in the end. Of the other groups nothing is."""
PENDING: Final = {"open": frozenset({0, 1})}
GONE: Final = ("deleted", "expired", "bereft")


class World:
    """Groups ``NAME-SHAPE`` of one topic, ``NAME``. ``close`` it: members and a transaction are open."""

    def __init__(self, cluster: Nodes, name: str) -> None:
        self._cluster = cluster
        self._settings = {"bootstrap.servers": cluster.bootstrap, "log_level": 0}
        self.name = name
        self._members: list[Any] = []
        self._open: Any = None
        for topic in (name, f"{name}-gone"):
            cluster.run("topics", "create", "--topic", topic, "--partitions", PARTITIONS)
        produce(cluster.bootstrap, name)
        self._play()

    def group(self, shape: str) -> str:
        """The group of that shape."""
        return f"{self.name}-{shape}"

    def commit_open(self) -> None:
        """The transaction that was left open is committed."""
        self._open.commit_transaction(CALL_SECONDS)
        self._open = None

    def close(self) -> None:
        """Members leave, the open transaction is aborted."""
        for member in self._members:
            member.close()
        if self._open is not None:
            self._open.abort_transaction(CALL_SECONDS)

    def _play(self) -> None:
        self._commit("plain", {0: 3, 1: 2})
        self._commit("plain", {0: 4}, text="half")
        self._join()
        member = self._member("left")
        wait_for("a member has partitions", lambda: member.poll(0.1) is not None or member.assignment())
        member.commit(offsets=self._places({2: 8}), asynchronous=False)
        member.close()
        for shape, ends in (("committed", 5), ("aborted", 6)):
            self._commit(shape, {0: 1})
            producer = self._sends(shape, {0: ends})
            (producer.commit_transaction if shape == "committed" else producer.abort_transaction)(
                CALL_SECONDS
            )
        self._commit("open", {0: 1})
        self._open = self._sends("open", {0: 7, 1: 2})
        producer = self._sends("overtaken", {0: 5})
        self._commit("overtaken", {0: 3})
        producer.commit_transaction(CALL_SECONDS)
        self._commit("forgotten", {0: 3, 1: 2})
        delete = ("groups", "delete-offsets", "--group", self.group("forgotten"), "--topic", f"{self.name}:0")
        self._cluster.run(*delete)
        self._commit("deleted", {0: 3})
        producer = self._sends("deleted", {1: 4})
        self._cluster.run("groups", "delete", "--group", self.group("deleted"))
        producer.commit_transaction(CALL_SECONDS)
        self._commit("bereft", {0: 3}, topic=f"{self.name}-gone")
        self._cluster.run("topics", "delete", "--topic", f"{self.name}-gone")
        self._expire()
        wait_for("what is gone is forgotten", self._is_forgotten)

    def _join(self) -> None:
        """A dynamic member and a static one share the partitions, and stay."""
        self._members = [self._member("joined"), self._member("joined", instance=INSTANCE_ID)]
        until = time.monotonic() + CALL_SECONDS
        while sorted(len(each.assignment()) for each in self._members) != [1, 2]:
            assert time.monotonic() < until, "two members do not share the partitions"
            for member in self._members:
                member.poll(0.1)
        for member in self._members:
            owned = {each.partition: COMMITTED["joined"][each.partition] for each in member.assignment()}
            member.commit(offsets=self._places(owned), asynchronous=False)

    def _member(self, shape: str, instance: str | None = None) -> Any:
        static = {} if instance is None else {"group.instance.id": instance}
        reader: Any = self._consumer(shape, static)
        reader.subscribe([self.name])
        return reader

    def _consumer(self, shape: str, more: dict[str, str]) -> Any:
        return confluent_kafka.Consumer(
            {
                **self._settings,
                "group.id": self.group(shape),
                "client.id": CLIENT_ID,
                "enable.auto.commit": False,
                "auto.offset.reset": "earliest",
                **more,
            }
        )

    def _commit(self, shape: str, offsets: dict[int, int], text: str = "", topic: str | None = None) -> None:
        reader = self._consumer(shape, {})
        reader.commit(offsets=self._places(offsets, text, topic), asynchronous=False)
        reader.close()

    def _places(self, offsets: dict[int, int], text: str = "", topic: str | None = None) -> list[Any]:
        where = self.name if topic is None else topic
        return [
            TopicPartition(where, index, offset, metadata=text, leader_epoch=0)
            for index, offset in offsets.items()
        ]

    def _sends(self, shape: str, offsets: dict[int, int]) -> Any:
        """A producer with an open transaction that has these offsets."""
        producer: Any = confluent_kafka.Producer(
            {**self._settings, "transactional.id": self.group(shape), "transaction.timeout.ms": OPEN_MS}
        )
        producer.init_transactions(CALL_SECONDS)
        producer.begin_transaction()
        reader = self._consumer(shape, {})
        metadata = reader.consumer_group_metadata()
        producer.send_offsets_to_transaction(self._places(offsets), metadata, CALL_SECONDS)
        reader.close()
        return producer

    def _expire(self) -> None:
        """OffsetCommit 4 says how long the offset is kept."""
        partition = commit_v4.OffsetCommitRequestPartition(
            partition_index=i32(0), committed_offset=i64(3), committed_metadata=""
        )
        topic = commit_v4.OffsetCommitRequestTopic(name=TopicName(self.name), partitions=(partition,))
        request = commit_v4.OffsetCommitRequest(
            group_id=GroupId(self.group("expired")),
            member_id="",
            retention_time=i64Timedelta.parse(RETENTION),
            topics=(topic,),
        )
        with RawClient(self._cluster.address(self._cluster.leader(), "client")) as client:
            answer = client.call(request)
        assert int(answer.topics[0].partitions[0].error_code) == 0, answer

    def _is_forgotten(self) -> bool:
        listed = {row["group"] for row in self._cluster.read("groups", "list")}
        return not listed & {self.group(each) for each in GONE}


def produce(bootstrap: str, topic: str) -> None:
    """RECORDS to each partition."""
    producer = confluent_kafka.Producer({"bootstrap.servers": bootstrap, "log_level": 0})
    for index in range(PARTITIONS):
        for number in range(RECORDS):
            producer.produce(topic, b"%d" % number, partition=index)
    assert producer.flush(CALL_SECONDS) == 0
