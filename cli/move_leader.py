"""``fencepost move-leader``: another node is to lead, without a death (Raft thesis 3.10, as etcdctl's)."""

import time
from pathlib import Path

import click

from fencepost.cli.output import JSON, echo_json, format_option
from fencepost.cli.target_options import find_target, target_options
from fencepost.cluster import leader_move


@click.command("move-leader", short_help="Hand leadership to another node.")
@click.argument("node", metavar="[NODE]", type=click.IntRange(0, 2**31 - 1), required=False)
@target_options
@format_option
def move_leader(
    node: int | None,
    directory: Path,
    bootstrap_controller: str | None,
    command_config: Path | None,
    output_format: str,
) -> None:
    """Hand leadership to NODE, or to whichever other voter is ready first, and wait until it leads.

    Nothing is lost and nothing dies: the leader decides no more, and the voter campaigns once it has the
    whole log. If it does not within a second the leader leads on, and the command ends with status 1.
    """
    target = find_target(directory, bootstrap_controller, command_config)
    begun_s = time.monotonic()
    before, after = leader_move.move_leader(target, node)
    took_ms = round((time.monotonic() - begun_s) * 1000)
    if output_format == JSON:
        echo_json(
            {
                "From": before.leader_id,
                "To": after.leader_id,
                "LeaderEpoch": after.leader_epoch,
                "TookMs": took_ms,
            }
        )
    elif before.leader_id == after.leader_id:
        click.echo(f"node {after.leader_id} leads already, in epoch {after.leader_epoch}")
    else:
        click.echo(
            f"node {after.leader_id} leads in epoch {after.leader_epoch}, "
            f"after node {before.leader_id} in {before.leader_epoch}; it took {took_ms} ms"
        )
