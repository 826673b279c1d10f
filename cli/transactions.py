"""``fencepost transactions``: what is known of transactions, and how to end one.

Verbs, flags and columns are those of ``kafka-transactions`` (docs/kafka-notes.md H2). The proposals'
spellings are understood, too: ``forceTerminateTransaction --transactionalId`` and
``--runningLongerThanMs``. As with Kafka's tool, where the cluster is may be said before the verb.
Exit status  of find-hanging: 1 if a hanging transaction was found.
"""

import functools
import time
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any, Final, TypeVar

import click

from fencepost.cli.output import JSON, Command, echo_json, format_option
from fencepost.cli.target_options import broker_options, find_brokers
from fencepost.cli.transaction_calls import (
    describe_transaction,
    force_terminate,
    list_set_aside,
    list_transactions,
)
from fencepost.cli.transaction_output import (
    LISTED,
    LISTED_TWO_PHASE,
    description,
    description_lines,
    is_two_phase,
    listed,
    print_rows,
    sentence,
    set_aside_row,
    set_aside_sentence,
    termination,
)
from fencepost.cli.transaction_partitions import (
    Search,
    abort_marker,
    admins_marker,
    find_hanging,
    producers_of,
    write_marker,
)
from fencepost.cluster.brokers import Brokers, run
from fencepost.cluster.console import Unreadable, WrongUsage
from fencepost.cluster.target import Target
from fencepost.controller.transactions.describe import ListTransactions
from fencepost.records.printable import printable
from fencepost.records.types import ProducerId
from fencepost.wire.connection import ConnectionLost, RequestTimeout
from fencepost.wire.k20066_list_set_aside import SetAside, SetAsideList

R = TypeVar("R")

MINUTE_MS: Final = 60_000
UNLED_NAMED_MAX: Final = 5  # partitions named in one message
MAX_TRANSACTION_TIMEOUT_MINUTES: Final = 15  # transaction.max.timeout.ms by default
EVERY_DURATION: Final = -1
LONG_RUNNING: Final = (
    "--running-longer-than-ms",
    "--runningLongerThanMs",
    "--duration-filter",
)
_ALIASES: Final = {"forceTerminateTransaction": "force-terminate"}


class _Verbs(click.Group):
    """Knows the proposals' names of the verbs, too."""

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        return super().get_command(ctx, _ALIASES.get(cmd_name, cmd_name))


@click.group(cls=_Verbs)
@click.option("--bootstrap-server", help="HOST:PORT[,..] of brokers; here or after the verb.")
@click.option("--command-config", type=click.Path(path_type=Path), hidden=True)
@click.pass_context
def transactions(
    context: click.Context, /, bootstrap_server: str | None, command_config: Path | None
) -> None:
    """Transactions: list, describe, and end those that hang."""
    context.obj = {"bootstrap_server": bootstrap_server, "command_config": command_config}


def _cluster_options(command: Callable[..., R]) -> Callable[..., R]:
    """Add ``broker_options``; the command gets the ``target`` they name, here or before the verb."""

    @functools.wraps(command)
    def with_target(
        directory: Path, bootstrap_server: str | None, command_config: Path | None, **options: Any
    ) -> R:
        earlier = click.get_current_context().obj or {}
        target = find_brokers(
            directory,
            bootstrap_server or earlier.get("bootstrap_server"),
            command_config or earlier.get("command_config"),
        )
        return command(target=target, **options)

    return broker_options(with_target)


def _transactional_id_option(command: Command) -> Command:
    return click.option(
        "--transactional-id", "--transactionalId", "transactional_id", required=True, help="Which one."
    )(command)


_dry_run_option: Final = click.option(
    "--dry-run", is_flag=True, help="Say what would be done, and do nothing."
)


@transactions.command("list")
@click.option(
    *LONG_RUNNING,
    "duration_ms",
    type=int,
    default=EVERY_DURATION,
    help="Only transactions that are open for longer, in milliseconds; below 0: all.",
)
@click.option("--transactional-id-pattern", "pattern", help="Only ids that match this RE2 expression whole.")
@click.option(
    "--state", "states", multiple=True, help="Only in this state, such as Ongoing; may be repeated."
)
@click.option(
    "--producer-id", "producer_ids", type=int, multiple=True, help="Only this one's; may be repeated."
)
@click.option(
    "--two-phase",
    is_flag=True,
    help="Only open transactions of two-phase commit and such as a new instance keeps; and for how long.",
)
@_cluster_options
@format_option
def list_(
    target: Target,
    duration_ms: int,
    pattern: str | None,
    states: tuple[str, ...],
    producer_ids: tuple[int, ...],
    two_phase: bool,
    output_format: str,
) -> None:
    """List transactional ids: their coordinator, producer id and state.

    JSON, and text with --two-phase, has TwoPhaseOpenMs, in JSON two_phase_open_ms: for how long a transaction
    of two-phase commit is open, which has no timeout. And IsKept: a new instance is to end what one before it
    left open. Brokers of Apache Kafka say neither.
    """
    request = ListTransactions(
        states,
        tuple(ProducerId(each) for each in producer_ids),
        max(duration_ms, EVERY_DURATION),
        pattern,
    )
    found = run(target, lambda brokers: list_transactions(brokers, request))
    rows = [listed(each) for each in found if not two_phase or is_two_phase(each)]
    print_rows("transactions", LISTED_TWO_PHASE if two_phase else LISTED, rows, output_format)


@transactions.command()
@_transactional_id_option
@_cluster_options
@format_option
def describe(target: Target, transactional_id: str, output_format: str) -> None:
    """Describe the transaction of one id, and say why it is where it is.

    TopicPartitions of a transaction that is ending are those that still lack their marker.
    """
    described = run(target, lambda brokers: describe_transaction(brokers, transactional_id))
    now_ms = _now_ms()
    row = description(described, now_ms=now_ms)
    if output_format == JSON:
        echo_json(row)
        return
    for line in description_lines(row, now_ms):
        click.echo(line)


@transactions.command("describe-producers")
@click.option("--topic", required=True)
@click.option("--partition", type=click.IntRange(0), required=True)
@click.option("--broker-id", type=int, help="Ask this broker instead of the partition's leader.")
@_cluster_options
@format_option
def describe_producers(
    target: Target, topic: str, partition: int, broker_id: int | None, output_format: str
) -> None:
    """Describe the producers that a partition remembers."""
    rows = [
        {
            "ProducerId": each.producer_id,
            "ProducerEpoch": each.producer_epoch,
            "LatestCoordinatorEpoch": each.coordinator_epoch,
            "LastSequence": each.last_sequence,
            "LastTimestamp": each.last_timestamp,
            "CurrentTransactionStartOffset": _or_none(each.current_txn_start_offset),
        }
        for each in run(target, lambda brokers: producers_of(brokers, topic, partition, broker_id))
    ]
    columns = (
        "ProducerId",
        "ProducerEpoch",
        "LatestCoordinatorEpoch",
        "LastSequence",
        "LastTimestamp",
        "CurrentTransactionStartOffset",
    )
    print_rows("producers", columns, rows, output_format)


@transactions.command("find-hanging")
@click.option("--broker-id", type=int, help="Only partitions with a replica on this broker.")
@click.option(
    "--max-transaction-timeout",
    "minutes",
    type=click.IntRange(0),
    default=MAX_TRANSACTION_TIMEOUT_MINUTES,
    show_default=True,
    help="Minutes of silence after which an open transaction is looked at.",
)
@click.option("--topic", help="Only this topic.  [default: all]")
@click.option("--partition", type=click.IntRange(0), help="Only this partition of the topic.")
@_cluster_options
@format_option
def find_hanging_(
    target: Target,
    broker_id: int | None,
    minutes: int,
    topic: str | None,
    partition: int | None,
    output_format: str,
) -> int:
    """Find transactions that are open on a partition and that no coordinator will ever end.

    Also what the coordinator set aside: transactions that are wedged, as a partition refuses their marker,
    and rows whose timers fail.

    Exit status 1: there are some. 'abort --topic --partition --start-offset' ends one that hangs,
    'force-terminate' one that is wedged. 3: partitions have no leader, so what is open on them is not known.
    """
    if partition is not None and topic is None:
        raise WrongUsage("--partition needs --topic")
    now_ms = _now_ms()
    find = functools.partial(
        find_hanging,
        topic=topic,
        partition=partition,
        broker_id=broker_id,
        idle_ms_max=minutes * MINUTE_MS,
        now_ms=now_ms,
    )
    (found, unled), set_aside, unanswered = run(target, lambda brokers: _search(brokers, find))
    aside = [each for each in set_aside.rows if _is_of(each, topic, partition)]
    rows = [
        {
            "Topic": each.topic,
            "Partition": each.partition,
            "ProducerId": each.producer.producer_id,
            "ProducerEpoch": each.producer.producer_epoch,
            "CoordinatorEpoch": each.producer.coordinator_epoch,
            "StartOffset": each.producer.current_txn_start_offset,
            "LastTimestamp": each.producer.last_timestamp,
            "Duration(min)": (now_ms - each.producer.last_timestamp) // MINUTE_MS,
        }
        for each in found
    ]
    columns = ("Topic", "Partition", "ProducerId", "ProducerEpoch", "CoordinatorEpoch", "StartOffset")
    if output_format == JSON:
        echo_json({"hanging": rows, "set_aside": [set_aside_row(each) for each in aside]})
    else:
        print_rows("hanging", (*columns, "LastTimestamp", "Duration(min)"), rows, output_format)
        for each in aside:
            click.echo(printable(set_aside_sentence(each, now_ms=now_ms)))
    _require_all_seen(unled, unanswered)
    return 1 if found or aside else 0


async def _search(
    brokers: Brokers, find: Callable[[Brokers], Awaitable[Search]]
) -> tuple[Search, SetAsideList, str]:
    """What hangs, what is set aside, and why nothing is known of the former: no broker answers."""
    set_aside = await list_set_aside(brokers)
    try:
        return await find(brokers), set_aside, ""
    except (ConnectionLost, RequestTimeout) as error:
        if not set_aside.rows:
            raise
        return Search([], []), set_aside, str(error)


def _require_all_seen(unled: Sequence[tuple[str, int]], unanswered: str) -> None:
    """Raises Unreadable if there are partitions of which nothing is known."""
    if unanswered:
        raise Unreadable(f"partitions were not looked at: {unanswered}; start their brokers, and look again")
    if unled:
        named = ", ".join(f"{name}-{index}" for name, index in unled[:UNLED_NAMED_MAX])
        more = f" and {len(unled) - UNLED_NAMED_MAX} more" if len(unled) > UNLED_NAMED_MAX else ""
        raise Unreadable(
            f"not looked at, as they have no leader: {named}{more}; start their brokers, and look again"
        )


def _is_of(row: SetAside, topic: str | None, partition: int | None) -> bool:
    """The row is in the scope of the options; one without a partition is, unless a topic is named."""
    named, _, index = row.partition.rpartition("-")
    return topic in (None, named) and (partition is None or str(partition) == index)


@transactions.command()
@click.option("--topic", required=True)
@click.option("--partition", type=click.IntRange(0), required=True)
@click.option("--start-offset", type=click.IntRange(0), help="Where the transaction begins.")
@click.option("--producer-id", type=int, help="With the next two, instead of --start-offset.")
@click.option("--producer-epoch", type=int)
@click.option("--coordinator-epoch", type=int)
@_dry_run_option
@_cluster_options
@format_option
def abort(
    target: Target,
    topic: str,
    partition: int,
    start_offset: int | None,
    producer_id: int | None,
    producer_epoch: int | None,
    coordinator_epoch: int | None,
    dry_run: bool,
    output_format: str,
) -> None:
    """Abort a hanging transaction on one partition, past the coordinator.

    For transactions of find-hanging. One that its coordinator knows is for force-terminate.
    """
    by_producer = (producer_id, producer_epoch, coordinator_epoch)
    given = [each for each in by_producer if each is not None]
    if (start_offset is None) == (not given) or (given and len(given) != len(by_producer)):
        raise WrongUsage(
            "expected --start-offset, or else --producer-id, --producer-epoch and --coordinator-epoch"
        )
    if start_offset is not None:
        offset = start_offset
        marker = run(target, lambda brokers: abort_marker(brokers, topic, partition, offset))
    else:
        marker = admins_marker(topic, partition, *given)
    if not dry_run:
        run(target, lambda brokers: write_marker(brokers, marker))
    row = {
        "Topic": topic,
        "Partition": partition,
        "ProducerId": marker.producer_id,
        "ProducerEpoch": marker.producer_epoch,
        "CoordinatorEpoch": marker.coordinator_epoch,
        "DryRun": dry_run,
    }
    if output_format == JSON:
        echo_json(row)
        return
    done = "would be written" if dry_run else "is written"
    click.echo(
        f"An abort marker for producer {marker.producer_id}, epoch {marker.producer_epoch}, "
        f"coordinator epoch {marker.coordinator_epoch}, {done} to {topic}-{partition}."
    )


@transactions.command("force-terminate")
@_transactional_id_option
@_dry_run_option
@_cluster_options
@format_option
def force_terminate_(target: Target, transactional_id: str, dry_run: bool, output_format: str) -> None:
    """Abort the transaction of one id and fence its producer.

    One that is prepared already keeps its outcome: where a partition refuses its marker, that is forced.
    """
    terminated = run(target, lambda brokers: force_terminate(brokers, transactional_id, dry_run=dry_run))
    if output_format == JSON:
        echo_json(termination(terminated))
    else:
        click.echo(printable(sentence(terminated)))


def _or_none(value: int) -> int | None:
    return None if value < 0 else value


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
