"""Other sources of the block than a live ZooKeeper: its servers' files, or an export of its znodes.

Bound       neither can fence anything. They move a cluster only with the operator's word that ZooKeeper is
            stopped for good, and only if they are whole: files of a majority of the servers; an export
            against log directories in which no higher producer id is seen. ``reasons`` says what is missing.

Source      docs/design.md 7.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Final, NamedTuple

from fencepost.bridge.data_tree import Znodes, under
from fencepost.bridge.ensemble import members, read_ensemble
from fencepost.bridge.export import read_export
from fencepost.bridge.files import ServerFiles
from fencepost.bridge.kafka_znodes import CLUSTER_ID_PATH, parse_cluster_id
from fencepost.bridge.live_port import cluster_name
from fencepost.bridge.strict_json import Misshaped
from fencepost.bridge.znodes import BLOCK_PATH, Fence, ZnodeBlock, parse_block
from fencepost.cli.highest_id import Seen
from fencepost.cluster.console import Failed, Unreadable, WrongUsage
from fencepost.controller.migration import NO_BLOCK
from fencepost.records.invariant import CorruptData

LIVE: Final = "live"
FILES: Final = "files"
JSON_FILE: Final = "json"
NOT_STOPPED: Final = "it is not said that ZooKeeper is stopped for good (--zookeeper-is-stopped)"
NO_BLOCK_THERE: Final = "they hold no producer-id block; if there never was one, say so (--no-block-yet)"


class Source(NamedTuple):
    """What a stopped ZooKeeper holds. ``block_end`` is inclusive, -1 for no block yet."""

    kind: str
    ensemble: str  # as the log names it, see ``cluster_name``
    block_end: int
    block_start: int  # -1 for none
    zk_version: int
    zxid: int
    fence: Fence | None  # then ``block_end`` is what the fence took the place of
    reasons: tuple[str, ...]  # why it must not move a cluster
    remarks: tuple[str, ...]


def from_files(paths: Sequence[Path], chroot: str, size: int | None) -> Source:
    """The tree that the servers' files hold; each path a dataDir, or ``dataDir:dataLogDir``.

    Raises   WrongUsage, Unreadable naming the file, Failed for a block that nothing can go on from.
    """
    if not paths:
        raise WrongUsage("--from files: name the dataDir of each server")
    try:
        tree = read_ensemble([_server(path) for path in paths], size)
    except (CorruptData, OSError) as error:
        raise Unreadable(str(error)) from error
    chosen = tree.chosen
    remarks = [f"{chosen.files.data} holds the last transaction, {chosen.zxid:#x}", *chosen.remarks]
    remarks += [f"{each.files.data} counts for nothing: {each.error}" for each in tree.unreadable]
    place = ",".join(sorted((members(chosen.znodes) or {}).values())) or str(chosen.files.data)
    return _source(FILES, chosen.znodes, chroot, place, chosen.zxid, tree.reasons, tuple(remarks))


def from_json(path: Path) -> Source:
    """What ``migrate export-znodes`` wrote. Raises Unreadable, Failed."""
    try:
        export = read_export(path)
    except (Misshaped, OSError) as error:
        raise Unreadable(str(error)) from error
    place = ",".join(sorted((members(export.znodes) or {}).values())) or export.source.partition("/")[0]
    remark = f"{path} was taken from {export.source} at transaction {export.zxid:#x}"
    return _source(JSON_FILE, export.znodes, "", place + export.chroot, export.zxid, (), (remark,))


def checked_against(source: Source, seen: Seen | None) -> Source:
    """With what the log directories say about an export; they are its only witness."""
    if source.kind != JSON_FILE:
        return source
    if seen is None:
        reason = "an export may be old: name Kafka's log.dirs to check it against (--log-dir)"
        return source._replace(reasons=(*source.reasons, reason))
    if seen.producer_id > source.block_end:
        reason = (
            f"the export is older than the logs: its block ends at {source.block_end}, but {seen.file} "
            f"shows producer id {seen.producer_id}"
        )
        return source._replace(reasons=(*source.reasons, reason))
    return source


def _server(path: Path) -> ServerFiles:
    data, colon, log = str(path).partition(":")
    return ServerFiles(Path(data), Path(log) if colon else None)


def _source(
    kind: str,
    whole: Znodes,
    chroot: str,
    place: str,
    zxid: int,
    reasons: tuple[str, ...],
    remarks: tuple[str, ...],
) -> Source:
    """Raises Unreadable for znodes that Kafka did not write, Failed if there is no block to go on from."""
    znodes = under(whole, chroot)
    where = chroot or "/"
    block = znodes.get(BLOCK_PATH)
    if block is None:
        near = sorted(path.removesuffix(BLOCK_PATH) for path in whole if path.endswith(BLOCK_PATH))
        hint = f"; there is one below {', '.join(near)}: --zookeeper HOST:PORT/CHROOT" if near else ""
        raise Failed(f"there is no {BLOCK_PATH} below {where}: was this Kafka's ZooKeeper?{hint}")
    cluster = znodes.get(CLUSTER_ID_PATH)
    try:
        parsed = parse_block(block.data, block.version)
        cluster_id = None if cluster is None else parse_cluster_id(cluster.data)
    except Misshaped as error:
        raise Unreadable(str(error)) from error
    if isinstance(parsed, ZnodeBlock) and parsed.is_exhausted:
        raise Failed(
            f"the block ends at {parsed.last}, where all producer ids end, and it is no fence of fencepost: "
            "there is nothing to go on from. Is it another program's fence?"
        )
    fence = parsed if isinstance(parsed, Fence) else None
    last = parsed.block_last if isinstance(parsed, Fence) else None if parsed is None else parsed.last
    return Source(
        kind=kind,
        ensemble=cluster_name(cluster_id, cluster.created_zxid if cluster else None, place + chroot),
        block_end=NO_BLOCK if last is None else last,
        block_start=parsed.first if isinstance(parsed, ZnodeBlock) else NO_BLOCK,
        zk_version=block.version,
        zxid=zxid,
        fence=fence,
        reasons=reasons,
        remarks=remarks,
    )
