"""``fencepost bench transactions``: its options, and what it prints."""

from collections.abc import Sequence
from pathlib import Path
from typing import Final

import click

from fencepost.bench import transactions as bench_transactions
from fencepost.bench.late_end import PROTOCOLS
from fencepost.bench.own_cluster import workspace
from fencepost.bench.transaction_java import why_not
from fencepost.bench.transaction_load import CLIENTS, CONFLUENT, JAVA
from fencepost.bench.transaction_records import VALUE_BYTES_MIN
from fencepost.bench.transaction_subjects import refuse_protocol
from fencepost.cli.bench_options import OTHER_CORES_MIN, busy, counts, interruptible, own_cluster_options
from fencepost.cli.output import JSON, echo_json, format_option
from fencepost.cluster.command_config import Access, read_access
from fencepost.cluster.console import WrongUsage, progress
from fencepost.cluster.target import Target, target_at

SECONDS_MAX: Final = 3600.0
MESSAGE_BYTES_MAX: Final = 512 * 1024  # a batch of one record is below message.max.bytes
WINDOWS_MAX: Final = 1_000


@click.command()
@click.option(
    "--client",
    "clients",
    type=click.Choice(tuple(CLIENTS)),
    multiple=True,
    default=(CONFLUENT,),
    show_default=True,
    help="Whose producers; may be repeated: one row for each.",
)
@click.option(
    "--java-classpath",
    metavar="PATH",
    help="Kafka's client jars, as '/opt/kafka/libs/*', for --client java.",
)
@click.option(
    "--protocol",
    type=click.Choice(PROTOCOLS),
    help="Of transactions (KIP-890): the new cluster is given transaction.version 0 or 2. "
    "[default: v2, with clients that know it]",
)
@click.option(
    "--producers",
    callback=counts(bench_transactions.PRODUCERS_MAX),
    default="1,8",
    show_default=True,
    help="N[,N..]: how many at a time.",
)
@click.option(
    "--messages",
    callback=counts(bench_transactions.MESSAGES_MAX),
    default="1,100",
    show_default=True,
    help="N[,N..]: in one transaction. One row for each pair.",
)
@click.option(
    "--message-bytes",
    type=click.IntRange(VALUE_BYTES_MIN, MESSAGE_BYTES_MAX),
    default=100,
    show_default=True,
    help="Of each message.",
)
@click.option(
    "--seconds",
    type=click.FloatRange(0.1, SECONDS_MAX),
    default=5.0,
    show_default=True,
    help="Of load, per window, on each cluster.",
)
@click.option(
    "--windows",
    type=click.IntRange(1, WINDOWS_MAX),
    default=1,
    show_default=True,
    help="Per row, on each cluster: in the order cluster, other, other, cluster.",
)
@click.option(
    "--warm-up",
    type=click.FloatRange(0.0, SECONDS_MAX),
    default=1.0,
    show_default=True,
    help="Seconds of the same load on each cluster before a row, not counted.",
)
@click.option("--bootstrap-server", help="HOST:PORT[,..]: load this cluster instead of a new one.")
@click.option("--peer", help="HOST:PORT[,..]: load this cluster, too, instead of the mock.")
@click.option(
    "--command-config",
    type=click.Path(path_type=Path),
    help="A file of Kafka's client properties: how both are reached, as security.protocol and ssl.*, "
    "for --client confluent.",
)
@own_cluster_options
@format_option
def transactions(
    clients: tuple[str, ...],
    java_classpath: str | None,
    protocol: str | None,
    producers: tuple[int, ...],
    messages: tuple[int, ...],
    message_bytes: int,
    seconds: float,
    windows: int,
    warm_up: float,
    bootstrap_server: str | None,
    peer: str | None,
    command_config: Path | None,
    node_count: int,
    port: int | None,
    directory: Path | None,
    output_format: str,
) -> int:
    """Transactions per second of real producers, and the CPU time of each node for one of them.

    Each producer commits one transaction after the other; what a read_committed consumer sees is then held
    against what was committed. Beside it: librdkafka's in-memory mock cluster, which confluent-kafka alone
    can use, or the cluster at --peer. TXN/S is the median of the windows. Exit status 1: what is seen differs
    (verified false; stderr says how).
    """
    if bootstrap_server is not None and (directory is not None or port is not None):
        raise WrongUsage("--bootstrap-server names a cluster that runs; --dir and --port are for a new one")
    access = _access(command_config, bootstrap_server, clients)
    refuse_protocol(protocol, clients)
    if JAVA in clients and (reason := why_not(java_classpath)):
        raise WrongUsage(reason)
    plan = bench_transactions.Plan(
        clients=tuple(dict.fromkeys(clients)),
        protocol=protocol,
        producers=producers,
        messages=messages,
        message_bytes=message_bytes,
        seconds=seconds,
        warm_up_s=warm_up,
        windows=windows,
        java_classpath=java_classpath or "",
    )
    with interruptible(), workspace(directory) as work, progress() as show:
        measured = bench_transactions.measure(
            plan,
            work=work,
            node_count=node_count,
            port=port,
            directory=directory,
            target=_target("--bootstrap-server", bootstrap_server, access),
            peer=_target("--peer", peer, access),
            show=show,
        )
    for fault in measured.faults:
        click.echo(fault, err=True)
    if measured.other_cores >= OTHER_CORES_MIN:
        click.echo(f"{busy(measured.other_cores)}.", err=True)
    _echo(measured.figures, output_format)
    return 1 if measured.faults else 0


def _echo(figures: dict[str, list[bench_transactions.Row]], output_format: str) -> None:
    if output_format == JSON:
        echo_json(figures)
    else:
        click.echo(bench_transactions.lines(figures))


def _access(
    command_config: Path | None, bootstrap_server: str | None, clients: Sequence[str]
) -> Access | None:
    """How both clusters are reached, if not in the plain."""
    if command_config is None:
        return None
    if bootstrap_server is None or set(clients) != {CONFLUENT}:
        raise WrongUsage("--command-config needs --bootstrap-server, and --client confluent alone")
    return read_access(command_config)


def _target(option: str, text: str | None, access: Access | None) -> Target | None:
    return None if text is None else target_at(option, text, access)
