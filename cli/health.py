"""``fencepost health``: healthy is a quorum that has just committed something."""

import time
from pathlib import Path

import click

from cli.contact import Target, ask, find_target, target_options
from cli.output import JSON, Failed, NotAuthorized, echo_json, format_option
from wire.k60_describe_cluster import DESCRIBE_CLUSTER, DescribeCluster


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
    """
    target = find_target(directory, bootstrap_controller, command_config)
    began = time.monotonic()
    try:
        cluster = ask(target, DESCRIBE_CLUSTER, DescribeCluster(), timeout_s=timeout_s)
    except NotAuthorized:
        raise
    except click.ClickException as error:
        _print_unhealthy(target, error.message, output_format)
        raise Failed(f"not healthy: {error.message}") from error
    elapsed_ms = (time.monotonic() - began) * 1000
    if output_format == JSON:
        echo_json(
            {
                "healthy": True,
                "cluster_id": cluster.cluster_id,
                "leader": cluster.controller_id,
                "brokers": len(cluster.brokers),
                "commit_ms": round(elapsed_ms, 3),
            }
        )
        return
    click.echo(
        f"healthy: node {cluster.controller_id} leads, {len(cluster.brokers)} brokers are live, "
        f"found the leader and committed in {elapsed_ms:.1f} ms"
    )


def _print_unhealthy(target: Target, reason: str, output_format: str) -> None:
    if output_format == JSON:
        echo_json({"healthy": False, "controllers": target.name, "reason": reason})
