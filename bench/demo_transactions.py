"""The transactional half of ``make demo``: producers that commit and abort, and a count of what is seen.

Producers   of ``fencepost.client``, each with a transactional id of its own, all on one loop. A transaction
            has RECORDS records on two partitions, so on two brokers as a rule; every ABORT_EVERY-th is
            aborted.
Counted     at the end, by a read_committed consumer that others wrote (librdkafka): a committed transaction
            is seen whole and once, an aborted one not at all. One of unknown outcome (a producer that was
            cut off while it committed) is seen whole or not at all.
"""

import asyncio
import struct
import threading
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple, Self

from confluent_kafka import KafkaException

from fencepost.client import AbortableError, ClientError, FatalError, NotReachable, Producer, RequestTimedOut
from fencepost.client.read_back import READ_COMMITTED, READ_UNCOMMITTED, NotReadToEnd, Seen, read_topic
from fencepost.client.transactional_producer import Outcome, Record
from fencepost.cluster.console import Failed, table
from fencepost.cluster.kafka_clients import explained
from fencepost.cluster.target import Target

TOPIC: Final = "demo"
PARTITIONS: Final = 3
PRODUCERS: Final = 4
RECORDS: Final = 4
ABORT_EVERY: Final = 4
READ_SECONDS_MAX: Final = 60.0
END_SECONDS_MAX: Final = 150.0
ENDS_MAX: Final = 2  # each for as long as the client waits: a minute
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
    """Producers at work, in a thread. ``with`` starts them; ``stop`` lets each end its transaction."""

    target: Target
    outcomes: dict[Name, Outcome] = field(default_factory=dict)
    _failures: list[ClientError] = field(default_factory=list)
    _crash: Exception | None = None
    _ended: threading.Event = field(default_factory=threading.Event)
    _thread: threading.Thread | None = None

    def __enter__(self) -> Self:
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()

    def stop(self) -> None:
        """Raises Failed if a producer could not go on; what ended the thread, if it is no refusal."""
        self._ended.set()
        if self._thread is not None:
            self._thread.join(END_SECONDS_MAX)
            if self._thread.is_alive():
                raise Failed(f"a transaction did not end in {END_SECONDS_MAX:.0f} s")
        if self._crash is not None:
            raise self._crash
        if self._failures:
            raise explained(self._failures[0], self.target)

    def count(self) -> Counter[Outcome]:
        """How many transactions ended how, so far."""
        return Counter(list(self.outcomes.values()))

    def _run(self) -> None:
        try:
            asyncio.run(self._work())
        except Exception as error:  # noqa: BLE001 - stop() raises it; else the run would seem complete
            self._crash = error

    async def _work(self) -> None:
        await asyncio.gather(*(self._write(number) for number in range(PRODUCERS)))

    async def _write(self, number: int) -> None:
        name = Name(number, 0)
        try:
            while not self._ended.is_set():
                async with Producer(
                    self.target.name,
                    transactional_id=f"demo-{number}",
                    sasl=self.target.sasl,
                    tls=self.target.tls,
                ) as producer:
                    name = await self._write_with(producer, name)
        except ClientError as error:
            self._failures.append(error)

    async def _write_with(self, producer: Producer, name: Name) -> Name:
        """Transactions from ``name`` on, until the producer is over. Returns the next one's name."""
        while not self._ended.is_set():
            commit = (name.transaction + 1) % ABORT_EVERY != 0
            self.outcomes[name], is_over = await _transact(producer, _records(name), commit=commit)
            name = name._replace(transaction=name.transaction + 1)
            if is_over:
                break
        return name


async def _transact(producer: Producer, records: Sequence[Record], *, commit: bool) -> tuple[Outcome, bool]:
    """One transaction: how it ended, and whether the producer can never be used again."""
    committing = False
    try:
        producer.begin_transaction()
        for record in records:
            await producer.send(record.topic, record.value, partition=record.partition)
        if commit:
            committing = True
            await _certainly(producer.commit_transaction)
            return Outcome.COMMITTED, False
        await producer.flush()  # else what is not sent is given up, and the log never sees it
    except AbortableError:
        committing = False
    except FatalError:
        return (Outcome.UNKNOWN if committing else Outcome.ABORTED), True
    try:
        await _certainly(producer.abort_transaction)
    except FatalError:
        return Outcome.ABORTED, True
    return Outcome.ABORTED, False


async def _certainly(end: Callable[[], Awaitable[None]]) -> None:
    """Repeat what has no outcome yet. Raises RequestTimedOut, NotReachable: it had none for long."""
    for attempt in range(1, ENDS_MAX + 1):
        try:
            await end()
            return
        except (RequestTimedOut, NotReachable):
            if attempt == ENDS_MAX:
                raise


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
        raise Failed(f"{target.name}: librdkafka's consumer: {error.args[0].str()}") from error
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
