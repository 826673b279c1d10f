"""``fencepost health``: healthy is a quorum that has just committed something."""

import time
from pathlib import Path
from typing import Final

import click

from fencepost.cli.output import JSON, echo_json, format_option
from fencepost.cli.target_options import find_target, target_options
from fencepost.cli.transaction_output import set_aside_row, set_aside_sentence
from fencepost.cluster.console import Failed, NotAuthorized
from fencepost.cluster.controllers import run
from fencepost.cluster.target import Target
from fencepost.controller.errors import ApiError, ErrorCode
from fencepost.wire.client import ControllerClient
from fencepost.wire.k60_describe_cluster import DESCRIBE_CLUSTER, DescribeCluster, DescribeClusterAnswer
from fencepost.wire.k20066_list_set_aside import LIST_SET_ASIDE, ListSetAside, SetAsideList

ROWS_SHOWN_MAX: Final = 20


@click.command(short_help="Say whether the quorum commits.")
@click.option("--timeout", "timeout_s", type=float, default=5.0, show_default=True, help="Seconds.")
@target_options
@format_option
def health(
    timeout_s: float,
    directory: Path,
    bootstrap_controller: str | None,
    command_config: Path | None,
    output_format: str,
) -> None:
    """Healthy (exit status 0) if the quorum commits an entry in time; else say why not (1).

    The question is about the brokers: an answer that depends on the image leaves only when an entry of its
    batch is applied, an empty one if need be, so the answer itself is a committed proposal.

    What the active controller set aside is listed, too, and is no reason to be unhealthy: wedged
    transactions, and rows whose timers fail.
    """
    target = find_target(directory, bootstrap_controller, command_config)
    try:
        cluster, elapsed_ms, set_aside = run(target, lambda client: _look(client, timeout_s))
    except NotAuthorized:
        raise
    except click.ClickException as error:
        _print_unhealthy(target, error.message, output_format)
        raise Failed(f"not healthy: {error.message}") from error
    if output_format == JSON:
        echo_json(
            {
                "healthy": True,
                "cluster_id": cluster.cluster_id,
                "leader": cluster.controller_id,
                "brokers": len(cluster.brokers),
                "commit_ms": round(elapsed_ms, 3),
                "set_aside": set_aside.total,
                "set_aside_rows": [set_aside_row(each) for each in set_aside.rows[:ROWS_SHOWN_MAX]],
            }
        )
        return
    click.echo(
        f"healthy: node {cluster.controller_id} leads, {len(cluster.brokers)} brokers are live, "
        f"found the leader and committed in {elapsed_ms:.1f} ms"
    )
    now_ms = time.time_ns() // 1_000_000
    for each in set_aside.rows[:ROWS_SHOWN_MAX]:
        click.echo(set_aside_sentence(each, now_ms=now_ms))
    if set_aside.total > ROWS_SHOWN_MAX:
        click.echo(
            f"and {set_aside.total - ROWS_SHOWN_MAX} more are set aside: see 'transactions find-hanging'"
        )


async def _look(
    client: ControllerClient, timeout_s: float
) -> tuple[DescribeClusterAnswer, float, SetAsideList]:
    """The brokers, which need a commit; its milliseconds; what is set aside, where the controller tells."""
    began = time.monotonic()
    cluster = await client.call(DESCRIBE_CLUSTER, DescribeCluster(), timeout_s=timeout_s)
    elapsed_ms = (time.monotonic() - began) * 1000
    try:
        set_aside = await client.call(LIST_SET_ASIDE, ListSetAside(), timeout_s=timeout_s)
    except ApiError as error:
        if error.code not in (ErrorCode.UNSUPPORTED_VERSION, ErrorCode.CLUSTER_AUTHORIZATION_FAILED):
            raise
        set_aside = SetAsideList()
    return cluster, elapsed_ms, set_aside


def _print_unhealthy(target: Target, reason: str, output_format: str) -> None:
    if output_format == JSON:
        echo_json({"healthy": False, "controllers": target.name, "reason": reason})
