"""``fencepost storage verify``: read a stopped node's directories whole, and say what is damaged.

Parts       identity, clock, store (image and journal), archive, snapshots; log directories, where logs begin
            whose first records were deleted ("starts"), which logs were made ("hosted"), partition logs.
Changes     nothing: what the store's checks would put right is not committed.
Store       is read in a process of its own: a broken page ends the process that reads it, which is a finding.
"""

import os
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, suppress
from functools import partial
from pathlib import Path
from typing import Any, Final

import click
import msgspec

from fencepost.broker.hosted_logs import HOSTED_LOGS, HostedLogs
from fencepost.broker.log.checkpoints import PARTITION_FILE, load_topic_id
from fencepost.broker.log.log_directory import LOCK_FILE, LogDirectory, LogDirectoryInUse
from fencepost.broker.log.log_starts import COPY, LOG_STARTS, read_starts
from fencepost.broker.log.repair import inspect
from fencepost.cli.images import SNAPSHOTS
from fencepost.cli.node_config import read_config
from fencepost.cli.output import JSON, dir_option, echo_json, format_option
from fencepost.cli.snapshot import BY_HAND
from fencepost.cluster.console import Failed, Unreadable
from fencepost.cluster.local_cluster import open_cluster
from fencepost.quorum.journal import Journal
from fencepost.quorum.older_store import is_new, is_noted, require_own_age
from fencepost.quorum.opened_store import require_own, saved_position
from fencepost.quorum.store_starts import read_beside, require_latest
from fencepost.records.invariant import CorruptData, InvariantViolation
from fencepost.records.levels import LevelTooHigh
from fencepost.records.types import Log, LogIndex, NodeId, Offset
from fencepost.settings.config import NodeConfig
from fencepost.settings.meta_properties import META_PROPERTIES
from fencepost.settings.node_clock import CLOCK, read_kept
from fencepost.settings.node_identity import (
    NotFormatted,
    StorageError,
    id_text,
    read_identity,
    require_identity,
)
from fencepost.snapshots import snapshot
from fencepost.snapshots.checksums import torn_sums
from fencepost.snapshots.reader import STORE, is_written
from fencepost.snapshots.segments import LOG_START, ArchiveReader, Hole, archive_owner, list_segments
from fencepost.snapshots.store import STORE_FAILURES, Store, StoreInUse
from fencepost.snapshots.sums import StoreDamaged, Verdict

FINDINGS: Final = 1  # the exit status while something is damaged
ARCHIVE: Final = "archive"
NO_LOCK: Final = (
    "it says in which start of the machine the logs were open last: without it an end that a crash of the "
    "machine may have torn counts as torn, here and at the next start, also where a byte of it changed"
)
NO_START: Final = (
    "it does not begin at offset 0, no retention is set, and no hole says why: what was before is lost, or "
    "an earlier setting deleted it. fencepost storage repair --archive takes it from another node, or makes "
    "it a named hole"
)


class Part(msgspec.Struct, frozen=True, kw_only=True):
    """One part of a directory. ``reason``: why it is damaged, what a start will cut off, or ""."""

    part: str
    path: str
    sound: bool
    holds: str
    reason: str = ""


Look = Callable[[], tuple[str, str]]
"""What a part holds, and what is to be said of it though it is sound. Raises what it is damaged by."""

_DAMAGE: Final = (CorruptData, StoreDamaged, StorageError, InvariantViolation, ValueError, *STORE_FAILURES)


@click.command()
@click.option("-c", "--config", "file", type=click.Path(path_type=Path), help="One node's node.properties.")
@dir_option
@click.option("--node", "node_id", type=int, help="Only this node of --dir.")
@format_option
def verify(file: Path | None, directory: Path, node_id: int | None, output_format: str) -> None:
    """Read every byte of a stopped node's directory: store, journal, archive, snapshots and partition logs.

    Nothing is changed.

    Exit status: 0 sound, 1 something is damaged (says what), 2 wrong usage, 3 could not be read.
    """
    if file is not None:
        configs = [read_config(file)]
    else:
        cluster = open_cluster(directory)
        configs = [node.config for node in (cluster.nodes if node_id is None else (cluster.node(node_id),))]
    found = {config.node_id: list(parts_of(config)) for config in configs}
    if output_format == JSON:
        echo_json({"nodes": [_document(node, parts) for node, parts in found.items()]})
    else:
        click.echo("\n".join(line for node, parts in found.items() for line in _lines(node, parts)))
    if not all(part.sound for parts in found.values() for part in parts):
        sys.exit(FINDINGS)


def parts_of(config: NodeConfig) -> Iterator[Part]:
    """Every part of a node's directories, in a fixed order. Raises Failed while its node runs, Unreadable."""
    home = config.directory
    if not (home / META_PROPERTIES).exists():
        raise Unreadable(f"{home} is not formatted (no {META_PROPERTIES})")
    with ExitStack() as stack:
        try:
            locks = {root: _locked(root, stack) for root in config.log_directories}
            yield from _of_home(config)
            for root in config.log_directories:
                if root != home:
                    yield _looked("log dir", root, partial(_log_directory, root, home))
                if (root / LOG_STARTS).exists() or (root / COPY).exists():
                    yield _looked("starts", root / LOG_STARTS, partial(_starts, root))
                lock = locks[root]
                went_down = lock is None or lock.machine_went_down
                folders = sorted(each.parent for each in root.glob(f"*/{PARTITION_FILE}"))
                if lock is None and folders:
                    path = str(root / LOCK_FILE)
                    yield Part(part="lock", path=path, sound=True, holds="none", reason=NO_LOCK)
                for folder in folders:
                    yield _looked("partition", folder, partial(_partition, folder, home, went_down))
            yield from _lost(config)
        except LogDirectoryInUse as error:
            raise Failed(str(error)) from error
        except OSError as error:
            raise Unreadable(f"{home}: {error}") from error


def _locked(root: Path, stack: ExitStack) -> LogDirectory | None:
    """Raises LogDirectoryInUse, OSError."""
    if not (root / LOCK_FILE).exists():
        return None
    lock = LogDirectory(root)
    stack.callback(lock.release)
    return lock


def _of_home(config: NodeConfig) -> Iterator[Part]:
    home = config.directory
    yield _looked("identity", home / META_PROPERTIES, partial(_identity, home, config.node_id))
    if (home / CLOCK).exists():
        yield _looked("clock", home / CLOCK, partial(_clock, home))
    ends: dict[Log, Offset] = {}
    archives = list(_archives(config, ends))  # first: they say how old the store must be
    if is_written(home / STORE):
        yield _in_a_child("store", home / STORE, partial(_store, config, ends))
    elif config.is_controller and _has_store(home):
        reason = "lost: data.mdb is missing or empty; with other voters the node joins again at its start"
        yield Part(part="store", path=str(home / STORE), sound=False, holds="", reason=reason)
    if (home / HOSTED_LOGS).exists():
        yield _looked("hosted", home / HOSTED_LOGS, partial(_hosted, home))
    yield from archives
    for folder in (home / SNAPSHOTS, home / BY_HAND):
        for each in snapshot.listed(folder):
            yield _looked("snapshot", each, partial(_snapshot, each))


def _archives(config: NodeConfig, ends: dict[Log, Offset]) -> Iterator[Part]:
    for log in Log:
        folder = config.directory / ARCHIVE / log.directory
        if folder.exists():
            yield _looked("archive", folder, partial(_archive, folder, config, log, ends))


def _has_store(home: Path) -> bool:
    with suppress(StorageError):
        return read_identity(home).has_store
    return False


def _lost(config: NodeConfig) -> Iterator[Part]:
    """A part for each log that is not where it was made. Raises OSError."""
    hosted = HostedLogs(config.directory)
    hosted.load()
    roots = {}
    for root in config.log_directories:
        with suppress(StorageError):
            roots[read_identity(root).directory_id] = root
    for log in hosted:
        at = roots.get(log.directory_id)
        if at is None:
            missing = f"log directory {id_text(log.directory_id)} is not there"
            yield Part(part="partition", path=str(log), sound=False, holds="", reason=f"lost: {missing}")
        elif not (at / str(log) / PARTITION_FILE).exists():
            path = str(at / str(log))
            yield Part(part="partition", path=path, sound=False, holds="", reason="lost: it is not there")


def _log_directory(root: Path, home: Path) -> tuple[str, str]:
    """Raises StorageError."""
    found, own = read_identity(root), read_identity(home)
    require_identity(root, found, cluster_id=own.cluster_id, node_id=own.node_id)
    return f"directory.id {id_text(found.directory_id)}", ""


def _starts(root: Path) -> tuple[str, str]:
    """Raises CorruptData, OSError."""
    found = read_starts(root)
    if found.wrong:
        raise CorruptData(found.wrong)
    return f"where {len(found.by_folder)} partitions begin", ""


def _hosted(home: Path) -> tuple[str, str]:
    """Raises CorruptData, OSError."""
    hosted = HostedLogs(home)
    if unread := hosted.load():
        raise CorruptData(f"{unread} lines make no sense, or are not as they were written")
    return f"{len(tuple(hosted))} logs are remembered", ""


def _identity(root: Path, node_id: NodeId) -> tuple[str, str]:
    """Raises StorageError."""
    identity = read_identity(root)
    require_identity(root, identity, cluster_id=None, node_id=node_id)
    if identity.meta_fault:
        raise CorruptData(identity.meta_fault)
    return f"node {identity.node_id} of cluster {identity.cluster_id}", identity.bootstrap_fault


def _clock(root: Path) -> tuple[str, str]:
    """Raises DamagedClock."""
    kept = read_kept(root)
    return "none" if kept is None else f"kept at {kept.trusted_ms} ms", ""


def _looked(part: str, path: Path, look: Look) -> Part:
    try:
        holds, said = look()
    except LevelTooHigh as error:
        return Part(part=part, path=str(path), sound=True, holds=str(error))
    except _DAMAGE as error:
        return Part(part=part, path=str(path), sound=False, holds="", reason=str(error))
    return Part(part=part, path=str(path), sound=True, holds=holds, reason=said)


def _in_a_child(part: str, path: Path, look: Look) -> Part:
    """See ``_looked``. Raises Failed if a node has the store open."""
    reads, writes = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.close(reads)
            try:
                found = msgspec.json.encode(_looked(part, path, look))
            except StoreInUse as error:
                found = msgspec.json.encode(str(error))
            with os.fdopen(writes, "wb") as stream:
                stream.write(found)
        finally:
            os._exit(0)
    os.close(writes)
    with os.fdopen(reads, "rb") as stream:
        raw = stream.read()
    _, status = os.waitpid(child, 0)
    if os.WIFSIGNALED(status):
        reason = (
            f"the process that read it died by signal {os.WTERMSIG(status)}: a page of the file is broken"
        )
        return Part(part=part, path=str(path), sound=False, holds="", reason=reason)
    if not raw:
        raise Unreadable(f"{path}: the process that read it ended without a word")
    answer = msgspec.json.decode(raw, type=Part | str)
    if isinstance(answer, str):
        raise Failed(answer)
    return answer


def _store(config: NodeConfig, ends: Mapping[Log, Offset]) -> tuple[str, str]:
    """``ends``: of the last batches of its archives. Raises as Store.open, and what it is damaged by."""
    home = config.directory
    store = Store.open(home / STORE)
    try:
        verdict = store.verify_image()
        if verdict is Verdict.DAMAGED:
            raise StoreDamaged(
                "the image's rows are not those that were written: their sum is not the sealed one, or "
                "neither that nor its copy can be read"
            )
        journal = Journal(store)
        with suppress(NotFormatted):  # which the identity's part says
            require_own(store, home, read_identity(home))
            require_latest(store, home, read_identity(home))
        if not is_new(store, journal) or is_noted(store):
            applied, _ = saved_position(store) or (LogIndex(1), None)
            require_own_age(store, ends, journal, applied)
        seal = "not sealed yet" if verdict is Verdict.UNSEALED else "its sum is the sealed one"
        entries = f"journal of entries {journal.first_index} to {journal.last_index}"
        holds = f"image version {store.image.header.version}, {seal}; {entries}"
        mended = ", ".join(sorted(store.mended))
        said = f"not as written, put right by a start: {mended}" if mended else ""
        return holds, "; ".join(each for each in (said, read_beside(home).wrong) if each)
    finally:
        store.abandon()


def _archive(folder: Path, config: NodeConfig, log: Log, ends: dict[Log, Offset]) -> tuple[str, str]:
    """Notes where its last batch ends. Raises CorruptData, StorageError."""
    owner = archive_owner(read_identity(config.directory).cluster_id, log)
    reader = ArchiveReader(folder, owner=owner)
    batches, end = 0, reader.start
    for stored in reader.read():
        batches, end = batches + 1, stored.header.end
        ends[log] = end
    holds = f"offsets {reader.start} to {end - 1}, {batches} batches, {len(reader.holes)} holes"
    is_whole = reader.start == LOG_START or Hole(LOG_START, reader.start) in reader.holes
    no_start = NO_START if config.keeps_archive(log) and not is_whole else ""
    torn = torn_sums(each.path for each in list_segments(folder))
    return holds, "; ".join(each for each in (no_start, torn) if each)


def _snapshot(folder: Path) -> tuple[str, str]:
    """Raises CorruptSnapshot."""
    manifest, rows = snapshot.load(folder)
    return f"image version {manifest.version}, {len(rows)} rows", ""


def _partition(folder: Path, home: Path, went_down: bool) -> tuple[str, str]:
    """Raises CorruptData, OSError, StorageError."""
    hosted = HostedLogs(home)
    hosted.load()
    made = {log.topic_id for log in hosted if str(log) == folder.name}
    topic_id = load_topic_id(folder)
    if made and topic_id not in made:
        said = f"topic id {topic_id and id_text(topic_id)}, {HOSTED_LOGS} {' or '.join(map(id_text, made))}"
        raise CorruptData(f"{folder / PARTITION_FILE} says {said}")
    start = read_starts(folder.parent).by_folder.get(folder.name, LOG_START)
    found = inspect(folder, machine_went_down=went_down, deleted_before=start)
    if found.damage is not None:
        raise CorruptData(str(found.damage))
    if found.changed is not None:
        raise CorruptData(found.changed)
    torn = "" if found.torn is None else f"torn by a crash, cut at the next start: {found.torn}"
    said = "; ".join(each for each in (torn, found.not_compared) if each)
    return f"offsets {found.start} to {found.end - 1} in {found.segments} segments", said


def _document(node_id: int, parts: list[Part]) -> dict[str, Any]:
    return {
        "node_id": node_id,
        "sound": all(part.sound for part in parts),
        "parts": [msgspec.structs.asdict(part) for part in parts],
    }


def _lines(node_id: int, parts: list[Part]) -> Iterator[str]:
    damaged = sum(not part.sound for part in parts)
    yield f"node {node_id}: {len(parts)} parts, {'all sound' if not damaged else f'{damaged} damaged'}"
    for part in parts:
        state = "sound" if part.sound else "DAMAGED"
        said = "; ".join(each for each in (part.holds, part.reason) if each)
        yield f"  {state:8}{part.part:10}{part.path}: {said}"
