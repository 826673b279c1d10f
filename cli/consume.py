"""``fencepost consume``: the records of a topic, as they come; of all partitions, or as a member of a group.

Flags and properties are those of ``kafka-console-consumer``. Records go to stdout, the count to stderr. With
--group an offset is committed when its record has been printed, by librdkafka, at the latest at the end. It
ends after --max-messages, after --timeout-ms without a record, or when it is interrupted (130).
"""

import base64
import contextlib
import json
import sys
import time
from collections.abc import Iterator, Mapping
from typing import IO, Any, Final

import click
from confluent_kafka import (
    OFFSET_BEGINNING,
    OFFSET_END,
    TIMESTAMP_LOG_APPEND_TIME,
    TIMESTAMP_NOT_AVAILABLE,
    Consumer,
    KafkaError,
    KafkaException,
    Message,
    TopicPartition,
)

from fencepost.cli.client_settings import is_true, pairs, require_known, unescaped
from fencepost.cli.output import JSON, format_option
from fencepost.cli.target_options import broker_options, find_brokers
from fencepost.client.read_back import GROUP_ID, ISOLATION_LEVELS, PASSING, READ_UNCOMMITTED
from fencepost.cluster.console import WrongUsage
from fencepost.cluster.librdkafka import explained, partitions_of, settings_of
from fencepost.cluster.target import Target

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
POLL_SECONDS: Final = 0.1
BATCH_MAX: Final = 1000


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
              help="A setting of librdkafka, such as fetch.wait.max.ms=50.")  # fmt: skip
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
    membership = {} if group is None else _membership(group, from_beginning=from_beginning)
    consumer = _consumer(target, isolation, membership | settings)
    count = 0
    stdout = sys.stdout.buffer
    try:
        with _errors_explained(target):
            if group is None:
                _assign(consumer, target, topic, partition, begin)
            else:
                partitions_of(consumer, topic, target)  # or a group would wait for a topic that is not there
                consumer.subscribe([topic])
            for message in _messages(consumer, max_messages, timeout_ms):
                _write(stdout, message, known, output_format)
                if group is not None:
                    consumer.store_offsets(message)
                count += 1
    finally:
        consumer.close()
        stdout.flush()
        click.echo(f"Processed a total of {count} messages", err=True)


def _begin(offset: str | None, *, from_beginning: bool) -> int:
    named = {"earliest": OFFSET_BEGINNING, "latest": OFFSET_END}
    if offset is None:
        return OFFSET_BEGINNING if from_beginning else OFFSET_END
    if offset in named:
        return named[offset]
    if not offset.isdigit():
        raise WrongUsage(f"--offset: expected a number, earliest or latest, got {offset!r}")
    return int(offset)


def _membership(group: str, *, from_beginning: bool) -> dict[str, Any]:
    """Settings of a member. What librdkafka hands out is not printed yet: it stores no offset by itself."""
    return {
        "group.id": group,
        "enable.auto.commit": True,
        "enable.auto.offset.store": False,
        "auto.offset.reset": "earliest" if from_beginning else "latest",
    }


def _consumer(target: Target, isolation: str, settings: Mapping[str, Any]) -> Consumer:
    fixed = {
        "group.id": GROUP_ID,  # librdkafka wants one; nothing is ever committed for it
        "enable.auto.commit": False,
        "auto.offset.reset": "earliest",  # of an offset that is gone already
        "isolation.level": isolation,
    }
    try:
        return Consumer({**settings_of(target), **fixed, **settings})
    except KafkaException as error:
        raise WrongUsage(f"--consumer-property: {error.args[0].str()}") from error


def _assign(consumer: Consumer, target: Target, topic: str, partition: int | None, begin: int) -> None:
    partitions = partitions_of(consumer, topic, target)
    if partition is not None and partition not in partitions:
        raise WrongUsage(f"{topic} has {len(partitions)} partitions, from 0 on, and no partition {partition}")
    wanted = partitions if partition is None else [partition]
    consumer.assign([TopicPartition(topic, each, begin) for each in wanted])


def _messages(consumer: Consumer, max_messages: int | None, timeout_ms: int | None) -> Iterator[Message]:
    """At most so many, and none after so long a silence. Raises KafkaException."""
    left = max_messages
    received_at = time.monotonic()
    while left is None or left > 0:
        batch = consumer.consume(BATCH_MAX if left is None else min(BATCH_MAX, left), POLL_SECONDS)
        for message in batch:
            error = message.error()
            if error is None:
                received_at = time.monotonic()
                left = None if left is None else left - 1
                yield message
            elif error.code() not in PASSING and error.code() != KafkaError._PARTITION_EOF:
                raise KafkaException(error)
        if timeout_ms is not None and (time.monotonic() - received_at) * 1000 >= timeout_ms:
            return


def _write(stdout: IO[bytes], message: Message, properties: Mapping[str, str], output_format: str) -> None:
    if output_format == JSON:
        stdout.write(json.dumps(document(message)).encode() + b"\n")
    else:
        stdout.write(line(message, properties))
    if stdout.isatty():
        stdout.flush()


def document(message: Message) -> dict[str, Any]:
    """A record as JSON has it."""
    kind, timestamp_ms = message.timestamp()
    headers: Any = message.headers() or ()
    return {
        "topic": message.topic(),
        "partition": message.partition(),
        "offset": message.offset(),
        "timestamp_ms": None if kind == TIMESTAMP_NOT_AVAILABLE else timestamp_ms,
        "headers": [[key, _text(value)] for key, value in headers],
        "key": _text(message.key()),
        "value": _text(message.value()),
    }


def _text(raw: bytes | None) -> str | dict[str, str] | None:
    if raw is None:
        return None
    try:
        return str(raw, "utf-8")
    except UnicodeDecodeError:
        return {"base64": base64.b64encode(raw).decode()}


def line(message: Message, properties: Mapping[str, str]) -> bytes:
    """A record as kafka-console-consumer prints it."""
    null = properties["null.literal"].encode()
    parts: list[bytes] = []
    if is_true(properties["print.timestamp"]):
        kind, timestamp_ms = message.timestamp()
        name = "LogAppendTime" if kind == TIMESTAMP_LOG_APPEND_TIME else "CreateTime"
        parts.append(
            b"NO_TIMESTAMP" if kind == TIMESTAMP_NOT_AVAILABLE else f"{name}:{timestamp_ms}".encode()
        )
    if is_true(properties["print.partition"]):
        parts.append(f"Partition:{message.partition()}".encode())
    if is_true(properties["print.offset"]):
        parts.append(f"Offset:{message.offset()}".encode())
    if is_true(properties["print.headers"]):
        between = unescaped(properties["headers.separator"]).encode()
        headers: Any = message.headers() or ()
        texts = [key.encode() + b":" + (null if value is None else bytes(value)) for key, value in headers]
        parts.append(between.join(texts) or b"NO_HEADERS")
    for wanted, raw in (("print.key", message.key()), ("print.value", message.value())):
        if is_true(properties[wanted]):
            parts.append(null if raw is None else raw)
    separator, end = (unescaped(properties[key]).encode() for key in ("key.separator", "line.separator"))
    return separator.join(parts) + end


@contextlib.contextmanager
def _errors_explained(target: Target) -> Iterator[None]:
    try:
        yield
    except KafkaException as error:
        raise explained(error.args[0], target) from error
