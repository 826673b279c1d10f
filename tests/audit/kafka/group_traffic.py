"""What groups do to a broker: members that come and go, and commit offsets in transactions."""

import time
from collections.abc import Sequence
from contextlib import suppress

from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition

from tests.audit.kafka.traffic import WAIT_SECONDS, Traffic, _end


class GroupTraffic(Traffic):
    """The same broker's, with groups."""

    def loop(self, rounds: int) -> None:
        """Members read, write and commit in transactions: one alone, two, and the first one again.

        Every third transaction is aborted, and its input read again.
        """
        first, second = ((self._member("loop"), self._producer(f"loop-{number}")) for number in range(2))
        for members in ([first], [first, second], [first]):
            done = [0 for _ in members]
            deadline = time.monotonic() + 2 * WAIT_SECONDS
            while min(done) < rounds:
                if time.monotonic() > deadline:
                    raise TimeoutError(f"members made {done} transactions, expected {rounds} of each")
                for number, (consumer, producer) in enumerate(members):
                    done[number] += _copied(consumer, producer, abort=done[number] % 3 == 2)
            if members[-1] is second:
                second[0].close()
        first[0].close()

    def assigned(self, group_id: str, offsets: Sequence[int]) -> None:
        """A consumer without members of its group commits these offsets, one after the other."""
        consumer = Consumer(
            {"bootstrap.servers": self._bootstrap, "log_level": 0, "group.id": group_id,
             "enable.auto.commit": False}
        )  # fmt: skip
        consumer.assign([TopicPartition("codec-none", 0)])
        for offset in offsets:
            consumer.commit(offsets=[TopicPartition("codec-none", 0, offset)], asynchronous=False)
        consumer.close()

    def _member(self, group_id: str) -> Consumer:
        settings = {
            "bootstrap.servers": self._bootstrap,
            "log_level": 0,
            "group.id": group_id,
            "enable.auto.commit": False,
            "auto.offset.reset": "earliest",
            "isolation.level": "read_committed",
            "heartbeat.interval.ms": 300,
        }
        consumer = Consumer(settings)
        consumer.subscribe(["codec-none"])
        return consumer


def _copied(consumer: Consumer, producer: Producer, *, abort: bool) -> bool:
    """One transaction from what is there to read; whether there was anything, and it was ended as wanted."""
    messages = [each for each in consumer.consume(2, timeout=0.3) if not each.error()]
    if not messages:
        return False
    ends = {each.partition() or 0: (each.offset() or 0) + 1 for each in messages}
    begins = {each.partition() or 0: each.offset() or 0 for each in reversed(messages)}
    producer.begin_transaction()
    try:
        for each in messages:
            producer.produce("payments", each.value(), partition=each.partition() or 0)
        positions = [TopicPartition("codec-none", partition, end) for partition, end in ends.items()]
        producer.send_offsets_to_transaction(positions, consumer.consumer_group_metadata(), WAIT_SECONDS)
        _end(producer, abort=abort)
        is_ended = True
    except KafkaException as error:
        if not error.args[0].txn_requires_abort():
            raise
        _end(producer, abort=True)  # the group is at another generation now
        abort, is_ended = True, False
    if abort:
        for partition, begin in begins.items():
            with suppress(KafkaException):  # another member's by now
                consumer.seek(TopicPartition("codec-none", partition, begin))
    return is_ended
