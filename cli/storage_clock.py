"""``fencepost storage accept-clock``: an operator says that a clock that jumped is right."""

from pathlib import Path

import click

from fencepost.cli.node_config import read_config
from fencepost.cli.output import JSON, dir_option, echo_json, format_option
from fencepost.cluster.console import Failed, Unreadable
from fencepost.cluster.local_cluster import open_cluster
from fencepost.settings.config import NodeConfig
from fencepost.settings.node_clock import LOOK_S, accept
from fencepost.settings.node_identity import StorageError, read_identity


@click.command("accept-clock")
@click.option("-c", "--config", "file", type=click.Path(path_type=Path), help="One node's node.properties.")
@dir_option
@click.option("--node", "node_id", type=int, help="Only this node of --dir.")
@format_option
def accept_clock(file: Path | None, directory: Path, node_id: int | None, output_format: str) -> None:
    """Say that the clock of a node is right, though it jumped: what is past its time by it may be deleted.

    A node whose clock leaves the boot-time clock of its machine by over an hour deletes and expires nothing,
    and logs clock_jumped. A running node takes this word within some seconds, a stopped one at its next
    start; a clock that has not jumped is not changed by it.
    """
    if file is not None:
        configs = [read_config(file)]
    else:
        cluster = open_cluster(directory)
        configs = [node.config for node in (cluster.nodes if node_id is None else (cluster.node(node_id),))]
    for config in configs:
        _accept(config)
    if output_format == JSON:
        echo_json({"nodes": [{"node_id": each.node_id, "accepted": True} for each in configs]})
        return
    for each in configs:
        click.echo(f"node {each.node_id}: its clock counts, within {LOOK_S:.0f} s or from its next start on")


def _accept(config: NodeConfig) -> None:
    try:
        read_identity(config.directory)
    except StorageError as error:
        raise Unreadable(str(error)) from error
    try:
        accept(config.directory)
    except OSError as error:
        raise Failed(f"{config.directory}: {error}") from error
