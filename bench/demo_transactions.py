"""The transactional half of ``make demo``: producers that commit and abort, and a count of what is seen.

Producers   real ones (confluent-kafka), each a thread with a transactional id of its own. A transaction has
            RECORDS records on two partitions, so on two brokers as a rule; every ABORT_EVERY-th is aborted.
Counted     by a read_committed consumer at the end: a committed transaction is seen whole and once, an
            aborted one not at all. One of unknown outcome (a producer that was cut off while it committed) is
            seen whole or not at all.
"""

import struct
import threading
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple, Self

from confluent_kafka import KafkaException

from fencepost.client.read_back import READ_COMMITTED, READ_UNCOMMITTED, NotReadToEnd, Seen, read_topic
from fencepost.client.transactional_producer import Outcome, Record, TransactionalProducer
from fencepost.cluster.console import Failed, table
from fencepost.cluster.librdkafka import explained
from fencepost.cluster.target import Target

TOPIC: Final = "demo"
PARTITIONS: Final = 3
PRODUCERS: Final = 4
RECORDS: Final = 4
ABORT_EVERY: Final = 4
READ_SECONDS_MAX: Final = 60.0
END_SECONDS_MAX: Final = 120.0
_VALUE: Final = struct.Struct(">III")  # producer, transaction, record


class Name(NamedTuple):
    """A transaction: its producer, and its number there."""

    producer: int
    transaction: int


@dataclass(frozen=True, slots=True)
class Verdict:
    """``faults``: one sentence per transaction that is not seen as it ended. ``hidden``: aborted records."""

    ended: Counter[Outcome]
    seen: Counter[Outcome]  # transactions that are seen whole, by how they ended
    hidden: int
    faults: Sequence[str]

    def lines(self) -> str:
        """How many transactions ended how, and how many of those are seen whole."""
        rows = [(outcome.value, self.ended[outcome], self.seen[outcome]) for outcome in Outcome]
        return table(("TRANSACTIONS", "ENDED SO", "SEEN"), rows)


@dataclass(slots=True)
class Writers:
    """Producers at work. ``with`` starts them; ``stop`` lets each end its transaction."""

    target: Target
    outcomes: dict[Name, Outcome] = field(default_factory=dict)
    _failures: list[KafkaException] = field(default_factory=list)
    _ended: threading.Event = field(default_factory=threading.Event)
    _threads: list[threading.Thread] = field(default_factory=list)

    def __enter__(self) -> Self:
        for number in range(PRODUCERS):
            thread = threading.Thread(target=self._write, args=(number,), daemon=True)
            self._threads.append(thread)
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()

    def stop(self) -> None:
        """Raises Failed: a producer could not go on."""
        self._ended.set()
        for thread in self._threads:
            thread.join(END_SECONDS_MAX)
        if self._failures:
            raise Failed(str(explained(self._failures[0].args[0], self.target)))
        if any(thread.is_alive() for thread in self._threads):
            raise Failed(f"a transaction did not end in {END_SECONDS_MAX:.0f} s")

    def count(self) -> Counter[Outcome]:
        """How many transactions ended how, so far."""
        return Counter(list(self.outcomes.values()))

    def _write(self, number: int) -> None:
        try:
            producer = TransactionalProducer(self.target.name, f"demo-{number}")
            transaction = 0
            while not self._ended.is_set():
                name = Name(number, transaction)
                commit = (transaction + 1) % ABORT_EVERY != 0
                self.outcomes[name] = producer.write(_records(name), commit=commit)
                transaction += 1
        except KafkaException as error:
            self._failures.append(error)


def _records(name: Name) -> list[Record]:
    first = name.producer + name.transaction
    return [
        Record(TOPIC, _VALUE.pack(*name, each), (first + each % 2) % PARTITIONS) for each in range(RECORDS)
    ]


def check(target: Target, outcomes: Mapping[Name, Outcome]) -> Verdict:
    """Read everything back, and hold it against how the transactions ended. Raises Failed."""
    try:
        seen = list(read_topic(target.name, TOPIC, READ_COMMITTED, timeout_s=READ_SECONDS_MAX))
        everything = sum(
            1 for _ in read_topic(target.name, TOPIC, READ_UNCOMMITTED, timeout_s=READ_SECONDS_MAX)
        )
    except NotReadToEnd as error:
        raise Failed(f"a read_committed consumer does not reach the end: {error}") from error
    except KafkaException as error:
        raise Failed(str(explained(error.args[0], target))) from error
    return judge(outcomes, seen, hidden=everything - len(seen))


def judge(outcomes: Mapping[Name, Outcome], seen: Sequence[Seen], *, hidden: int) -> Verdict:
    """What is seen against what ended how."""
    found: dict[Name, Counter[int]] = {}
    for record in seen:
        producer, transaction, number = _VALUE.unpack(record.value)
        found.setdefault(Name(producer, transaction), Counter())[number] += 1
    whole = Counter(range(RECORDS))
    faults = [
        f"transaction {name.transaction} of producer {name.producer} is seen, and never ended"
        for name in sorted(found.keys() - outcomes.keys())
    ]
    counted: Counter[Outcome] = Counter()
    for name, outcome in sorted(outcomes.items()):
        records = found.get(name, Counter())
        counted[outcome] += records == whole
        may_be_whole, may_be_missing = outcome is not Outcome.ABORTED, outcome is not Outcome.COMMITTED
        if not (may_be_whole and records == whole) and not (may_be_missing and not records):
            faults.append(
                f"transaction {name.transaction} of producer {name.producer} was {outcome.value}, and of its "
                f"{RECORDS} records {records.total()} are seen"
            )
    return Verdict(Counter(outcomes.values()), counted, hidden, faults)
