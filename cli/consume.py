"""``fencepost consume``: the records of a topic, as they come; of all partitions, or as a member of a group.

Flags and properties are those of ``kafka-console-consumer``. Records go to stdout, the count to stderr. With
--group an offset is committed when its record has been printed, each second and before the end. It
ends after --max-messages, after --timeout-ms without a record, or when it is interrupted (130).
"""

import base64
import contextlib
import json
import sys
import time
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import IO, Any, Final

import click

from fencepost.cli.client_settings import is_true, pairs, require_known, unescaped
from fencepost.cli.output import JSON, SCHEMA_VERSION, TEXT, format_option, require_reader, while_read
from fencepost.cli.target_options import broker_options, find_brokers
from fencepost.client import CommitFailed, Consumer, ConsumerRecord, TopicPartition, UnknownTopic
from fencepost.cluster.console import Failed, WrongUsage
from fencepost.cluster.kafka_clients import CONSUMER_SETTINGS, consumer_of, run

PROPERTIES: Final = {
    "print.timestamp": "false",
    "print.partition": "false",
    "print.offset": "false",
    "print.headers": "false",
    "print.key": "false",
    "print.value": "true",
    "key.separator": "\t",
    "line.separator": "\n",
    "headers.separator": ",",
    "null.literal": "null",
}
READ_UNCOMMITTED: Final = "read_uncommitted"
ISOLATION_LEVELS: Final = (READ_UNCOMMITTED, "read_committed")
EARLIEST, LATEST = "earliest", "latest"
POLL_MS: Final = 100
RECORDS_MAX: Final = 1000  # of one poll
COMMIT_SECONDS: Final = 1.0  # between two commits of what was printed


@click.command()
@click.option("--topic", required=True)
@click.option("--partition", type=click.IntRange(0), help="Only this one.  [default: all]")
@click.option("--group", help="Join this consumer group, and commit what was printed.")
@click.option(
    "--from-beginning", is_flag=True,
    help="From the first record kept, not from now on; with --group where it committed nothing.",
)  # fmt: skip
@click.option("--offset", help="Where to begin in --partition: a number, earliest or latest.")
@click.option(
    "--isolation-level", "isolation", type=click.Choice(ISOLATION_LEVELS), default=READ_UNCOMMITTED,
    show_default=True, help="read_committed hides what is aborted, and waits for what is open.",
)  # fmt: skip
@click.option("--max-messages", type=click.IntRange(0), help="End after so many.")
@click.option("--timeout-ms", type=click.IntRange(0), help="End when no record came for so long.")
@click.option("--property", "properties", multiple=True, callback=pairs, metavar="KEY=VALUE",
              help=f"Of the output: {', '.join(PROPERTIES)}.")  # fmt: skip
@click.option("--consumer-property", "settings", multiple=True, callback=pairs, metavar="KEY=VALUE",
              help=f"Of the consumer: {', '.join(CONSUMER_SETTINGS)}.")  # fmt: skip
@broker_options
@format_option
def consume(
    topic: str,
    partition: int | None,
    group: str | None,
    from_beginning: bool,
    offset: str | None,
    isolation: str,
    max_messages: int | None,
    timeout_ms: int | None,
    properties: dict[str, str],
    settings: dict[str, str],
    output_format: str,
    **where: Any,
) -> None:
    """Print a topic's records. --format json: one document per line, bytes that are no UTF-8 in base64."""
    if offset is not None and (partition is None or from_beginning):
        raise WrongUsage("--offset needs --partition, and takes the place of --from-beginning")
    if group is not None and (partition is not None or offset is not None):
        raise WrongUsage("a group assigns partitions and knows offsets: --group goes without --partition")
    known = require_known(properties, PROPERTIES)
    begin = _begin(offset, from_beginning=from_beginning)
    target = find_brokers(**where)
    chosen = {"isolation.level": isolation, "auto.offset.reset": EARLIEST}  # of an offset that is gone
    if group is not None:
        chosen |= {"group.id": group, "auto.offset.reset": EARLIEST if from_beginning else LATEST}
    consumer = consumer_of(target, chosen | settings)
    job = Job(topic, partition, group is not None, begin, max_messages, timeout_ms, known, output_format)
    printed = Printed(consumer)
    with while_read(), _counted(printed) if output_format == TEXT else contextlib.nullcontext():
        run(target, _consume(consumer, job, printed))


@contextlib.contextmanager
def _counted(printed: "Printed") -> Iterator[None]:
    """Say how many there were, as Kafka's tool does; not where the reader left, which took what it wanted."""
    try:
        yield
    except BrokenPipeError:
        raise
    except BaseException:
        click.echo(printed.sentence, err=True)
        raise
    click.echo(printed.sentence, err=True)


@dataclass(frozen=True, slots=True)
class Job:
    """What is read, and how it is printed. ``begin``: earliest, latest or an offset; of no group."""

    topic: str
    partition: int | None
    in_group: bool
    begin: str | int
    max_messages: int | None
    timeout_ms: int | None
    properties: Mapping[str, str]
    output_format: str


@dataclass(slots=True)
class Printed:
    """What was printed of the partitions that the member has; it is committed before it loses them."""

    consumer: Consumer
    count: int = 0
    _next: dict[TopicPartition, int] = field(default_factory=dict)  # not committed yet
    _committed_at: float = field(default_factory=time.monotonic)

    @property
    def sentence(self) -> str:
        """As Kafka's console consumer says it."""
        return f"Processed a total of {self.count} messages"

    def add(self, record: ConsumerRecord) -> None:
        """One more is printed."""
        self.count += 1
        self._next[TopicPartition(record.topic, record.partition)] = record.offset + 1

    async def commit(self, *, now: bool = True) -> None:
        """Commit what was printed; not ``now``: if the last commit is old."""
        if not self._next or (not now and time.monotonic() - self._committed_at < COMMIT_SECONDS):
            return
        try:
            await self.consumer.commit(dict(self._next))
        except CommitFailed:
            return  # there is a rebalance: it says whose they are now
        self._committed_at = time.monotonic()
        self._next.clear()

    async def on_revoked(self, partitions: Sequence[TopicPartition]) -> None:
        """Implements RebalanceListener."""
        await self.commit()
        await self.on_lost(partitions)

    async def on_assigned(self, partitions: Sequence[TopicPartition]) -> None:
        """Implements RebalanceListener."""

    async def on_lost(self, partitions: Sequence[TopicPartition]) -> None:
        """Implements RebalanceListener."""
        for each in partitions:
            self._next.pop(each, None)


def _begin(offset: str | None, *, from_beginning: bool) -> str | int:
    if offset is None:
        return EARLIEST if from_beginning else LATEST
    if offset in (EARLIEST, LATEST):
        return offset
    if not offset.isdigit():
        raise WrongUsage(f"--offset: expected a number, earliest or latest, got {offset!r}")
    return int(offset)


async def _consume(consumer: Consumer, job: Job, printed: Printed) -> None:
    async with consumer:
        # Of a group, too: it would wait for a topic that is not there.
        partitions = await _partitions(consumer, job)
        if job.in_group:
            consumer.subscribe([job.topic], printed)
        else:
            await _assign(consumer, partitions, job.begin)
        try:
            async for records in _polls(consumer, job):
                _hand_on(records, job, printed)
                if job.in_group:
                    await printed.commit(now=False)
        finally:
            if job.in_group:
                await printed.commit()


def _hand_on(records: Sequence[ConsumerRecord], job: Job, printed: Printed) -> None:
    """Print them at once. Raises BrokenPipeError: their reader has left, and none of them counts."""
    written = []
    try:
        for record in records:
            _write(sys.stdout.buffer, record, job.properties, job.output_format)
            written.append(record)
    finally:
        sys.stdout.flush()
        require_reader()
        for record in written:
            printed.add(record)


async def _partitions(consumer: Consumer, job: Job) -> list[TopicPartition]:
    """Those that are read without a group. Raises Failed, WrongUsage."""
    try:
        found = await consumer.partitions_for(job.topic)
    except UnknownTopic as error:
        raise Failed(
            f"there is no topic {job.topic}; 'fencepost topics create --topic {job.topic}' makes it"
        ) from error
    if job.partition is not None and job.partition not in found:
        raise WrongUsage(
            f"{job.topic} has {len(found)} partitions, from 0 on, and no partition {job.partition}"
        )
    return [TopicPartition(job.topic, each) for each in found if job.partition in (None, each)]


async def _assign(consumer: Consumer, partitions: Sequence[TopicPartition], begin: str | int) -> None:
    consumer.assign(partitions)
    if begin == LATEST:
        await consumer.seek_to_end()
    elif begin == EARLIEST:
        await consumer.seek_to_beginning()
    else:
        for each in partitions:
            consumer.seek(each, int(begin))


async def _polls(consumer: Consumer, job: Job) -> AsyncIterator[list[ConsumerRecord]]:
    """At most so many records, and none after so long a silence."""
    left = job.max_messages
    received_at = time.monotonic()
    while left is None or left > 0:
        most = RECORDS_MAX if left is None else min(RECORDS_MAX, left)
        records = await consumer.poll(timeout_ms=POLL_MS, max_records=most)
        if records:
            received_at = time.monotonic()
            left = None if left is None else left - len(records)
        elif job.timeout_ms is not None and (time.monotonic() - received_at) * 1000 >= job.timeout_ms:
            return
        yield records


def _write(
    stdout: IO[bytes], record: ConsumerRecord, properties: Mapping[str, str], output_format: str
) -> None:
    if output_format == JSON:
        stdout.write(json.dumps(document(record)).encode() + b"\n")
    else:
        stdout.write(line(record, properties))


def document(record: ConsumerRecord) -> dict[str, Any]:
    """A record as JSON has it."""
    return {
        "schema_version": SCHEMA_VERSION,
        "topic": record.topic,
        "partition": record.partition,
        "offset": record.offset,
        "timestamp_ms": None if record.timestamp_ms < 0 else record.timestamp_ms,
        "headers": [[name.decode("utf-8", "replace"), _text(content)] for name, content in record.headers],
        "key": _text(record.key),
        "value": _text(record.value),
    }


def _text(raw: bytes | None) -> str | dict[str, str] | None:
    if raw is None:
        return None
    try:
        return str(raw, "utf-8")
    except UnicodeDecodeError:
        return {"base64": base64.b64encode(raw).decode()}


def line(record: ConsumerRecord, properties: Mapping[str, str]) -> bytes:
    """A record as kafka-console-consumer prints it."""
    null = properties["null.literal"].encode()
    parts: list[bytes] = []
    if is_true(properties["print.timestamp"]):
        name = "LogAppendTime" if record.is_append_time else "CreateTime"
        parts.append(b"NO_TIMESTAMP" if record.timestamp_ms < 0 else f"{name}:{record.timestamp_ms}".encode())
    if is_true(properties["print.partition"]):
        parts.append(f"Partition:{record.partition}".encode())
    if is_true(properties["print.offset"]):
        parts.append(f"Offset:{record.offset}".encode())
    if is_true(properties["print.headers"]):
        between = unescaped(properties["headers.separator"]).encode()
        texts = [name + b":" + (null if content is None else content) for name, content in record.headers]
        parts.append(between.join(texts) or b"NO_HEADERS")
    for wanted, raw in (("print.key", record.key), ("print.value", record.value)):
        if is_true(properties[wanted]):
            parts.append(null if raw is None else raw)
    separator, end = (unescaped(properties[key]).encode() for key in ("key.separator", "line.separator"))
    return separator.join(parts) + end
