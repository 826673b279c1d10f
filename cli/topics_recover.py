"""``fencepost topics recover``: start a partition again, empty, whose log is lost or damaged beyond repair.

Start       the highest of --start-offset, of every group's committed offset, and of the end that its broker
            has reported: so no group takes a new record for one that it has read. What an unfinished
            transaction will commit is not known to it.
Refused     while the partition's broker is away, as it may have the log, and while the log can be read.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final, NamedTuple

import click

from fencepost.cli.group_calls import committed, list_groups
from fencepost.cli.output import JSON, echo_json, format_option
from fencepost.cli.target_options import broker_options, find_brokers, find_target
from fencepost.cli.transaction_calls import describe_if_known, list_transactions
from fencepost.cluster.brokers import Brokers, run
from fencepost.cluster.console import Failed, WrongUsage
from fencepost.cluster.controllers import ask
from fencepost.controller.errors import ErrorCode
from fencepost.controller.groups.describe import ListGroups
from fencepost.controller.partition_recovery import PartitionRecovered, RecoverPartition
from fencepost.controller.transactions.describe import DescribedTransaction, ListTransactions
from fencepost.wire.k02_list_offsets import LATEST, LIST_OFFSETS, ListOffsets, OffsetQuery
from fencepost.wire.k20043_recover_partition import RECOVER_PARTITION

NOT_DONE: Final = 1  # the exit status without --accept-data-loss
UNFINISHED: Final = ("Ongoing", "PrepareCommit", "PrepareAbort")


class Found(NamedTuple):
    """What is known of the partition elsewhere than in its log."""

    committed: dict[str, int]  # by group
    transactions: list[DescribedTransaction]  # that are not finished, and have the partition


@click.command()
@click.argument("name", metavar="TOPIC-PARTITION")
@click.option("--start-offset", type=click.IntRange(0), default=0, help="Begin there at least.")
@click.option("--accept-data-loss", is_flag=True, help="Do it: the records are given up for good.")
@click.option(
    "--bootstrap-controller", help="HOST:PORT[,..] of controller listeners, with --bootstrap-server."
)
@broker_options
@format_option
def recover(
    name: str,
    start_offset: int,
    accept_data_loss: bool,
    directory: Path,
    bootstrap_server: str | None,
    bootstrap_controller: str | None,
    command_config: Path | None,
    output_format: str,
) -> int:
    """Start a partition again, empty, whose log is lost: in a new leader epoch, above all committed offsets.

    The end that its broker reported last, within a minute or so before the loss, counts, too.
    Its broker must run and say that the log is lost or damaged. Bring the log back if you can, or try
    'fencepost storage repair': this gives all records of the partition up. What is there of them is renamed
    to *.lost in the log directory. --start-offset is for readers that keep their offsets elsewhere: name an
    offset at or above the last one that they have seen.

    Lists the transactions that are not finished and have the partition: their markers end nothing there.

    Exit status: 0 done, 1 not done, 2 wrong usage, 3 no answer.
    """
    topic, index = _parsed(name)
    if (bootstrap_server is None) != (bootstrap_controller is None):
        raise WrongUsage("expected both or neither of --bootstrap-server and --bootstrap-controller")
    brokers = find_brokers(directory, bootstrap_server, command_config)
    found = run(brokers, lambda calls: _look(calls, topic, index))
    start = max((start_offset, *found.committed.values()))
    controllers = find_target(directory, bootstrap_controller, command_config)
    request = RecoverPartition(topic, index, start, dry_run=not accept_data_loss)
    recovered = ask(controllers, RECOVER_PARTITION, request)
    if output_format == JSON:
        echo_json(_document(name, found, recovered, done=accept_data_loss))
    else:
        click.echo("\n".join(_lines(name, found, recovered, done=accept_data_loss)))
    return 0 if accept_data_loss else NOT_DONE


def _parsed(name: str) -> tuple[str, int]:
    """Raises WrongUsage."""
    topic, dash, index = name.rpartition("-")
    if not dash or not topic or not (index.isascii() and index.isdigit()):
        raise WrongUsage(f"expected TOPIC-PARTITION, as orders-0; got {name!r}")
    return topic, int(index)


async def _look(brokers: Brokers, topic: str, index: int) -> Found:
    """Raises Failed: the log can be read, or no broker says that it cannot."""
    query = ListOffsets((OffsetQuery(topic, index, LATEST),))

    async def code() -> int:  # of the broker that has the replica: a log that is offline has no leader
        (replica, *_) = (await brokers.partition(topic, index)).replica_nodes
        answer = await brokers.ask_node(replica, LIST_OFFSETS, query)
        return answer.partitions[0].error_code

    said = await brokers.with_retries(code)
    if said == ErrorCode.NONE:
        raise Failed(f"{topic}-{index} can be read: there is nothing to recover")
    if said != ErrorCode.KAFKA_STORAGE_ERROR:
        raise Failed(
            f"{topic}-{index}: its broker says error {said}, not KAFKA_STORAGE_ERROR (56); try again"
        )
    offsets = {}
    for group in await list_groups(brokers, ListGroups()):
        known = (await committed(brokers, group.group_id)).get((topic, index))
        if known is not None:
            offsets[group.group_id] = known.offset
    listed = await list_transactions(brokers, ListTransactions(state_filters=UNFINISHED))
    described = [await describe_if_known(brokers, each.transaction.transactional_id) for each in listed]
    return Found(offsets, [each for each in described if each is not None and _has(each, topic, index)])


def _has(transaction: DescribedTransaction, topic: str, index: int) -> bool:
    return any(each.topic == topic and index in each.partition_ids for each in transaction.partitions)


def _document(name: str, found: Found, recovered: PartitionRecovered, *, done: bool) -> dict[str, Any]:
    return {
        "Partition": name,
        "StartOffset": recovered.start_offset,
        "LeaderEpoch": recovered.leader_epoch if done else None,
        "Recovered": done,
        "ReportedEnd": recovered.reported_end if recovered.reported_end >= 0 else None,
        "CommittedOffsets": found.committed,
        "Transactions": [
            {"TransactionalId": each.transactional_id, "ProducerId": each.producer_id, "State": each.state}
            for each in found.transactions
        ],
    }


def _lines(name: str, found: Found, recovered: PartitionRecovered, *, done: bool) -> Iterator[str]:
    start, epoch = recovered.start_offset, recovered.leader_epoch
    if done:
        yield f"{name}: started again, empty, at offset {start}, in leader epoch {epoch}."
    else:
        yield f"{name}: would be started again, empty, at offset {start}. All its records are given up."
    if recovered.reported_end >= 0:
        yield f"Its broker reported last that the log ends at offset {recovered.reported_end}."
    for group, offset in sorted(found.committed.items()):
        yield f"Group {group} has committed offset {offset}."
    for each in found.transactions:
        yield (
            f"Transaction of {each.transactional_id} (producer {each.producer_id}, {each.state}): what it "
            "wrote there is given up, its marker ends nothing."
        )
    if not done:
        yield "Nothing was changed. The same command with --accept-data-loss does it."
