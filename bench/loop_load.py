"""``python -m fencepost.bench.loop_load``: read-process-write loops of confluent-kafka, a process of its own.

Loop      a thread with a consumer of one group and a transactional producer: read a record, write one, send
          the offset with the group's metadata, commit; the libraries' settings are their defaults.
Measured  from before begin_transaction to after commit_transaction, of what lies in the window whole.
Together  all poll until each has one partition: a consumer that waits without polling holds up the rebalance
          of its group until max.poll.interval.ms. Each starts again at its partition's first record.
Verified  each record of the input that was processed is seen once, in order, by a read_committed consumer.
"""

import struct
import sys
import threading
import time
from typing import Any, Final

import msgspec
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from fencepost.bench.process import Answer, serve, write_answer
from fencepost.client.read_back import READ_COMMITTED, NotReadToEnd, read_topic

CALL_SECONDS: Final = 30.0
ASSIGNED_SECONDS_MAX: Final = 60.0
READ_SECONDS_MAX: Final = 120.0
TOPIC_SECONDS_MAX: Final = 30.0
POLL_SECONDS: Final = 0.1
RECORDS_PER_S: Final = 1_000  # of input for each loop: more than one does
VALUE_BYTES: Final = 100
_VALUE: Final = struct.Struct(">IQ")  # partition | number of the record in it
_PADDING: Final = bytes(VALUE_BYTES - _VALUE.size)


class Create(msgspec.Struct, frozen=True, tag="create"):
    """Create a topic with the cluster's default of replicas. The response is null.

    ``access``: librdkafka's settings beside its own, of a cluster that is reached by TLS or with a login.
    """

    bootstrap: str
    topic: str
    partitions: int
    access: dict[str, str] = {}


class Load(msgspec.Struct, frozen=True, tag="load", kw_only=True):
    """Run the loops for ``warm_up_s``, then ``seconds``. Answered with Looped. ``prefix``: of all names."""

    bootstrap: str
    prefix: str
    loops: int
    warm_up_s: float
    seconds: float


class Looped(msgspec.Struct, frozen=True):
    """``latencies_ns``: of each loop in the window. ``fault``: how the read-back differs, or empty."""

    latencies_ns: list[int]
    fault: str


class _Group:
    """What the loops know of each other. ``reading``: the only partition of each loop that has one."""

    def __init__(self, loops: int) -> None:
        self.loops = loops
        self.reading: dict[int, int] = {}
        self.failed = threading.Event()

    def is_whole(self) -> bool:
        """Each loop has a partition of its own."""
        return len(set(self.reading.values())) == self.loops


class _Loop(threading.Thread):
    """The thread of one loop. ``committed``: how many records it processed."""

    def __init__(self, load: Load, number: int, group: "_Group") -> None:
        super().__init__(name=f"loop-{number}", daemon=True)
        self.latencies_ns: list[int] = []
        self.committed = 0
        self.failure: Exception | None = None
        self._load = load
        self._number = number
        self._group = group
        common = {"bootstrap.servers": load.bootstrap, "log_level": 0}
        own = {"group.id": load.prefix, "enable.auto.commit": False, "auto.offset.reset": "earliest"}
        self._consumer = Consumer({**common, **own})
        self._producer = Producer({**common, "transactional.id": f"{load.prefix}-{number}"})

    def run(self) -> None:
        try:
            self._run()
        except (KafkaException, RuntimeError) as error:
            self.failure = error
            self._group.failed.set()
        finally:
            self._consumer.close()

    def _run(self) -> None:
        load, consumer = self._load, self._consumer
        self._producer.init_transactions(CALL_SECONDS)
        consumer.subscribe([input_of(load)])
        self._await_group()
        begin_ns = time.monotonic_ns() + round(load.warm_up_s * 1e9)
        end_ns = begin_ns + round(load.seconds * 1e9)
        while time.monotonic_ns() < end_ns:
            message = consumer.poll(READ_SECONDS_MAX)
            if message is None:
                raise RuntimeError(f"no record of the input came in {READ_SECONDS_MAX:.0f} s")
            if message.error():
                raise KafkaException(message.error())
            sent_ns = time.monotonic_ns()
            self._process(message)
            committed_ns = time.monotonic_ns()
            self.committed += 1
            if begin_ns <= sent_ns and committed_ns <= end_ns:
                self.latencies_ns.append(committed_ns - sent_ns)

    def _await_group(self) -> None:
        """Poll until each loop has read of the one partition that it has, and seek to the first record of it.

        Raises KafkaException, RuntimeError.
        """
        deadline = time.monotonic() + ASSIGNED_SECONDS_MAX
        while not self._group.is_whole():
            if self._group.failed.is_set():
                raise RuntimeError(f"{self.name} ended because another loop failed")
            if time.monotonic() > deadline:
                raise RuntimeError(
                    f"{self.name} waited {ASSIGNED_SECONDS_MAX:.0f} s for {self._group.loops} loops with one "
                    f"partition each; it has {len(self._consumer.assignment())}"
                )
            message = self._consumer.poll(POLL_SECONDS)
            assigned = [each.partition for each in self._consumer.assignment()]
            if len(assigned) != 1:
                self._group.reading.pop(self._number, None)
            elif message is not None and not message.error() and message.partition() == assigned[0]:
                self._group.reading[self._number] = assigned[0]
        partition = self._group.reading[self._number]
        self._consumer.seek(TopicPartition(input_of(self._load), partition, 0))

    def _process(self, message: Any) -> None:
        topic, partition, offset = message.topic(), message.partition(), message.offset()
        producer = self._producer
        producer.begin_transaction()
        producer.produce(output_of(self._load), message.value(), partition=partition)
        next_offset = TopicPartition(topic, partition, offset + 1)
        metadata = self._consumer.consumer_group_metadata()
        producer.send_offsets_to_transaction([next_offset], metadata, CALL_SECONDS)
        producer.commit_transaction(CALL_SECONDS)


def input_of(load: Load) -> str:
    """The topic that the loops read; as many partitions as loops."""
    return f"{load.prefix}-input"


def output_of(load: Load) -> str:
    """The topic that they write."""
    return f"{load.prefix}-output"


def load_cluster(load: Load) -> Looped:
    """Fill the input, run the loops, read the output. Raises KafkaException, RuntimeError."""
    for topic in (input_of(load), output_of(load)):
        create_topic(Create(load.bootstrap, topic, load.loops))
    _fill(load)
    group = _Group(load.loops)
    loops = [_Loop(load, number, group) for number in range(load.loops)]
    for each in loops:
        each.start()
    for each in loops:
        each.join()
    for each in loops:
        if each.failure is not None:
            raise each.failure
    latencies_ns = [ns for each in loops for ns in each.latencies_ns]
    return Looped(latencies_ns, difference(load, sum(each.committed for each in loops)))


def _fill(load: Load) -> None:
    producer = Producer({"bootstrap.servers": load.bootstrap, "log_level": 0})
    for number in range(round((load.warm_up_s + load.seconds) * RECORDS_PER_S)):
        for partition in range(load.loops):
            value = _VALUE.pack(partition, number) + _PADDING
            while True:
                try:
                    producer.produce(input_of(load), value, partition=partition)
                    break
                except BufferError:  # the library's queue is full: it empties while we wait
                    producer.poll(POLL_SECONDS)
    left = producer.flush(READ_SECONDS_MAX)
    if left:
        raise RuntimeError(f"{left} records of the input could not be written")


def difference(load: Load, committed: int) -> str:
    """Between what is seen and ``committed`` records from the first on, in words; empty if there is none."""
    expected = [0] * load.loops
    try:
        for record in read_topic(load.bootstrap, output_of(load), READ_COMMITTED, timeout_s=READ_SECONDS_MAX):
            partition, number = _VALUE.unpack_from(record.value)
            if partition != record.partition or number != expected[partition]:
                return (
                    f"partition {record.partition}: saw record {number} of {partition}, expected {expected}"
                )
            expected[partition] += 1
    except (NotReadToEnd, KafkaException) as error:
        return str(error)
    if sum(expected) != committed:
        return f"{committed} records were committed, {sum(expected)} are seen"
    return ""


def create_topic(create: Create) -> None:
    """Returns when each partition has a leader. Raises KafkaException, RuntimeError."""
    admin = AdminClient({"bootstrap.servers": create.bootstrap, "log_level": 0, **create.access})
    topic = NewTopic(create.topic, create.partitions)
    for future in admin.create_topics([topic], operation_timeout=TOPIC_SECONDS_MAX).values():
        future.result(TOPIC_SECONDS_MAX)
    deadline = time.monotonic() + TOPIC_SECONDS_MAX
    while time.monotonic() < deadline:
        found = admin.list_topics(create.topic, timeout=TOPIC_SECONDS_MAX).topics[create.topic].partitions
        if len(found) == create.partitions and all(each.leader >= 0 for each in found.values()):
            return
        time.sleep(POLL_SECONDS)
    raise RuntimeError(f"{create.topic} has no leaders in {TOPIC_SECONDS_MAX:.0f} s")


def main() -> None:
    """Execute commands from stdin until its end."""

    def execute(command: Create | Load) -> Looped | None:
        if isinstance(command, Load):
            return load_cluster(command)
        create_topic(command)
        return None

    try:
        serve(Create | Load, execute)
    except (KafkaException, RuntimeError) as error:
        write_answer(Answer(error=str(error)))
        sys.exit(1)


if __name__ == "__main__":
    main()
