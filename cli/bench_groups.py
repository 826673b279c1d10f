"""``fencepost bench groups``: its options, and what it prints."""

from pathlib import Path
from typing import Final

import click

from fencepost.bench import groups as bench_groups
from fencepost.bench.group_rows import Sizes
from fencepost.bench.group_subjects import CLUSTER, Peer
from fencepost.bench.own_cluster import workspace
from fencepost.cli.bench_options import counts, interruptible, own_cluster_options
from fencepost.cli.output import JSON, echo_json, format_option
from fencepost.cluster.console import WrongUsage, progress
from fencepost.cluster.target import target_at

SECONDS_MAX: Final = 3600.0
BYTES_MIN: Final = 150  # of which a member's id is a part
BYTES_MAX: Final = 64 * 1024


@click.command()
@click.option(
    "--only",
    type=click.Choice(bench_groups.PARTS),
    multiple=True,
    help="This part alone; may be repeated.  [default: all]",
)
@click.option(
    "--members",
    callback=counts(bench_groups.MEMBERS_MAX, bench_groups.MEMBERS_MIN),
    default="10,100,1000",
    show_default=True,
    help="N[,N..]: of a group that becomes stable.",
)
@click.option(
    "--subscription-bytes",
    type=click.IntRange(BYTES_MIN, BYTES_MAX),
    default=250,
    show_default=True,
    help="Of each member.",
)
@click.option(
    "--assignment-bytes",
    type=click.IntRange(BYTES_MIN, BYTES_MAX),
    default=250,
    show_default=True,
    help="Of each member.",
)
@click.option(
    "--loops",
    callback=counts(bench_groups.LOOPS_MAX),
    default="1,8",
    show_default=True,
    help="N[,N..]: read-process-write loops at a time.",
)
@click.option(
    "--clients",
    callback=counts(bench_groups.CLIENTS_MAX),
    default="10,100,1000",
    show_default=True,
    help="N[,N..]: that commit offsets, each of a group of its own.",
)
@click.option(
    "--seconds",
    type=click.FloatRange(0.1, SECONDS_MAX),
    default=5.0,
    show_default=True,
    help="Of load, per row of loops and commits.",
)
@click.option(
    "--bootstrap-server", help="HOST:PORT[,..]: all brokers of a peer, measured beside the new cluster."
)
@click.option("--peer-kill", metavar="COMMAND", help="Kills the peer's node {node}, as 'kill -9' does.")
@click.option("--peer-start", metavar="COMMAND", help="Starts it again.")
@own_cluster_options
@format_option
def groups(
    only: tuple[str, ...],
    members: tuple[int, ...],
    subscription_bytes: int,
    assignment_bytes: int,
    loops: tuple[int, ...],
    clients: tuple[int, ...],
    seconds: float,
    bootstrap_server: str | None,
    peer_kill: str | None,
    peer_start: str | None,
    node_count: int,
    port: int | None,
    directory: Path | None,
    output_format: str,
) -> int:
    """How soon consumer groups are stable, and how many offsets are committed per second.

    Stable: all members have their assignments, from a cold start, and from kill -9 of a member, less its
    session timeout; from kill -9 of the coordinator's node: each of them is answered again. Loops are
    confluent-kafka's: read, write, and commit both in a transaction. Commits are plain or transactional, of
    clients that wait for each one.

    With --bootstrap-server a second cluster, as Apache Kafka, is measured in the same run, row by row. Its
    nodes are killed only if --peer-kill and --peer-start are given. Exit status 1: a row of the new cluster
    has no figures, or what is read back differs from what was committed (stderr says which).
    """
    plan = bench_groups.Plan(
        parts=only or bench_groups.PARTS,
        members=members,
        sizes=Sizes(subscription_bytes, assignment_bytes),
        loops=loops,
        clients=clients,
        seconds=seconds,
    )
    peer = _peer(bootstrap_server, peer_kill, peer_start)
    with interruptible(), workspace(directory) as work, progress() as show:
        measured = bench_groups.measure(
            plan, work=work, node_count=node_count, port=port, directory=directory, peer=peer, show=show
        )
    for subject, faults in measured.faults.items():
        for fault in faults:
            click.echo(f"{subject}, {fault}", err=True)
    if output_format == JSON:
        echo_json(measured.figures)
    else:
        click.echo(bench_groups.lines(measured.figures))
    return 1 if measured.faults[CLUSTER] else 0


def _peer(bootstrap_server: str | None, peer_kill: str | None, peer_start: str | None) -> Peer | None:
    """Raises WrongUsage."""
    if (peer_kill is None) != (peer_start is None):
        raise WrongUsage("--peer-kill and --peer-start go together: a node that was killed is started again")
    if bootstrap_server is None:
        if peer_kill is not None:
            raise WrongUsage("--peer-kill is of the cluster that --bootstrap-server names")
        return None
    target = target_at("--bootstrap-server", bootstrap_server)
    return Peer([(each.host, each.port) for each in target.addresses], peer_kill, peer_start)
