"""``fencepost snapshot restore``: stopped nodes go on from a snapshot, as a cluster of its own.

Order       read everything; write the restored snapshot aside; then, for each node: what its quorum had goes
            into ``before-restore.N``, the snapshot into ``snapshots``, and meta.properties gets the new ids.
Killed      before the first node is changed, nothing happened. Later: the nodes are of two clusters, which
            refuse each other; the same command once more makes all of them of a third one.
Partitions  logs of partitions stay where they are, and are opened as a start opens them.
"""

import shutil
import time
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final
from uuid import UUID

import click

from fencepost.broker.log.log_directory import LogDirectoryInUse
from fencepost.broker.log.traces import Traces
from fencepost.cli.images import SNAPSHOTS
from fencepost.cli.node_config import read_config
from fencepost.cli.output import JSON, dir_option, echo_json, format_option
from fencepost.cluster.console import Failed, Unreadable, WrongUsage
from fencepost.cluster.local_cluster import open_cluster, renamed_cluster
from fencepost.controller.restoring import Found, ProducerIdsEnd, Restored, restore
from fencepost.records.invariant import CorruptData
from fencepost.records.types import Log, LogIndex, NodeId, Term
from fencepost.settings.config import NodeConfig
from fencepost.settings.meta_properties import META_PROPERTIES
from fencepost.settings.node_identity import (
    Identity,
    StorageError,
    id_text,
    of_restored,
    random_id,
    read_identity,
)
from fencepost.snapshots import snapshot as directories
from fencepost.snapshots.flushes import sync_path
from fencepost.snapshots.history import ARCHIVE_FOLDER, Allocation, producer_id_history
from fencepost.snapshots.reader import STORE
from fencepost.snapshots.rows import Row
from fencepost.snapshots.segments import ArchiveReader
from fencepost.snapshots.snapshot import CorruptSnapshot, Manifest
from fencepost.snapshots.store import Store, StoreInUse, require_unused

SKIP_IDS: Final = 1_000_000
ASIDE: Final = "before-restore."  # behind it a number
ASIDE_MAX: Final = 100  # kept in one directory
_MOVED: Final = (STORE, ARCHIVE_FOLDER, SNAPSHOTS)


@click.command("restore")
@click.argument("source", metavar="SNAPSHOT", type=click.Path(path_type=Path))
@dir_option
@click.option(
    "-c", "--config", "files", multiple=True, type=click.Path(path_type=Path),
    help="node.properties of a node, once for each node, in place of --dir.",
)  # fmt: skip
@click.option(
    "--skip-ids", type=click.IntRange(0), default=SKIP_IDS, show_default=True,
    help="Producer ids that are never given out, above all that the snapshot and the logs know.",
)  # fmt: skip
@click.option(
    "--same-cluster", is_flag=True, help="Keep the cluster id. Only with --old-cluster-is-destroyed."
)
@click.option(
    "--old-cluster-is-destroyed", is_flag=True, help="You say that no node of it will ever start again."
)
@format_option
def restore_snapshot(
    source: Path,
    directory: Path,
    files: tuple[Path, ...],
    skip_ids: int,
    same_cluster: bool,
    old_cluster_is_destroyed: bool,
    output_format: str,
) -> None:
    """Let stopped nodes go on from SNAPSHOT, whatever their quorum had since.

    For the loss of a majority of voters for good; a node alone comes back by itself. Name every node whose
    partition logs are to be kept, and at least a majority of the voters. What was decided after the snapshot
    is forgotten: topics, commits of offsets, outcomes of transactions.

    Producer ids go on above all that the snapshot, the archives and the partition logs hold, and --skip-ids
    more; every epoch is raised; transactions that are open are aborted; groups have no members. The nodes get
    a new cluster id, so that no node of the old cluster is taken for one of theirs. Voters that are not named
    are formatted anew, with that cluster id, and catch up.

    Exit status: 0 restored, 1 refused (says why), 2 wrong usage, 3 could not be read.
    """
    if same_cluster != old_cluster_is_destroyed:
        raise WrongUsage("--same-cluster and --old-cluster-is-destroyed are given together or not at all")
    configs = _configs(directory, files)
    try:
        identities = [read_identity(config.directory) for config in configs]
    except StorageError as error:
        raise Unreadable(str(error)) from error
    _require_majority(configs)
    manifest, rows = _loaded(source)
    _require_own(configs, identities, manifest)
    cluster_id = manifest.cluster_id if same_cluster else id_text(random_id())
    voter_ids = {config.node_id: random_id() for config in configs if config.is_controller}
    found = _traces(configs).found()
    with TemporaryDirectory(prefix="restore.", suffix=".part", dir=configs[0].directory) as aside:
        try:
            made, done = _remade(Path(aside), manifest, rows, found, cluster_id, voter_ids, skip_ids)
        except ProducerIdsEnd as error:
            raise Failed(str(error)) from error
        moved = [
            _give(config, identity, made, cluster_id, voter_ids)
            for config, identity in zip(configs, identities, strict=True)
        ]
    if not files:
        renamed_cluster(directory, cluster_id)
    _say(cluster_id, configs, done, moved, output_format)


def _remade(
    aside: Path,
    manifest: Manifest,
    rows: list[Row],
    found: Found,
    cluster_id: str,
    voter_ids: dict[NodeId, UUID],
    skip_ids: int,
) -> tuple[Path, Restored]:
    """The restored snapshot, written below ``aside``, and what was done. Raises ProducerIdsEnd."""
    now_ms = time.time_ns() // 1_000_000
    store = Store.open(aside / STORE)
    try:
        generation = store.fresh_generation()
        store.put_rows(generation, rows)
        store.flip(generation, manifest.header)
        done = restore(store.image, found, skip_ids=skip_ids, directories=voter_ids, now_ms=now_ms)
        store.flush()
        raft = LogIndex(manifest.raft_index), Term(max(manifest.raft_term, done.controller_epoch))
        with store.reader() as reader:
            made = directories.write(
                reader, aside / SNAPSHOTS, cluster_id=cluster_id, raft=raft, now_ms=now_ms
            )
    finally:
        store.close()
    return made, done


def _configs(directory: Path, files: Sequence[Path]) -> list[NodeConfig]:
    if files:
        return [read_config(file) for file in files]
    return [node.config for node in open_cluster(directory).nodes]


def _log_directories(config: NodeConfig) -> tuple[Path, ...]:
    """Every directory of a node, that of its quorum first."""
    return tuple(dict.fromkeys((config.directory, *config.log_directories)))


def _require_majority(configs: Sequence[NodeConfig]) -> None:
    """Raises WrongUsage."""
    named = {config.node_id for config in configs}
    if len(named) != len(configs):
        raise WrongUsage(f"a node is named twice: {[config.node_id for config in configs]}")
    voters = {voter.node_id for config in configs for voter in config.voters}
    if 2 * len(voters & named) <= len(voters):
        raise WrongUsage(
            f"of the voters {sorted(voters)} only {sorted(voters & named)} are named: expected a majority"
        )


def _require_own(configs: Sequence[NodeConfig], identities: Sequence[Identity], manifest: Manifest) -> None:
    """Raises Failed: a node is of another cluster than the snapshot, and no restore made it so."""
    for config, identity in zip(configs, identities, strict=True):
        root = config.directory
        if identity.cluster_id != manifest.cluster_id and not any(root.glob(f"{ASIDE}*")):
            raise Failed(
                f"{root} is of cluster {identity.cluster_id}, the snapshot of {manifest.cluster_id}: name a "
                "snapshot of this cluster. No node was changed"
            )


def _loaded(source: Path) -> tuple[Manifest, list[Row]]:
    """Raises Unreadable, Failed."""
    if not source.is_dir():
        raise Unreadable(f"{source} is not a snapshot's directory")
    try:
        return directories.load(source.absolute())
    except CorruptSnapshot as error:
        raise Failed(str(error)) from error


def _traces(configs: Sequence[NodeConfig]) -> Traces:
    """Raises Failed: a node runs, or its logs are damaged. Raises Unreadable."""
    traces, now_ms = Traces(), time.time_ns() // 1_000_000
    for config in configs:
        root = config.directory
        try:
            require_unused(root / STORE)
            for folder in _log_directories(config):
                traces.read_partitions(folder, now_ms)
            for log in Log:
                for stored in ArchiveReader(root / ARCHIVE_FOLDER / log.directory).read():
                    traces.archived(log, stored)
            if (root / ARCHIVE_FOLDER / Log.METADATA.directory).is_dir():
                for item in producer_id_history([root]):
                    if isinstance(item, Allocation):
                        traces.allocated(item.end)
        except (LogDirectoryInUse, StoreInUse) as error:
            raise Failed(str(error)) from error
        except CorruptData as error:
            raise Failed(f"{error}. No node was changed: what these bytes held is not known") from error
        except OSError as error:
            raise Unreadable(f"{root}: {error}") from error
    return traces


def _give(
    config: NodeConfig,
    identity: Identity,
    made: Path,
    cluster_id: str,
    voter_ids: dict[NodeId, UUID],
) -> str:
    """Make a node's directory one of the restored cluster; returns where its old files are. Raises Failed."""
    root = config.directory
    try:
        kept = next(
            each for number in range(1, ASIDE_MAX + 1) if not (each := root / f"{ASIDE}{number}").exists()
        )
    except StopIteration:
        raise Failed(
            f"{root} has {ASIDE_MAX} folders {ASIDE}N already; remove those that are of no use"
        ) from None
    try:
        kept.mkdir()
        for name in _MOVED:
            if (root / name).exists():
                (root / name).rename(kept / name)
        if config.is_controller:
            part = root / SNAPSHOTS / f"{made.name}.part"
            shutil.copytree(made, part)
            for file in part.iterdir():
                sync_path(file)
            directories.publish(part, root / SNAPSHOTS / made.name)
        sync_path(root)
        for folder in _log_directories(config):
            if folder != root and (folder / META_PROPERTIES).exists():
                other = read_identity(folder)
                of_restored(folder, other, cluster_id, other.voter_id)
        of_restored(root, identity, cluster_id, voter_ids.get(config.node_id, identity.voter_id))
    except (OSError, StorageError) as error:
        raise Failed(f"{root}: {error}. Type the same command again once that is mended") from error
    return str(kept)


def _say(
    cluster_id: str, configs: Sequence[NodeConfig], done: Restored, moved: Sequence[str], output_format: str
) -> None:
    document = {
        "cluster_id": cluster_id,
        "nodes": [
            {"node_id": config.node_id, "directory": str(config.directory), "before": kept}
            for config, kept in zip(configs, moved, strict=True)
        ],
        "producer_id_end_before": done.producer_id_end_before,
        "producer_id_end": done.producer_id_end,
        "controller_epoch": done.controller_epoch,
        "aborted": list(done.aborted),
        "decided": list(done.decided),
        "groups": done.groups,
    }
    if output_format == JSON:
        echo_json(document)
        return
    click.echo(
        f"Cluster {cluster_id}: nodes {', '.join(str(config.node_id) for config in configs)} are restored."
    )
    click.echo(
        f"Producer ids go on at {done.producer_id_end}, by the snapshot at {done.producer_id_end_before}."
    )
    click.echo(f"Aborted: {', '.join(done.aborted) or 'no transaction'}.")
    if done.decided:
        click.echo(f"Their outcome was decided, markers follow: {', '.join(done.decided)}.")
    click.echo(f"{done.groups} groups have no members. What the quorum had before is in {', '.join(moved)}.")
