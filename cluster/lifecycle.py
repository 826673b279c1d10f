"""Starting and ending the nodes of a local cluster."""

import signal
from collections.abc import Sequence
from subprocess import Popen
from typing import Final

import click

from fencepost.cluster import local_cluster, node_process
from fencepost.cluster.console import Failed, progress
from fencepost.cluster.local_cluster import LocalCluster, LocalNode
from fencepost.cluster.node_process import Spawn
from fencepost.cluster.state import await_live
from fencepost.records.types import NodeId

STOP_SECONDS_MAX: Final = 15.0  # a clean stop hands leadership over; a node that needs longer is killed


def bring_up(cluster: LocalCluster, spawned_by: Spawn | None = None) -> dict[NodeId, Popen[bytes]]:
    """Start every node that is not there and wait until the cluster is live. Raises Failed."""
    paused = [node for node in cluster.nodes if node.status() == "stopped"]
    if paused:
        numbers = ", ".join(str(node.node_id) for node in paused)
        raise Failed(
            f"node {numbers} is stopped by a signal; 'fencepost kill NODE --signal CONT' lets it go on"
        )
    missing = [node for node in cluster.nodes if node.pid() is None]
    for node in missing:
        if node.status() == "dead":
            click.echo(f"node {node.node_id} had died; starting it again", err=True)
    children = start_nodes(cluster, missing, spawned_by)
    try:
        with progress() as show:
            await_live(cluster, children, show)
    except BaseException:
        stop_nodes([cluster.node(node_id) for node_id in children])
        raise
    return children


def start_nodes(
    cluster: LocalCluster, nodes: Sequence[LocalNode], spawned_by: Spawn | None = None
) -> dict[NodeId, Popen[bytes]]:
    """Start these nodes' processes, or none of them. Raises Failed with every reason against it."""
    with cluster.lock():
        wanted = [node for node in nodes if node.pid() is None]  # another command may have been faster
        local_cluster.require_startable(cluster, wanted)
        children = {}
        for node in wanted:
            arguments = ["node", "--config", str(node.directory / local_cluster.CONFIG)]
            children[node.node_id] = node_process.start(node.directory, arguments, spawned_by)
        return children


def send(node: LocalNode, number: signal.Signals) -> bool:
    """Signal a node's process; after KILL and TERM wait for its end. False if it was not there."""
    recorded = node_process.recorded(node.directory)
    if recorded is None or not recorded.send(number):
        return False
    if number in (signal.SIGKILL, signal.SIGTERM):
        node_process.wait_until(lambda: recorded.status() == "dead", STOP_SECONDS_MAX)
    else:
        expected = "stopped" if number == signal.SIGSTOP else "running"
        node_process.wait_until(lambda: recorded.status() in (expected, "dead"), STOP_SECONDS_MAX)
    if number == signal.SIGTERM and recorded.status() == "dead":
        node_process.forget(node.directory)
    return True


def stop_nodes(nodes: Sequence[LocalNode]) -> list[LocalNode]:
    """Ask all to end, and wait. Returns those that had to be killed."""
    for node in nodes:
        recorded = node_process.recorded(node.directory)
        if recorded is not None:
            recorded.send(signal.SIGTERM)
            recorded.send(signal.SIGCONT)  # a stopped process sees the other signal only now
    node_process.wait_until(lambda: all(node.pid() is None for node in nodes), STOP_SECONDS_MAX)
    killed = [node for node in nodes if node.pid() is not None]
    for node in killed:
        send(node, signal.SIGKILL)
    for node in nodes:
        node_process.forget(node.directory)
    return killed
