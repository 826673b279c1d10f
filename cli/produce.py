"""``fencepost produce``: lines of standard input become records; in one transaction, if an id is given.

Flags and properties are those of ``kafka-console-producer``, and --partition, --transactional-id, --abort.
Exit status  1: refused, or a line could not be read; 3: the outcome of some records is unknown. Interrupted
             (130), a transaction is aborted.
"""

import asyncio
import contextlib
import sys
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Protocol

import click

from fencepost.cli.client_settings import is_true, pairs, require_known, unescaped
from fencepost.cli.output import JSON, echo_json, format_option
from fencepost.cli.target_options import broker_options, find_brokers
from fencepost.client import ClientError, NotReachable, Producer, RecordMetadata, Refused, RequestTimedOut
from fencepost.cluster.console import Failed, WrongUsage
from fencepost.cluster.kafka_clients import CALL_SECONDS, PRODUCER_SETTINGS, explained, producer_of, run
from fencepost.cluster.target import Target

PROPERTIES: Final = {
    "parse.key": "false",
    "key.separator": "\t",
    "parse.headers": "false",
    "headers.delimiter": "\t",
    "headers.separator": ",",
    "headers.key.separator": ":",
    "ignore.error": "false",
    "null.marker": "",
}
COMPRESSIONS: Final = ("none", "gzip", "snappy", "lz4", "zstd")
PATIENCE_SECONDS: Final = 60.0
CALLS_MAX: Final = round(PATIENCE_SECONDS / CALL_SECONDS)
CHUNK_BYTES: Final = 64 * 1024  # of standard input, read at once
CHUNKS_MAX: Final = 4  # that are read and not sent
COMMITTED: Final = "committed"
ABORTED: Final = "aborted"


@dataclass(frozen=True, slots=True)
class Line:
    """A line of input, as a record."""

    value: bytes | None
    key: bytes | None = None
    headers: tuple[tuple[bytes, bytes | None], ...] = ()


@dataclass(slots=True)
class Delivered:
    """What the brokers said of the records so far."""

    count: int = 0
    failures: list[BaseException] = field(default_factory=list)

    def on_delivery(self, written: "asyncio.Future[RecordMetadata]") -> None:
        """Count one record, whose outcome is known."""
        error = asyncio.CancelledError() if written.cancelled() else written.exception()
        if error is None:
            self.count += 1
        else:
            self.failures.append(error)


@dataclass(frozen=True, slots=True)
class Job:
    """What is written where. ``properties``: of the lines."""

    topic: str
    partition: int | None
    in_transaction: bool
    abort: bool
    properties: Mapping[str, str]


@click.command()
@click.option("--topic", required=True)
@click.option("--partition", type=click.IntRange(0), help="All records go there.  [default: by key]")
@click.option("--transactional-id", help="All of the input is one transaction of this producer.")
@click.option("--abort", is_flag=True, help="Abort the transaction in the end, instead of committing it.")
@click.option("--property", "properties", multiple=True, callback=pairs, metavar="KEY=VALUE",
              help=f"Of the lines: {', '.join(PROPERTIES)}.")  # fmt: skip
@click.option("--producer-property", "settings", multiple=True, callback=pairs, metavar="KEY=VALUE",
              help=f"Of the producer: {', '.join(PRODUCER_SETTINGS)}.")  # fmt: skip
@click.option(
    "--compression-codec", "compression", type=click.Choice(COMPRESSIONS), is_flag=False, flag_value="gzip",
    help="gzip, if no codec is named.",
)  # fmt: skip
@click.option(
    "--request-required-acks",
    "acks",
    type=click.Choice(("-1", "all", "0", "1")),
    help="Whatever is given, the answer is awaited, and a record is written once.",
)
@broker_options
@format_option
def produce(
    topic: str,
    partition: int | None,
    transactional_id: str | None,
    abort: bool,
    properties: dict[str, str],
    settings: dict[str, str],
    compression: str | None,
    acks: str | None,
    output_format: str,
    **where: Any,
) -> None:
    """Produce each line of standard input as a record."""
    if abort and transactional_id is None:
        raise WrongUsage("--abort needs --transactional-id")
    target = find_brokers(**where)
    known = require_known(properties, PROPERTIES)
    chosen = {"compression.type": compression, "acks": acks, "transactional.id": transactional_id}
    given = {key: value for key, value in chosen.items() if value is not None}
    producer = producer_of(target, given | settings)
    delivered = Delivered()
    job = Job(topic, partition, "transactional.id" in given | settings, abort, known)
    outcome = run(target, _produce(producer, job, delivered))
    if delivered.failures:
        click.echo(f"{delivered.count} records were produced, {len(delivered.failures)} not", err=True)
        raise _reason(delivered.failures[0], target)
    if output_format == JSON:
        echo_json({"topic": topic, "records": delivered.count, "transaction": outcome})
    else:
        click.echo(f"{delivered.count} records to {topic}" + (f", {outcome}" if outcome else ""))


def _reason(failure: BaseException, target: Target) -> BaseException:
    return explained(failure, target) if isinstance(failure, ClientError) else failure


async def _produce(producer: Producer, job: Job, delivered: Delivered) -> str | None:
    """Returns how the transaction ended, if there is one."""
    async with producer:
        partitions = await producer.partitions_for(job.topic)
        if job.partition is not None and job.partition not in partitions:
            raise WrongUsage(
                f"{job.topic} has {len(partitions)} partitions, from 0 on, and no partition {job.partition}"
            )
        if job.in_transaction:
            return await _in_a_transaction(producer, job, delivered)
        await _send(producer, job, delivered)
        return None


async def _in_a_transaction(producer: Producer, job: Job, delivered: Delivered) -> str:
    """Returns how it ended. An error or an interrupt on the way aborts it, and goes on its way."""
    producer.begin_transaction()
    try:
        await _send(producer, job, delivered)
        if not delivered.failures and not job.abort:
            await _repeat(producer.commit_transaction)
            return COMMITTED
    except BaseException:
        with contextlib.suppress(ClientError):
            await _repeat(producer.abort_transaction)
        raise
    await _repeat(producer.abort_transaction)
    return ABORTED


async def _repeat(call: Callable[[], Awaitable[None]]) -> None:
    """Call again while the outcome is not known."""
    for attempt in range(1, CALLS_MAX + 1):
        try:
            await call()
            return
        except (RequestTimedOut, NotReachable):
            if attempt == CALLS_MAX:
                raise


async def _send(producer: Producer, job: Job, delivered: Delivered) -> None:
    """Returns when every record is written, or has failed; none is sent after a refused one."""
    number = 0
    try:
        async for lines in _chunks():
            for raw in lines:
                number += 1
                record = parse_line(raw.removesuffix(b"\r"), number, job.properties)
                written = await producer.send(
                    job.topic,
                    record.value,
                    key=record.key,
                    partition=job.partition,
                    headers=record.headers,
                )
                written.add_done_callback(delivered.on_delivery)
    except Refused as error:
        delivered.failures.append(error)
    except Failed:
        await producer.flush()  # the lines before it
        raise
    await producer.flush()


class _Readable(Protocol):
    def read(self, size: int, /) -> bytes | None: ...


async def _chunks() -> AsyncIterator[list[bytes]]:
    """The lines of standard input, as they come: reading waits, so a thread does it.

    What buffers standard input is left alone: that thread may still wait for a line when the command ends.
    """
    queue: asyncio.Queue[list[bytes] | None] = asyncio.Queue()
    room = threading.Semaphore(CHUNKS_MAX)
    loop = asyncio.get_running_loop()

    def hand_over(lines: list[bytes] | None) -> None:
        room.acquire()
        loop.call_soon_threadsafe(queue.put_nowait, lines)

    def read() -> None:
        with contextlib.suppress(RuntimeError):  # the loop is closed: the command has ended
            _read(getattr(sys.stdin.buffer, "raw", sys.stdin.buffer), hand_over)

    threading.Thread(target=read, daemon=True, name="standard input").start()
    while (lines := await queue.get()) is not None:
        yield lines
        room.release()


def _read(stream: _Readable, hand_over: Callable[[list[bytes] | None], None]) -> None:
    """Give the lines of ``stream`` as they are complete, and None at its end."""
    begun: list[bytes] = []  # of a line
    while chunk := stream.read(CHUNK_BYTES):
        complete, newline, rest = chunk.rpartition(b"\n")
        if newline:
            hand_over(b"".join((*begun, complete)).split(b"\n"))
            begun = [rest] if rest else []
        else:
            begun.append(chunk)
    if begun:
        hand_over([b"".join(begun)])
    hand_over(None)


def parse_line(line: bytes, number: int, properties: Mapping[str, str]) -> Line:
    """[headers DELIMITER] [key SEPARATOR] value, as kafka-console-producer reads it. Raises Failed."""
    ignores = is_true(properties["ignore.error"])
    marker = properties["null.marker"].encode()
    headers: tuple[tuple[bytes, bytes | None], ...] = ()
    key: bytes | None = None
    if is_true(properties["parse.headers"]):
        delimiter = unescaped(properties["headers.delimiter"]).encode()
        head, found, rest = line.partition(delimiter)
        if found:
            headers, line = _headers(head, number, properties, marker), rest
        elif not ignores:
            raise Failed(f"line {number}: no headers delimiter {delimiter!r}")
    if is_true(properties["parse.key"]):
        separator = unescaped(properties["key.separator"]).encode()
        head, found, rest = line.partition(separator)
        if found:
            key, line = _or_null(head, marker), rest
        elif not ignores:
            raise Failed(f"line {number}: no key separator {separator!r}")
    return Line(_or_null(line, marker), key, headers)


def _headers(
    head: bytes, number: int, properties: Mapping[str, str], marker: bytes
) -> tuple[tuple[bytes, bytes | None], ...]:
    between = unescaped(properties["headers.separator"]).encode()
    after_key = unescaped(properties["headers.key.separator"]).encode()
    found = []
    for header in head.split(between):
        key, separator, value = header.partition(after_key)
        if not separator and not is_true(properties["ignore.error"]):
            raise Failed(f"line {number}: no header key separator {after_key!r} in {header!r}")
        found.append((key, _or_null(value, marker)))
    return tuple(found)


def _or_null(value: bytes, marker: bytes) -> bytes | None:
    return None if marker and value == marker else value
