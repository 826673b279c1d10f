"""``fencepost snapshot``: take one beside a running node, and say what one holds.

``create`` reads the node's store in its own reader transaction and writes the directory as the node does, so
a running node is not disturbed and gets no request; it is published by rename, in a folder of its own: the
node reads, sends and removes only those that it took itself. The folder keeps the ``KEPT_MAX`` newest.
"""

import fcntl
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import click
import msgspec

from fencepost.cli.images import SNAPSHOTS, read_image
from fencepost.cli.output import JSON, dir_option, echo_json, format_option
from fencepost.cli.snapshot_restore import restore_snapshot
from fencepost.cluster.console import Failed, Unreadable, WrongUsage, lines
from fencepost.cluster.local_cluster import LocalNode, open_cluster
from fencepost.records.invariant import CorruptData
from fencepost.records.schema import AllocateProducerIdsRecord, RegisterBrokerRecord
from fencepost.records.types import Log
from fencepost.settings.node_identity import read_identity
from fencepost.snapshots import snapshot as directories
from fencepost.snapshots.reader import Reader
from fencepost.snapshots.snapshot import CorruptSnapshot

BY_HAND: Final = "snapshots.by-hand"
KEPT_MAX: Final = 5  # by hand, of each node

node_option = click.option("--node", "node_id", type=int, help="Only this node.  [default: every node]")


@click.group()
def snapshot() -> None:
    """Snapshots: take one, check one."""


snapshot.add_command(restore_snapshot)


@snapshot.command()
@dir_option
@node_option
@format_option
def create(directory: Path, node_id: int | None, output_format: str) -> None:
    """Write a snapshot of a node's image as of its last flush, whether the node runs or not.

    It is taken now, and named by the ends of all logs. Of those made by hand a node keeps the newest 5; copy
    elsewhere what is to stay.
    """
    made: list[dict[str, Any]] = []
    for node in _nodes(directory, node_id):
        with _alone(node):
            path = _create(node)
            if path is not None:
                removed = [str(each) for each in _tidied(path.parent, path)]
                made.append({"node_id": node.node_id, "snapshot": str(path), "removed": removed})
    if not made:
        raise Unreadable(f"no node of {directory} has ever started")
    if output_format == JSON:
        echo_json({"snapshots": made})
        return
    for each in made:
        click.echo(f"node {each['node_id']}: {each['snapshot']}")
        for old in each["removed"]:
            click.echo(f"node {each['node_id']}: {old} was removed, {KEPT_MAX} newer ones are kept")


@contextmanager
def _alone(node: LocalNode) -> Iterator[None]:
    """One command at a time takes snapshots of a node: a second one waits. What a killed one left goes first.

    Both would write the same files, and the snapshot of either could be refused later.
    """
    folder = node.config.directory / BY_HAND
    try:
        folder.mkdir(parents=True, exist_ok=True)
        lock = (folder / ".lock").open("ab")
    except OSError as error:
        raise Failed(f"node {node.node_id}: no snapshot could be written: {error}") from error
    with lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        directories.sweep(folder)
        yield


def _create(node: LocalNode) -> Path | None:
    home = node.config.directory
    identity = read_identity(home)

    def write(reader: Reader) -> Path | None:
        if reader.header.version == 0:
            return None
        now_ms = time.time_ns() // 1_000_000
        aside = directories.write(
            reader, home / BY_HAND, cluster_id=identity.cluster_id, raft=reader.applied(), now_ms=now_ms
        )
        final = aside.with_name(directories.read_manifest(aside).full_name)
        directories.publish(aside, final)
        return final

    try:
        return read_image(home, write)
    except (OSError, msgspec.DecodeError) as error:
        raise Failed(f"node {node.node_id}: no snapshot could be written: {error}") from error


def _tidied(root: Path, taken: Path) -> list[Path]:
    """Remove all but the newest KEPT_MAX, ``taken`` among them; returns which. Raises Failed."""
    older = sorted((each for each in directories.listed(root) if each != taken), key=_taken_ms, reverse=True)
    gone = older[KEPT_MAX - 1 :]
    try:
        for each in gone:
            shutil.rmtree(each)
    except OSError as error:
        raise Failed(f"{taken} was written; an older one could not be removed: {error}") from error
    return gone


def _taken_ms(path: Path) -> int:
    """When a snapshot was taken; a corrupt one counts as the oldest."""
    try:
        return directories.read_manifest(path).timestamp_ms
    except CorruptSnapshot:
        return -1


@snapshot.command()
@click.argument("paths", metavar="[SNAPSHOT]...", nargs=-1, type=click.Path(path_type=Path))
@dir_option
@node_option
@format_option
def describe(paths: tuple[Path, ...], directory: Path, node_id: int | None, output_format: str) -> None:
    """Check every byte of SNAPSHOT directories and say what they hold; without any, of --dir's nodes' newest.

    Exit status: 0 sound, 1 torn or corrupt (says where), 2 wrong usage.
    """
    found = [path if path.is_dir() else path.parent for path in paths]
    if not found:
        for node in _nodes(directory, node_id):
            folders = (node.config.directory / SNAPSHOTS, node.config.directory / BY_HAND)
            taken = [each for folder in folders for each in directories.listed(folder)]
            found.extend(sorted(taken, key=_taken_ms, reverse=True)[:1])
    if not found:
        raise Unreadable(f"there is no snapshot in {directory} yet; type: fencepost snapshot create")
    described = []
    for path in found:
        try:
            described.append(_describe(path.absolute()))
        except CorruptSnapshot as error:
            raise Failed(str(error)) from error
        except CorruptData as error:
            raise Failed(f"{path}: {error}") from error
    if output_format == JSON:
        echo_json({"snapshots": described})
        return
    click.echo("\n\n".join(lines(_readable(each)) for each in described))


def _nodes(directory: Path, node_id: int | None) -> tuple[LocalNode, ...]:
    cluster = open_cluster(directory)
    return cluster.nodes if node_id is None else (cluster.node(node_id),)


def _describe(path: Path) -> dict[str, Any]:
    """The facts of a snapshot's directory. Raises CorruptData."""
    if not path.is_dir():
        raise WrongUsage(f"{path} is not a snapshot's directory")
    manifest, rows = directories.load(path)
    records = list(directories.checkpoint_records(path / f"{manifest.name}.checkpoint"))
    block = next((each for each in records if isinstance(each, AllocateProducerIdsRecord)), None)
    return {
        "snapshot": str(path),
        "cluster_id": manifest.cluster_id,
        "end_offset": manifest.log_ends[Log.METADATA],
        "epoch": manifest.controller_epoch,
        "raft_index": manifest.raft_index,
        "raft_term": manifest.raft_term,
        "image_version": manifest.version,
        "image_digest": manifest.digest,
        "taken": datetime.fromtimestamp(manifest.timestamp_ms / 1000, UTC).isoformat(timespec="milliseconds"),
        "log_ends": {log.directory: manifest.log_ends[log] for log in Log},
        "latest_block": None
        if block is None
        else {
            "broker_id": block.broker_id,
            "broker_epoch": block.broker_epoch,
            "end": block.producer_id_end,
        },
        "brokers": sum(isinstance(each, RegisterBrokerRecord) for each in records),
        "producer_id_records": sum(isinstance(each, AllocateProducerIdsRecord) for each in records),
        "rows": len(rows),
        "bytes": sum(size for size, _ in manifest.files.values()),
    }


def _readable(described: dict[str, Any]) -> dict[str, object]:
    return {
        name: ", ".join(f"{key} {each}" for key, each in value.items()) if isinstance(value, dict) else value
        for name, value in described.items()
    }
