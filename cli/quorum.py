"""``fencepost quorum describe``: who leads, who votes, how far each has come.

Columns and lines are those of ``kafka-metadata-quorum describe`` (docs/kafka-notes.md H2).
"""

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import click

from fencepost.cli.output import JSON, echo_json, format_option
from fencepost.cli.target_options import find_target, target_options
from fencepost.cluster.console import Unreadable, WrongUsage, lines, table
from fencepost.cluster.controllers import run
from fencepost.cluster.target import TIMEOUT_SECONDS, Target
from fencepost.settings.config import Address
from fencepost.settings.node_identity import id_text
from fencepost.wire.client import ControllerClient
from fencepost.wire.k55_describe_quorum import (
    DESCRIBE_QUORUM,
    DescribeQuorum,
    QuorumNode,
    QuorumPartition,
    ReplicaState,
)
from fencepost.wire.k60_describe_cluster import DESCRIBE_CLUSTER, DescribeCluster

COLUMNS: Final = (
    "NodeId",
    "DirectoryId",
    "LogEndOffset",
    "Lag",
    "LastFetchTimestamp",
    "LastCaughtUpTimestamp",
    "Status",
)
UNKNOWN: Final = -1


@click.group()
def quorum() -> None:
    """Show the metadata quorum: its leader, voters and replication."""


@quorum.command()
@click.option("--status", "wants_status", is_flag=True, help="Leader, epoch, high watermark, voters.")
@click.option("--replication", "wants_replication", is_flag=True, help="One line per replica.")
@click.option("--human-readable", is_flag=True, help="Timestamps as dates, with --replication.")
@target_options
@format_option
def describe(
    wants_status: bool,
    wants_replication: bool,
    human_readable: bool,
    directory: Path,
    bootstrap_controller: str | None,
    command_config: Path | None,
    output_format: str,
) -> None:
    """Describe the quorum, as the active controller sees it."""
    if wants_status == wants_replication:
        raise WrongUsage("expected one of --status and --replication")
    target = find_target(directory, bootstrap_controller, command_config)
    cluster_id, partition, nodes = _ask(target)
    if wants_status:
        _print_status(status_of(cluster_id, partition, nodes), output_format)
    else:
        _print_replication(replication_of(partition), output_format, human_readable)


def _ask(target: Target) -> tuple[str, QuorumPartition, tuple[QuorumNode, ...]]:
    async def hold(client: ControllerClient) -> tuple[str, QuorumPartition, tuple[QuorumNode, ...]]:
        cluster = await client.call(DESCRIBE_CLUSTER, DescribeCluster(), timeout_s=TIMEOUT_SECONDS)
        answer = await client.call(DESCRIBE_QUORUM, DescribeQuorum(), timeout_s=TIMEOUT_SECONDS)
        if answer.partition is None:
            raise Unreadable("the answer does not hold the metadata partition")
        return cluster.cluster_id, answer.partition, answer.nodes

    return run(target, hold)


def status_of(cluster_id: str, quorum: QuorumPartition, nodes: tuple[QuorumNode, ...]) -> dict[str, Any]:
    """The fields of ``--status``."""
    leader = next((each for each in quorum.current_voters if each.replica_id == quorum.leader_id), None)
    laggard = min(quorum.current_voters, key=lambda each: each.log_end_offset, default=None)
    lag, lag_ms = 0, 0
    if leader is not None and laggard is not None and laggard.log_end_offset < leader.log_end_offset:
        lag = leader.log_end_offset - laggard.log_end_offset
        times = (leader.last_caught_up_timestamp, laggard.last_caught_up_timestamp)
        lag_ms = UNKNOWN if UNKNOWN in times else times[0] - times[1]
    endpoints = {
        node.node_id: [f"{each.name}://{Address(each.host, each.port)}" for each in node.listeners]
        for node in nodes
    }
    return {
        "ClusterId": cluster_id,
        "LeaderId": quorum.leader_id,
        "LeaderEpoch": quorum.leader_epoch,
        "HighWatermark": quorum.high_watermark,
        "MaxFollowerLag": lag,
        "MaxFollowerLagTimeMs": lag_ms,
        "CurrentVoters": [_replica(each, endpoints) for each in quorum.current_voters],
        "CurrentObservers": [_replica(each, endpoints) for each in quorum.observers],
    }


def replication_of(quorum: QuorumPartition) -> list[dict[str, Any]]:
    """The rows of ``--replication``: the leader first, then voters, then observers."""
    ranked = [(each, "Follower") for each in quorum.current_voters] + [
        (each, "Observer") for each in quorum.observers
    ]
    ends = {each.replica_id: each.log_end_offset for each, _ in ranked}
    leader_end = ends.get(quorum.leader_id)
    ordered = sorted(ranked, key=lambda row: row[0].replica_id != quorum.leader_id)  # stable
    return [
        {
            "NodeId": each.replica_id,
            "DirectoryId": _directory(each),
            "LogEndOffset": each.log_end_offset,
            "Lag": UNKNOWN if leader_end is None else leader_end - each.log_end_offset,
            "LastFetchTimestamp": each.last_fetch_timestamp,
            "LastCaughtUpTimestamp": each.last_caught_up_timestamp,
            "Status": "Leader" if each.replica_id == quorum.leader_id else status,
        }
        for each, status in ordered
    ]


def _replica(replica: ReplicaState, endpoints: dict[Any, list[str]]) -> dict[str, Any]:
    known = replica.directory_id is not None
    return {
        "id": replica.replica_id,
        "directoryId": _directory(replica) if known else None,
        "endpoints": endpoints.get(replica.replica_id, []),
    }


def _directory(replica: ReplicaState) -> str:
    return "AAAAAAAAAAAAAAAAAAAAAA" if replica.directory_id is None else id_text(replica.directory_id)


def _print_status(status: dict[str, Any], output_format: str) -> None:
    if output_format == JSON:
        echo_json(status)
        return
    click.echo(lines({name: json.dumps(v) if isinstance(v, list) else v for name, v in status.items()}))


def _print_replication(rows: list[dict[str, Any]], output_format: str, human_readable: bool) -> None:
    if output_format == JSON:
        echo_json({"replicas": rows})
        return
    if human_readable:
        for row in rows:
            for name in ("LastFetchTimestamp", "LastCaughtUpTimestamp"):
                row[name] = _ago(row[name])
    click.echo(table(COLUMNS, [tuple(row.values()) for row in rows]))


def _ago(timestamp_ms: int) -> str:
    if timestamp_ms < 0:
        return "unknown"
    moment = datetime.fromtimestamp(timestamp_ms / 1000, UTC)
    return f"{(datetime.now(UTC) - moment).total_seconds() * 1000:.0f} ms ago"
