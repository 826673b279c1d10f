"""A transactional producer that survives what a cluster does to it, for the commands that load or show one.

It is confluent-kafka's (librdkafka): what is measured and shown is what an application gets, and compression,
batching, partitioners and the retries of a transaction are not written here a second time.

Outcome     what the application may rely on. ``UNKNOWN`` only if the producer became unusable between the
            commit request and its response; all of that transaction is seen, or none of it.
"""

import enum
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, NamedTuple

from confluent_kafka import KafkaException, Producer

CALL_SECONDS: Final = 10.0  # of one call of the library; what may be repeated is repeated
PATIENCE_SECONDS: Final = 60.0
QUEUE_POLL_SECONDS: Final = 0.05


class Outcome(enum.StrEnum):
    """The outcome of a transaction, as the producer knows it."""

    COMMITTED = "committed"
    ABORTED = "aborted"
    UNKNOWN = "unknown"


class Record(NamedTuple):
    """What to produce. ``partition`` -1: the library's partitioner chooses."""

    topic: str
    value: bytes | None
    partition: int = -1
    key: bytes | None = None


class TransactionalProducer:
    """One transactional id. A call of ``write`` is one transaction; not for two threads at a time.

    Raises KafkaException when the cluster cannot be reached for ``patience_s``.
    """

    def __init__(
        self,
        bootstrap: str,
        transactional_id: str,
        settings: Mapping[str, Any] | None = None,
        *,
        patience_s: float = PATIENCE_SECONDS,
    ) -> None:
        self._settings = {
            "bootstrap.servers": bootstrap,
            "transactional.id": transactional_id,
            "log_level": 0,  # the callers stop brokers on purpose: a lost one is no news
            **(settings or {}),
        }
        self._patience_s = patience_s
        self._producer = self._new()
        self.renewals = 0  # how often the library said that a producer can never be used again

    def write(self, records: Sequence[Record], *, commit: bool = True) -> Outcome:
        """Begin, produce, and commit (or abort); returns when the coordinator has said so."""
        committing = False
        try:
            self._producer.begin_transaction()
            for record in records:
                self._produce(record)
            if commit:
                committing = True
                self._with_retries(self._producer.commit_transaction)
                return Outcome.COMMITTED
            self._flush()  # else the library throws away what it has not sent, and the log never sees it
        except KafkaException as error:
            if not error.args[0].txn_requires_abort():
                self._renew(error)
                return Outcome.UNKNOWN if committing else Outcome.ABORTED
        return self._abort(Outcome.UNKNOWN if committing else Outcome.ABORTED)

    def _abort(self, otherwise: Outcome) -> Outcome:
        try:
            self._with_retries(self._producer.abort_transaction)
        except KafkaException as error:
            self._renew(error)
            return otherwise
        return Outcome.ABORTED

    def _produce(self, record: Record) -> None:
        while True:
            try:
                if record.partition < 0:
                    self._producer.produce(record.topic, record.value, record.key)
                else:
                    self._producer.produce(record.topic, record.value, record.key, record.partition)
                return
            except BufferError:  # the library's queue is full: it empties while we wait
                self._producer.poll(QUEUE_POLL_SECONDS)

    def _flush(self) -> None:
        deadline = time.monotonic() + self._patience_s
        while self._producer.flush(CALL_SECONDS) > 0 and time.monotonic() < deadline:
            pass

    def _renew(self, error: KafkaException) -> None:
        """A new producer of the same id: its init_transactions ends what the old one left open."""
        if error.args[0].retriable():
            raise error  # the time is up, the producer is still usable
        self.renewals += 1
        self._producer = self._new()

    def _new(self) -> Producer:
        producer = Producer(self._settings)
        self._with_retries(producer.init_transactions)
        return producer

    def _with_retries(self, call: Callable[[float], None]) -> None:
        """Repeat what the library says may be repeated: it goes on where it was."""
        deadline = time.monotonic() + self._patience_s
        while True:
            try:
                return call(CALL_SECONDS)
            except KafkaException as error:
                if not error.args[0].retriable() or time.monotonic() >= deadline:
                    raise
