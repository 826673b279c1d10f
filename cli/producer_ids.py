"""``fencepost producer-ids``: the latest block, one more block, and who got which block when."""

import json
import random
import uuid
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import click

from fencepost.cli.images import newest_image
from fencepost.cli.output import JSON, SCHEMA_VERSION, dir_option, echo_json, format_option
from fencepost.cli.target_options import find_target, target_options
from fencepost.cluster.console import Unreadable, WrongUsage, lines
from fencepost.cluster.controllers import run
from fencepost.cluster.local_cluster import LocalCluster, open_cluster
from fencepost.cluster.target import TEMPORARY_ID_FIRST, TEMPORARY_ID_LAST, TIMEOUT_SECONDS
from fencepost.controller.brokers import BROKERS, Endpoint, RegisterBroker, UnregisterBroker
from fencepost.controller.errors import ApiError
from fencepost.controller.producer_ids import AllocateProducerIds, ProducerIdBlock, latest
from fencepost.records.invariant import CorruptData
from fencepost.records.types import BrokerEpoch, BrokerId
from fencepost.snapshots.history import ARCHIVE_FOLDER, Allocation, producer_id_history
from fencepost.snapshots.segments import Hole
from fencepost.wire.client import ConnectionLost, ControllerClient, RequestTimeout
from fencepost.wire.k60_describe_cluster import DESCRIBE_CLUSTER, DescribeCluster
from fencepost.wire.k62_broker_registration import BROKER_REGISTRATION
from fencepost.wire.k64_unregister_broker import UNREGISTER_BROKER
from fencepost.wire.k67_allocate_producer_ids import ALLOCATE_PRODUCER_IDS

COUNT_MAX: Final = 1_000_000

_ROW: Final = "{:>10}  {:>6}  {:<24}  {:>10}  {:>12}  {:>19}  {:>19}"


@click.group("producer-ids")
def producer_ids() -> None:
    """Producer-id blocks: start inclusive, end exclusive."""


@producer_ids.command()
@dir_option
@format_option
def describe(directory: Path, output_format: str) -> None:
    """Say which block was given out last, and which id is the first free one."""
    node, (version, block) = newest_image(
        open_cluster(directory), lambda reader: (reader.header.version, latest(reader))
    )
    if output_format == JSON:
        echo_json(
            {
                "next_producer_id": block.end,
                "broker_id": block.broker_id,
                "broker_epoch": block.broker_epoch,
                "start": block.first,
                "end": block.end,
                "image_version": version,
                "node_id": node.node_id,
            }
        )
        return
    click.echo(
        lines(
            {
                "NextProducerId": block.end,
                "LatestBlock": "none yet" if block.end == 0 else f"[{block.first}, {block.end})",
                "BrokerId": block.broker_id,
                "BrokerEpoch": block.broker_epoch,
                "ImageVersion": f"{version} (on node {node.node_id})",
            }
        )
    )


@producer_ids.command()
@click.option("--broker-id", type=int, help="Allocate as this broker. Else as a temporary one.")
@click.option("--broker-epoch", type=int, help="The broker's epoch. Else, with --dir, its present one.")
@click.option("--count", type=click.IntRange(1, COUNT_MAX), default=1, show_default=True, help="Blocks.")
@click.option(
    "--timeout", "timeout_s", type=float, default=TIMEOUT_SECONDS, show_default=True, help="Seconds."
)
@target_options
@format_option
def allocate(
    broker_id: int | None,
    broker_epoch: int | None,
    count: int,
    timeout_s: float,
    directory: Path,
    bootstrap_controller: str | None,
    command_config: Path | None,
    output_format: str,
) -> None:
    """Allocate blocks of producer ids. Their ids are never given out again, used or not.

    Exit status 3: the outcome is unknown; a block may have been given out without reaching this command.
    """
    target = find_target(directory, bootstrap_controller, command_config)
    if broker_id is None:
        if broker_epoch is not None:
            raise WrongUsage("--broker-epoch needs --broker-id")
        blocks = run(target, lambda client: _as_temporary(client, count, timeout_s))
    else:
        epoch = BrokerEpoch(broker_epoch) if broker_epoch is not None else _epoch(target.cluster, broker_id)
        asker = AllocateProducerIds(BrokerId(broker_id), epoch)
        blocks = run(target, lambda client: _allocate(client, asker, count, timeout_s))
    if output_format == JSON:
        echo_json({"blocks": [{"start": block.first, "len": block.length} for block in blocks]})
        return
    for block in blocks:
        click.echo(f"[{block.first}, {block.first + block.length})  {block.length} ids")


async def _allocate(
    client: ControllerClient, asker: AllocateProducerIds, count: int, timeout_s: float
) -> list[ProducerIdBlock]:
    return [await client.call(ALLOCATE_PRODUCER_IDS, asker, timeout_s=timeout_s) for _ in range(count)]


async def _as_temporary(client: ControllerClient, count: int, timeout_s: float) -> list[ProducerIdBlock]:
    """Register under an id that no broker has, allocate, and unregister."""
    cluster = await client.call(DESCRIBE_CLUSTER, DescribeCluster(), timeout_s=timeout_s)
    temporary = RegisterBroker(
        broker_id=BrokerId(random.randint(TEMPORARY_ID_FIRST, TEMPORARY_ID_LAST)),
        cluster_id=cluster.cluster_id,
        incarnation_id=uuid.uuid4(),
        directory_id=uuid.uuid4(),
        endpoints=(Endpoint("NONE", "127.0.0.1", 1),),  # one is required; this broker stays fenced, so unseen
    )
    epoch = await client.call(BROKER_REGISTRATION, temporary, timeout_s=timeout_s)
    try:
        return await _allocate(client, AllocateProducerIds(temporary.broker_id, epoch), count, timeout_s)
    finally:
        await _leave(client, temporary.broker_id, timeout_s)


async def _leave(client: ControllerClient, temporary_id: BrokerId, timeout_s: float) -> None:
    """Unregister. That it fails does not undo what was allocated: it is only said."""
    try:
        await client.call(UNREGISTER_BROKER, UnregisterBroker(temporary_id), timeout_s=timeout_s)
    except (ApiError, ConnectionLost, RequestTimeout) as error:
        click.echo(f"broker {temporary_id} stays registered, fenced: {error}", err=True)


def _epoch(cluster: LocalCluster | None, broker_id: int) -> BrokerEpoch:
    if cluster is None:
        raise WrongUsage("--broker-id needs --broker-epoch, or --dir to look it up")
    _, broker = newest_image(cluster, lambda reader: reader.get(BROKERS, BrokerId(broker_id)))
    if broker is None:
        raise WrongUsage(f"broker {broker_id} is not registered")
    return broker.epoch


@producer_ids.command()
@click.option("--broker-id", type=int, help="Only this broker's blocks.")
@dir_option
@format_option
def history(broker_id: int | None, directory: Path, output_format: str) -> None:
    """List every block ever given out: to whom, when, in which epoch.

    Read from the committed-log archives of all nodes, merged, oldest first. What no node has any more
    is named as a hole, and the block after it has no known start. An archive that is damaged is named,
    and left out from there on: exit status 3.
    """
    folders = [node.config.directory for node in open_cluster(directory).nodes]
    kept = [folder for folder in folders if (folder / ARCHIVE_FOLDER).is_dir()]
    if not kept:
        raise Unreadable(f"no node of {directory} has an archive; has the cluster ever run?")
    damaged: list[CorruptData | OSError] = []
    try:
        items = producer_id_history(kept, damaged.append)
        rows = (item for item in items if isinstance(item, Hole) or broker_id in (None, item.broker_id))
        _print_history(rows, output_format)
    except (CorruptData, OSError) as error:
        raise Unreadable(str(error)) from error
    if damaged:
        files = "; ".join(map(str, damaged))
        raise Unreadable(f"read of other nodes' archives alone, from the damage on: {files}")


def _print_history(items: Iterator[Allocation | Hole], output_format: str) -> None:
    """As it comes, row by row: there may be millions."""
    if output_format == JSON:
        click.echo(f'{{"schema_version": {SCHEMA_VERSION}, "blocks": [', nl=False)
        separator = "\n"
        for item in items:
            click.echo(separator + json.dumps(_history_row(item)), nl=False)
            separator = ",\n"
        click.echo("\n]}")
        return
    columns = ("Offset", "Epoch", "Time", "BrokerId", "BrokerEpoch", "ProducerIdStart", "ProducerIdEnd")
    click.echo(_ROW.format(*columns))
    for item in items:
        if isinstance(item, Hole):
            click.echo(f"{item.first:>10}  (no node has the records from here to offset {item.end - 1})")
            continue
        moment = datetime.fromtimestamp(item.timestamp_ms / 1000, UTC).isoformat("T", "milliseconds")
        first = "?" if item.first is None else item.first
        click.echo(
            _ROW.format(
                item.offset,
                item.leader_epoch,
                moment.replace("+00:00", "Z"),
                item.broker_id,
                item.broker_epoch,
                first,
                item.end,
            )
        )


def _history_row(item: Allocation | Hole) -> dict[str, Any]:
    if isinstance(item, Hole):
        return {"hole": True, "first_offset": item.first, "end_offset": item.end}
    return {
        "offset": item.offset,
        "leader_epoch": item.leader_epoch,
        "timestamp_ms": item.timestamp_ms,
        "broker_id": item.broker_id,
        "broker_epoch": item.broker_epoch,
        "start": item.first,
        "end": item.end,
        "len": None if item.first is None else item.end - item.first,
    }
