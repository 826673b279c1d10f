"""``fencepost explain``: who holds a partition's last stable offset, and the command that ends it.

A bare argument is what the cluster has of that name: a partition if it ends in ``-NUMBER`` and there is such
a partition, a transactional id if a coordinator knows it, a producer id if it is a number. If it is two of
these, it is refused, and the options tell them apart.
Exit status  0 nothing is open, 1 something is, 2 wrong usage or two readings, 3 it could not be read, or not
             everything answered and nothing was found in the rest.
"""

import asyncio
import re
import time
from collections.abc import Awaitable
from pathlib import Path
from typing import Final, NamedTuple, NoReturn, Protocol

import click
from click.core import ParameterSource

from fencepost.cli.explain_commands import Cluster
from fencepost.cli.explain_output import BOOTSTRAP_SERVER, DIRECTORIES, advice, document, is_open, sentences
from fencepost.cli.output import JSON, echo_json, format_option
from fencepost.cli.target_options import broker_options, find_brokers
from fencepost.client.admin import Admin
from fencepost.client.errors import ClientError
from fencepost.client.explain import Explained
from fencepost.client.types import TopicPartition
from fencepost.cluster.console import Unreadable, WrongUsage
from fencepost.cluster.target import Target
from fencepost.records.printable import printable

TIMEOUT_MS: Final = 20_000
REQUEST_TIMEOUT_MS: Final = 8_000
FOUND, NOT_WHOLE = 1, 3
EXTRA: Final = frozenset({"pyarrow", "numpy"})
PARTITION, TRANSACTIONAL_ID, PRODUCER_ID = "topic-partition", "transactional-id", "producer-id"
PRODUCER_ID_MAX: Final = 2**63 - 1

_PARTITION: Final = re.compile(r"([A-Za-z0-9._-]{1,249})-(0|[1-9][0-9]{0,8})")
_NUMBER: Final = re.compile(r"0|[1-9][0-9]{0,18}")


class Subject(NamedTuple):
    """What is explained: its kind, and its name as it was typed."""

    kind: str
    name: str


@click.command()
@click.argument("name", required=False, metavar="[TOPIC-PARTITION | TRANSACTIONAL-ID | PRODUCER-ID]")
@click.option("--topic-partition", metavar="TOPIC-N", help="A partition, whatever else has that name.")
@click.option("--transactional-id", metavar="ID", help="A transactional id, whatever else has that name.")
@click.option("--producer-id", type=click.IntRange(0, PRODUCER_ID_MAX), help="A producer id.")
@click.option(
    "--logs",
    multiple=True,
    type=click.Path(exists=True),
    metavar="DIR",
    help="Read log directories instead of a running cluster; may be repeated. Needs the extra audit.",
)
@broker_options
@format_option
def explain(
    name: str | None,
    topic_partition: str | None,
    transactional_id: str | None,
    producer_id: int | None,
    logs: tuple[str, ...],
    directory: Path,
    bootstrap_server: str | None,
    command_config: Path | None,
    output_format: str,
) -> int:
    """Say who holds a last stable offset, since when, and which command ends it.

    Of a partition: where read_committed consumers stop, which transaction stops them, and what its
    coordinator has of it. Of a transactional id or a producer id: every partition on which it has a
    transaction open. It looks at a running cluster, ours or Apache Kafka from 3.0 on, or reads log
    directories with --logs, and changes nothing.

    A bare name that is two things is refused; the options say which one is meant.

    Exit status: 0 nothing is open, 1 something is, 3 it could not be read, or not everything answered.
    """
    options = {PARTITION: topic_partition, TRANSACTIONAL_ID: transactional_id, PRODUCER_ID: producer_id}
    given = [Subject(kind, str(value)) for kind, value in options.items() if value is not None]
    if len(given) + (name is not None) != 1:
        raise WrongUsage(f"expected one name, or one of {', '.join(f'--{kind}' for kind in options)}")
    if logs:
        _require_no_cluster(bootstrap_server, command_config)
        cluster = Cluster()
        source: dict[str, object] = {DIRECTORIES: [*logs]}
        subject, explained = asyncio.run(_of(_log_explainer(logs), name, given))
    else:
        target = find_brokers(directory, bootstrap_server, command_config)
        config = None if command_config is None else str(command_config)
        cluster, source = Cluster(target.name, config), {BOOTSTRAP_SERVER: target.name}
        subject, explained = asyncio.run(_ask(target, name, given))
    found = document(*subject, source, explained, cluster, _now_ms())
    if output_format == JSON:
        echo_json(found)
    else:
        for line in sentences(found):
            click.echo(printable(line))
    if is_open(explained):
        return FOUND
    return NOT_WHOLE if explained.unanswered else 0


class Explains(Protocol):
    """A running cluster, or directories."""

    async def partition(self, where: TopicPartition) -> Explained:
        """Who holds its last stable offset."""

    async def transactional_id(self, name: str) -> Explained | None:
        """What the id has open. None: it is not known."""

    async def producer_id(self, producer_id: int) -> Explained:
        """What the producer has open."""

    async def is_partition(self, where: TopicPartition) -> bool:
        """Whether it is there."""

    async def is_transactional_id(self, name: str) -> bool:
        """Whether it is known."""


def _require_no_cluster(bootstrap_server: str | None, command_config: Path | None) -> None:
    """Raises WrongUsage."""
    given = click.get_current_context().get_parameter_source("directory")
    if bootstrap_server or command_config or given is ParameterSource.COMMANDLINE:
        raise WrongUsage("expected --logs, or a cluster by --bootstrap-server or --dir")


def _log_explainer(logs: tuple[str, ...]) -> Explains:
    """Raises WrongUsage: the extra is missing."""
    try:
        from fencepost.cli.explain_logs import LogExplainer
    except ModuleNotFoundError as error:
        if error.name not in EXTRA:
            raise
        raise WrongUsage("explain --logs needs the extra: pip install 'fencepost[audit]'") from error
    return LogExplainer(logs)


async def _ask(target: Target, name: str | None, given: list[Subject]) -> tuple[Subject, Explained]:
    """Raises WrongUsage or Unreadable."""
    admin = Admin(
        target.name,
        sasl=target.sasl,
        tls=target.tls,
        request_timeout_ms=REQUEST_TIMEOUT_MS,
        api_timeout_ms=TIMEOUT_MS,
    )
    try:
        return await _of(admin.explain, name, given)  # not entered: what is refused is said at once
    except ClientError as error:
        raise Unreadable(f"{error}; {advice(error.code)}") from error
    finally:
        await admin.close()


async def _of(explainer: Explains, name: str | None, given: list[Subject]) -> tuple[Subject, Explained]:
    subject = given[0] if name is None else await _read(explainer, name)
    return subject, await _explained(explainer, subject)


async def _explained(explainer: Explains, subject: Subject) -> Explained:
    if subject.kind == PARTITION:
        return await explainer.partition(partition_of(subject.name))
    if subject.kind == PRODUCER_ID:
        return await explainer.producer_id(int(subject.name))
    explained = await explainer.transactional_id(subject.name)
    if explained is None:
        raise Unreadable(f"no coordinator knows a transactional id {subject.name!r}")
    return explained


async def _read(explainer: Explains, name: str) -> Subject:
    """What a bare name is. Raises WrongUsage: two things; Unreadable: nothing that is there."""
    readings: list[Subject] = []
    unsure: dict[str, ClientError] = {}
    if _PARTITION.fullmatch(name) and await _is(explainer.is_partition(partition_of(name)), unsure):
        readings.append(Subject(PARTITION, name))
    if _NUMBER.fullmatch(name) and int(name) <= PRODUCER_ID_MAX:
        readings.append(Subject(PRODUCER_ID, name))
    if await _is(explainer.is_transactional_id(name), unsure):
        readings.append(Subject(TRANSACTIONAL_ID, name))
    if len(readings) > 1:
        _refuse(name, readings)
    if not readings:
        reasons = [f"{said}; {advice(error.code)}" for said, error in unsure.items()]
        if reasons:
            raise Unreadable(f"what {name!r} is cannot be found out: {'. '.join(reasons)}")
        raise Unreadable(f"{name!r} is no partition, no transactional id and no producer id there")
    for each in unsure:
        click.echo(
            f"taken as a {readings[0].kind}; whether it is something else is not known: {each}", err=True
        )
    return readings[0]


async def _is(question: Awaitable[bool], unsure: dict[str, ClientError]) -> bool:
    try:
        return await question
    except ClientError as error:
        unsure[str(error)] = error
        return False


def _refuse(name: str, readings: list[Subject]) -> NoReturn:
    kinds = " and ".join(f"a {each.kind}" for each in readings)
    options = " or ".join(f"--{each.kind} {name}" for each in readings)
    raise WrongUsage(f"{name!r} is {kinds}: type {options}")


def partition_of(text: str) -> TopicPartition:
    """``orders-0``: the number is what stands behind the last dash. Raises WrongUsage."""
    matched = _PARTITION.fullmatch(text)
    if matched is None:
        raise WrongUsage(f"--{PARTITION}: expected TOPIC-NUMBER, got {text!r}")
    return TopicPartition(matched[1], int(matched[2]))


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
