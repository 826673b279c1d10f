"""The producer of one input topic: numbered records, each number once in its partition, whatever fails.

Idempotent, or (``transactional_id`` given) in transactions of which some are aborted. A record of unknown
outcome is never sent again. What is acknowledged or committed is in the history.
"""

from typing import Any, Final

import confluent_kafka
from confluent_kafka import KafkaException

from tests.checker.history import History
from tests.checker.settings import CLIENT, Part, until_terminated

TICK_SECONDS: Final = 0.1
CALL_SECONDS: Final = 5.0
CALLS_MAX: Final = 20
TRANSACTION_TIMEOUT_MS: Final = 10_000
END_SECONDS_MAX: Final = 30.0


class Source:
    """Producers of one topic, one after the other: one that cannot go on is replaced."""

    def __init__(self, part: Part, history: History) -> None:
        self._part = part
        self._history = history
        self._random = part.random
        self._next = [0] * len(part.partitions)
        self._delivered: list[tuple[str, int, int, int]] = []
        self._producer: Any = None

    def send(self) -> None:
        """A tick's records."""
        if self._producer is None:
            self._producer = self._made()
        try:
            if self._part.transactional_id is None:
                self._produce()
                self._producer.poll(0)
                self._acknowledge()
            else:
                self._transact()
        except KafkaException as failed:
            self._history.write("source_failed", source=self._part.name, error=str(failed))
            if not failed.args[0].txn_requires_abort() or not self._aborted():
                self._producer = None
        except BufferError:
            self._producer.poll(TICK_SECONDS)

    def end(self) -> None:
        """Wait for the last ones."""
        if self._producer is not None:
            self._producer.flush(END_SECONDS_MAX)
            if self._part.transactional_id is None:
                self._acknowledge()

    def _transact(self) -> None:
        self._delivered = []
        self._producer.begin_transaction()
        self._produce()
        if self._random.random() < self._part.abort_rate:
            self._call(self._producer.abort_transaction)
        else:
            self._call(self._producer.commit_transaction)
            self._acknowledge()

    def _produce(self) -> None:
        for _ in range(max(1, round(self._part.records_per_second * TICK_SECONDS))):
            place = self._random.randrange(len(self._next))
            topic, partition = self._part.partitions[place]
            number = self._next[place]
            self._next[place] += 1

            def delivered(error: Any, message: Any, number: int = number) -> None:
                if error is None:
                    row = (message.topic(), message.partition(), message.offset(), number)
                    self._delivered.append(row)

            key = f"{topic}-{partition}"
            self._producer.produce(topic, str(number), key, partition=partition, on_delivery=delivered)

    def _acknowledge(self) -> None:
        if self._delivered:
            self._history.write("inputs_acknowledged", inputs=self._delivered)
            self._delivered = []

    def _aborted(self) -> bool:
        try:
            self._call(self._producer.abort_transaction)
        except KafkaException:
            return False
        return True

    def _call(self, call: Any) -> None:
        for left in range(CALLS_MAX, 0, -1):
            try:
                call(CALL_SECONDS)
            except KafkaException as failed:
                if left == 1 or not failed.args[0].retriable():
                    raise
            else:
                return

    def _made(self) -> Any:
        settings: dict[str, Any] = {"enable.idempotence": True}
        if self._part.transactional_id is not None:
            settings = {
                "transactional.id": self._part.transactional_id,
                "transaction.timeout.ms": TRANSACTION_TIMEOUT_MS,
            }
        made = confluent_kafka.Producer(
            {"bootstrap.servers": self._part.bootstrap, **CLIENT, "linger.ms": 1, **settings}
        )
        if self._part.transactional_id is not None:
            self._call(made.init_transactions)
        return made


def main() -> None:
    """Until SIGTERM."""
    part = Part.of_command_line()
    ended = until_terminated()
    source = Source(part, History(part.path, part.name))
    while not ended.wait(TICK_SECONDS):
        source.send()
    source.end()


if __name__ == "__main__":
    main()
