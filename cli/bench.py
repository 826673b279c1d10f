"""``fencepost bench``: what the control plane does per second, and how long it is away when its leader dies.

Each bench starts a cluster of its own (fsync on, allocation quota off), loads it from a process of its own
with Kafka's frames over TCP, and counts from the history of every attempt (see
``fencepost.bench.history``).
"""

import signal
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import click

from fencepost.bench import allocate as bench_allocate
from fencepost.bench import failover as bench_failover
from fencepost.bench import stalls as bench_stalls
from fencepost.bench import stalls_groups
from fencepost.bench.allocate import Subject
from fencepost.bench.own_cluster import (
    BENCH_PORT_OFFSETS,
    controllers,
    filesystem,
    new_history,
    own_cluster,
    register_brokers,
    temporary_broker,
    workspace,
)
from fencepost.cli.bench_groups import groups
from fencepost.cli.bench_options import OTHER_CORES_MIN, busy, counts, interruptible, own_cluster_options
from fencepost.cli.bench_transactions import transactions
from fencepost.cli.output import JSON, echo_json, format_option
from fencepost.cli.target_options import find_target
from fencepost.cluster.console import WrongUsage, progress, table
from fencepost.cluster.local_cluster import free_port
from fencepost.cluster.target import Target, controllers_of

CLIENTS_MAX: Final = 4096
KILLS_MAX: Final = 10_000
SECONDS_MAX: Final = 3600.0
GROUPS_MAX: Final = 1_000_000
FAILOVER_NODES_MIN: Final = 3


_history_option = click.option(
    "--history",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Write one JSON line per attempt: client, node, sent_ns, received_ns, outcome, start, len.",
)


@click.group()
def bench() -> None:
    """Measure a cluster that is made for it."""


bench.add_command(groups)
bench.add_command(transactions)


@bench.command()
@click.option(
    "--clients",
    callback=counts(CLIENTS_MAX),
    default="1,8,64,256",
    show_default=True,
    help="N[,N..]: one row each.",
)
@click.option(
    "--seconds",
    type=click.FloatRange(0.1, SECONDS_MAX),
    default=5.0,
    show_default=True,
    help="Of load, per row.",
)
@click.option(
    "--bootstrap-controller", help="HOST:PORT[,..]: load this cluster instead. Its quota is what it is."
)
@_history_option
@own_cluster_options
@format_option
def allocate(
    clients: tuple[int, ...],
    seconds: float,
    bootstrap_controller: str | None,
    node_count: int,
    port: int | None,
    directory: Path | None,
    history: Path | None,
    output_format: str,
) -> int:
    """Producer-id blocks per second, by number of clients; beside what the disk and stock pysyncobj do.

    Each client has one connection and sends its next request as soon as it has its block. blocks_per_s over
    lmdb_commits_per_s is what group commit gains. Exit status 1: ids were given twice, or a row got none.
    """
    if bootstrap_controller is not None and (directory is not None or port is not None):
        raise WrongUsage(
            "--bootstrap-controller names a cluster that runs; --dir and --port are for a new one"
        )
    with interruptible(), workspace(directory) as work, progress() as show:
        file = new_history(work, history)
        if bootstrap_controller is not None:
            running = _running_subject(find_target(work, bootstrap_controller, None))
        else:
            running = _own_subject(work, node_count, port, directory)
        with running as (subject, free):
            allocated = bench_allocate.measure(subject, clients, seconds, work, file, show)
        stock = bench_allocate.measure_stock(free, show)
        allocated.figures["baseline"]["pysyncobj_stock_per_s"] = stock
    for line in bench_allocate.mishap_lines(allocated.mishaps):
        click.echo(line, err=True)
    if bootstrap_controller is None and allocated.other_cores >= OTHER_CORES_MIN:
        click.echo(f"{busy(allocated.other_cores)}, and X LMDB is too high.", err=True)
    if output_format == JSON:
        echo_json(allocated.figures)
    else:
        _print_allocated(allocated.figures, subject.leader, filesystem(directory or work))
    return 0 if allocated.is_sound else 1


@bench.command()
@click.option("--kills", type=click.IntRange(1, KILLS_MAX), default=20, show_default=True)
@click.option(
    "--signal",
    "signal_name",
    type=click.Choice(("KILL", "STOP"), case_sensitive=False),
    default="KILL",
    show_default=True,
    help="STOP: the leader stands still with its connections open; it goes on when another one leads.",
)
@click.option("--clients", type=click.IntRange(1, 256), default=16, show_default=True)
@_history_option
@own_cluster_options
@format_option
def failover(
    kills: int,
    signal_name: str,
    clients: int,
    node_count: int,
    port: int | None,
    directory: Path | None,
    history: Path | None,
    output_format: str,
) -> int:
    """From a signal to the leader until the first success of any request sent after it.

    Client k allocates as broker 1000000000 + k, and gives up after 100 ms. refused_but_done and
    granted_but_missing count where the nodes' archives contradict the responses that clients got. Exit status
    1: there are such, or duplicates.
    """
    if node_count < FAILOVER_NODES_MIN:
        raise WrongUsage(f"--nodes {node_count}: a majority must be left without the leader, so 3 or more")
    with interruptible(), workspace(directory) as work, progress() as show:
        file = new_history(work, history)
        with own_cluster(work, node_count, port, directory) as own:
            number = signal.Signals[f"SIG{signal_name}"]
            result = bench_failover.measure(own, number, kills, clients, file, show)
    if output_format == JSON:
        echo_json(result.figures)
    else:
        _print_failed_over(result.figures, signal_name)
    return 0 if result.is_sound else 1


@bench.command()
@click.option(
    "--groups",
    type=click.IntRange(stalls_groups.FEW + 1, GROUPS_MAX),
    help="So many groups instead of large requests: takeovers, 1,000 members at their limits, expiry.",
)
@own_cluster_options
@format_option
def stalls(
    groups: int | None, node_count: int, port: int | None, directory: Path | None, output_format: str
) -> int:
    """The longest CPU time that a request, or other work, held a node's event loop, at the limits of each.

    The nodes measure it themselves (metric fencepost_loop_stall_ms). Requests that were refused are named on
    stderr. Exit status 1: something took 50 ms or more.
    """
    quiet = ("log.level=warning",) if groups is None else stalls_groups.SETTINGS
    with (
        interruptible(),
        workspace(directory) as work,
        progress() as show,
        own_cluster(work, node_count, port, directory, quiet) as own,
    ):
        if groups is not None:
            found = stalls_groups.measure(own, groups, show)
            if output_format == JSON:
                echo_json(found)
            else:
                click.echo(stalls_groups.lines(found))
            return 0 if stalls_groups.is_sound(found) else 1
        stalled = bench_stalls.measure(own, show)
    for name, reason in stalled.refused.items():
        click.echo(f"{name}: {reason}", err=True)
    if output_format == JSON:
        echo_json(stalled.figures)
    else:
        click.echo(bench_stalls.lines(stalled))
    return 0 if stalled.is_sound else 1


@contextmanager
def _own_subject(
    work: Path, node_count: int, port: int | None, directory: Path | None
) -> Iterator[tuple[Subject, int]]:
    """A new cluster, and its first port."""
    with own_cluster(work, node_count, port, directory) as own:
        target = controllers_of(own.cluster)
        (asker,) = register_brokers(target, 1)
        pids = {f"node-{node_id}": process.pid for node_id, process in own.children.items()}
        yield Subject(*controllers(target), asker, pids), own.cluster.port


@contextmanager
def _running_subject(target: Target) -> Iterator[tuple[Subject, int]]:
    """A cluster that runs already, and a first port that is free."""
    with temporary_broker(target) as asker:
        yield Subject(*controllers(target), asker), free_port(bench_allocate.STOCK_NODES, BENCH_PORT_OFFSETS)


def _print_allocated(figures: Mapping[str, Any], leader: int, disk: str) -> None:
    baseline = figures["baseline"]
    lmdb_per_s = baseline["lmdb_commits_per_s"]
    rows = [
        (
            row["clients"],
            f"{row['blocks_per_s']:.0f}",
            f"{row['blocks_per_s'] / lmdb_per_s:.2f}",
            *("-" if row[each] is None else f"{row[each]:.2f}" for each in ("p50_ms", "p99_ms")),
            row["duplicates"],
            ", ".join(f"{_role(name, leader)} {used:.2f}" for name, used in row["cores"].items()),
        )
        for row in figures["rows"]
    ]
    columns = ("CLIENTS", "BLOCKS/S", "X LMDB", "P50 MS", "P99 MS", "DUPLICATES", "CORES")
    click.echo(table(columns, rows))
    click.echo(f"\nLMDB, one synced put of 200 bytes per commit ({disk}): {lmdb_per_s:.0f} commits/s")
    click.echo(
        f"Stock pysyncobj, default settings (no fsync), {bench_allocate.STOCK_CALLERS} callers: "
        f"{baseline['pysyncobj_stock_per_s']:.0f} increments/s"
    )


def _role(name: str, leader: int) -> str:
    return f"{name} (leader)" if name == f"node-{leader}" else name


def _print_failed_over(figures: Mapping[str, Any], signal_name: str) -> None:
    kills = figures["kills"]
    rows = [(number, kill["node"], f"{kill['gap_ms']:.1f}") for number, kill in enumerate(kills, 1)]
    click.echo(table((f"SIG{signal_name}", "LEADER", "GAP MS"), rows))
    found = {
        name.replace("_", " "): count for name, count in figures.items() if name in bench_failover.UNSOUND
    }
    click.echo(f"\np50 {figures['p50_ms']:.1f} ms, p90 {figures['p90_ms']:.1f} ms")
    click.echo(", ".join(f"{name} {count}" for name, count in found.items()))
