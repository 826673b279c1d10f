"""``fencepost produce``: lines of standard input become records; in one transaction, if an id is given.

Flags and properties are those of ``kafka-console-producer``, and --partition, --transactional-id, --abort.
Exit status  1: refused, or a line could not be read; 3: the outcome of some records is unknown. Interrupted
             (130), a transaction is aborted.
"""

import contextlib
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import click
from confluent_kafka import KafkaError, KafkaException, Message, Producer

from fencepost.cli.client_settings import is_true, pairs, require_known, unescaped
from fencepost.cli.output import JSON, echo_json, format_option
from fencepost.cli.target_options import broker_options, find_brokers
from fencepost.client.transactional_producer import PATIENCE_SECONDS
from fencepost.cluster.console import Failed, WrongUsage
from fencepost.cluster.librdkafka import explained, partitions_of, settings_of
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
CALL_SECONDS: Final = 10.0
QUEUE_POLL_SECONDS: Final = 0.1
CALLS_MAX: Final = round(PATIENCE_SECONDS / CALL_SECONDS)
ANY_PARTITION: Final = -1  # librdkafka's partitioner chooses
COMMITTED: Final = "committed"
ABORTED: Final = "aborted"


@dataclass(frozen=True, slots=True)
class Line:
    """A line of input, as a record."""

    value: bytes | None
    key: bytes | None = None
    headers: tuple[tuple[str, bytes | None], ...] = ()


@dataclass(slots=True)
class Delivered:
    """What the brokers said of the records so far."""

    count: int = 0
    failures: list[KafkaError] = field(default_factory=list)

    def on_delivery(self, error: KafkaError | None, message: Message) -> None:
        """Count one record: librdkafka's delivery report."""
        if error is None:
            self.count += 1
        else:
            self.failures.append(error)


@click.command()
@click.option("--topic", required=True)
@click.option("--partition", type=click.IntRange(0), help="All records go there.  [default: by key]")
@click.option("--transactional-id", help="All of the input is one transaction of this producer.")
@click.option("--abort", is_flag=True, help="Abort the transaction in the end, instead of committing it.")
@click.option("--property", "properties", multiple=True, callback=pairs, metavar="KEY=VALUE",
              help=f"Of the lines: {', '.join(PROPERTIES)}.")  # fmt: skip
@click.option("--producer-property", "settings", multiple=True, callback=pairs, metavar="KEY=VALUE",
              help="A setting of librdkafka, such as linger.ms=50.")  # fmt: skip
@click.option(
    "--compression-codec", "compression", type=click.Choice(COMPRESSIONS), is_flag=False, flag_value="gzip",
    help="gzip, if no codec is named.",
)  # fmt: skip
@click.option("--request-required-acks", "acks", type=click.Choice(("-1", "all", "0", "1")), help="acks.")
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
    try:
        producer = Producer({**settings_of(target), **given, **settings})
    except KafkaException as error:
        raise WrongUsage(f"--producer-property: {error.args[0].str()}") from error
    _require_partition(partitions_of(producer, topic, target), topic, partition)
    delivered = Delivered()
    outcome: str | None = None
    with _errors_explained(target):
        records = _records(known)
        if transactional_id is None:
            _send(producer, topic, partition, records, delivered)
        else:
            outcome = _in_a_transaction(producer, topic, partition, records, delivered, abort=abort)
    if delivered.failures:
        click.echo(f"{delivered.count} records were produced, {len(delivered.failures)} not", err=True)
        raise explained(delivered.failures[0], target)
    if output_format == JSON:
        echo_json({"topic": topic, "records": delivered.count, "transaction": outcome})
    else:
        click.echo(f"{delivered.count} records to {topic}" + (f", {outcome}" if outcome else ""))


def _require_partition(partitions: list[int], topic: str, wanted: int | None) -> None:
    if wanted is not None and partitions and wanted not in partitions:
        raise WrongUsage(f"{topic} has {len(partitions)} partitions, from 0 on, and no partition {wanted}")


def _in_a_transaction(
    producer: Producer,
    topic: str,
    partition: int | None,
    records: Iterator[Line],
    delivered: Delivered,
    *,
    abort: bool,
) -> str:
    """Returns how it ended. An error or an interrupt on the way aborts it, and goes on its way."""
    _repeat(producer.init_transactions)
    producer.begin_transaction()
    try:
        _send(producer, topic, partition, records, delivered)
        if not delivered.failures and not abort:
            _repeat(producer.commit_transaction)
            return COMMITTED
    except BaseException:
        with contextlib.suppress(KafkaException):
            _repeat(producer.abort_transaction)
        raise
    _repeat(producer.abort_transaction)
    return ABORTED


def _repeat(call: Any) -> None:
    """Call again what librdkafka says may be called again."""
    for attempt in range(1, CALLS_MAX + 1):
        try:
            call(CALL_SECONDS)
            return
        except KafkaException as error:
            if not error.args[0].retriable() or attempt == CALLS_MAX:
                raise


def _send(
    producer: Producer, topic: str, partition: int | None, records: Iterator[Line], delivered: Delivered
) -> None:
    """Returns when every record is delivered, or has failed."""
    for record in records:
        while True:
            try:
                producer.produce(
                    topic,
                    record.value,
                    record.key,
                    ANY_PARTITION if partition is None else partition,
                    headers=list(record.headers),
                    on_delivery=delivered.on_delivery,
                )
                break
            except BufferError:  # the library's queue is full
                producer.poll(QUEUE_POLL_SECONDS)
        producer.poll(0)
    while producer.flush(QUEUE_POLL_SECONDS):  # in slices, so that Ctrl-C interrupts it
        pass


def _records(properties: Mapping[str, str]) -> Iterator[Line]:
    """The records of standard input. Raises Failed: a line lacks what the properties say it has."""
    for number, line in enumerate(sys.stdin.buffer, 1):
        yield parse_line(line.removesuffix(b"\n").removesuffix(b"\r"), number, properties)


def parse_line(line: bytes, number: int, properties: Mapping[str, str]) -> Line:
    """[headers DELIMITER] [key SEPARATOR] value, as kafka-console-producer reads it. Raises Failed."""
    ignores = is_true(properties["ignore.error"])
    marker = properties["null.marker"].encode()
    headers: tuple[tuple[str, bytes | None], ...] = ()
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
) -> tuple[tuple[str, bytes | None], ...]:
    between = unescaped(properties["headers.separator"]).encode()
    after_key = unescaped(properties["headers.key.separator"]).encode()
    found = []
    for header in head.split(between):
        key, separator, value = header.partition(after_key)
        if not separator and not is_true(properties["ignore.error"]):
            raise Failed(f"line {number}: no header key separator {after_key!r} in {header!r}")
        found.append((key.decode("utf-8", "replace"), _or_null(value, marker)))
    return tuple(found)


def _or_null(value: bytes, marker: bytes) -> bytes | None:
    return None if marker and value == marker else value


@contextlib.contextmanager
def _errors_explained(target: Target) -> Iterator[None]:
    try:
        yield
    except KafkaException as error:
        raise explained(error.args[0], target) from error
