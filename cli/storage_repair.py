"""``fencepost storage repair``: a stopped node's partition log, its archives, or whose image it takes."""

import sys
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import click

from fencepost.broker.log.log_directory import LogDirectory, LogDirectoryInUse
from fencepost.broker.log.log_starts import read_starts
from fencepost.broker.log.put_back import Changed, put_back
from fencepost.broker.log.repair import Inspected, cut, inspect
from fencepost.cli.node_config import read_config
from fencepost.cli.output import JSON, dir_option, echo_json, format_option
from fencepost.cli.storage_repair_archive import repair_archives
from fencepost.cluster.console import Failed, Unreadable, WrongUsage
from fencepost.cluster.local_cluster import open_cluster
from fencepost.quorum import image_marks
from fencepost.records.types import NodeId, Offset
from fencepost.settings.config import NodeConfig
from fencepost.snapshots.history import ARCHIVE_FOLDER
from fencepost.snapshots.reader import STORE, is_written
from fencepost.snapshots.segments import LOG_START
from fencepost.snapshots.store import STORE_FAILURES, StoreInUse

DAMAGED = 1  # the exit status while a damage is there


@click.command()
@click.option("-c", "--config", "file", type=click.Path(path_type=Path), help="One node's node.properties.")
@dir_option
@click.option("--node", "node_id", type=int, help="A node of --dir.")
@click.option("--partition", "name", metavar="TOPIC-PARTITION", help="As logs name it: orders-0.")
@click.option(
    "--trust", type=int, metavar="NODE", help="Go on with the image of that voter, or with this node's own."
)
@click.option(
    "--accept-data-loss", is_flag=True, help="Cut: give up what lies at and behind the damage, for good."
)
@click.option(
    "--restore", is_flag=True, help="Put back a header field that alone changed, where that is proven."
)
@click.option("--archive", is_flag=True, help="Put right the archives of committed records.")
@click.option(
    "--from",
    "peers",
    type=click.Path(path_type=Path),
    multiple=True,
    metavar="DIRECTORY",
    help="With --archive: another node's log directory, or a copy. Repeatable; default: the others of --dir.",
)
@format_option
def repair(
    file: Path | None,
    directory: Path,
    node_id: int | None,
    name: str | None,
    trust: int | None,
    accept_data_loss: bool,
    restore: bool,
    archive: bool,
    peers: tuple[Path, ...],
    output_format: str,
) -> None:
    """Read a partition's log whole, and say what is wrong with it and what a cut there would lose.

    The node must be stopped. Nothing is changed without --restore or --accept-data-loss; copy the folder
    first, if it may still be of use. An end that a crash tore is no damage: the next start cuts it.

    Where one field of a batch's header changed that the batch's checksum does not cover (its offset, length,
    leader epoch, format or the checksum itself), the checksum of the segment may prove what it was. Then
    --restore puts it back, and nothing is lost; --accept-data-loss does the same, and cuts nothing.

    With --trust NODE: images of the voters differ, no majority agrees, and you say which one is right. Give
    the word to each other voter; then NODE has to lead, and sends them its image. A voter that is given its
    own number goes on with what it has. What the others answered from their images may not be in NODE's.

    With --archive: segments of this node's archives that are not what was written are taken from the
    archives of other nodes, which may run meanwhile; the damaged files stay, as *.damaged. What none of them
    has is set aside with --accept-data-loss, as a named hole: this node's history lacks it, its state does
    not.

    Exit status: 0 sound or repaired, 1 damaged, 2 wrong usage, 3 could not be read.
    """
    config = _config(file, directory, node_id)
    if (name is not None) + (trust is not None) + archive != 1:
        raise WrongUsage("name what to repair: --partition TOPIC-PARTITION, --trust NODE, or --archive")
    if archive:
        others = peers or (() if file is not None else _others(directory, config.node_id))
        repair_archives(config, others, may_give_up=accept_data_loss, output_format=output_format)
    elif name is not None:
        allowed = _Allowed(restore=restore or accept_data_loss, cut=accept_data_loss)
        _repair_partition(_root_of(name, config), name, allowed, output_format)
    elif trust is not None:
        _trust(config, NodeId(trust), output_format)


def _others(directory: Path, node_id: int) -> tuple[Path, ...]:
    """Of the other voters of a local cluster."""
    nodes = [node.config for node in open_cluster(directory).nodes if node.config.node_id != node_id]
    return tuple(each.directory for each in nodes if (each.directory / ARCHIVE_FOLDER).is_dir())


class _Allowed(NamedTuple):
    """What may be changed."""

    restore: bool
    cut: bool


def _trust(config: NodeConfig, node: NodeId, output_format: str) -> None:
    """See ``repair``. Raises WrongUsage, Failed, Unreadable."""
    if not config.is_controller or node not in {voter.node_id for voter in config.voters}:
        raise WrongUsage(f"node {config.node_id} and the trusted one must be voters; {node} or it is none")
    if not is_written(config.directory / STORE):
        raise Unreadable(f"{config.directory} holds no store: node {config.node_id} never started")
    try:
        image_marks.trust(config.directory, node, config.node_id)
    except StoreInUse as error:
        raise Failed(str(error)) from error
    except STORE_FAILURES as error:
        raise Unreadable(f"{config.directory}: {error}") from error
    if output_format == JSON:
        echo_json({"node_id": config.node_id, "trusts": node})
    elif node == config.node_id:
        click.echo(f"Node {node} goes on with its own image. Start it again.")
    else:
        click.echo(
            f"Node {config.node_id} gives up its image, and takes that of node {node} once that one leads. "
            "Start it again."
        )


def _root_of(name: str, config: NodeConfig) -> Path:
    """The log directory that holds the partition. Raises WrongUsage."""
    roots = config.log_directories
    places = ", ".join(map(str, roots))
    found = [root for root in roots if (root / name / "partition.metadata").is_file()]
    if Path(name).name != name or not found:
        raise WrongUsage(
            f"there is no partition {name} in {places}: expected a folder with partition.metadata"
        )
    if len(found) > 1:
        raise WrongUsage(f"{name} is in {' and in '.join(map(str, found))}: move one of the folders away")
    return found[0]


def _repair_partition(root: Path, name: str, allowed: _Allowed, output_format: str) -> None:
    """See ``repair``. Raises WrongUsage, Failed, Unreadable."""
    folder = root / name
    try:
        lock = LogDirectory(root)
    except LogDirectoryInUse as error:
        raise Failed(str(error)) from error
    except OSError as error:
        raise Unreadable(f"{root}: {error}") from error
    try:
        start = read_starts(root).by_folder.get(name, LOG_START)
        look = partial(inspect, folder, machine_went_down=lock.machine_went_down, deleted_before=start)
        found = look()
        restored = found.restorable if allowed.restore else None
        is_cut = allowed.cut and restored is None and found.damage is not None
        if restored is not None:
            put_back(restored)
            found = look()
        elif is_cut and found.damage is not None:
            cut(found.damage, deleted_before=start)
    except OSError as error:
        raise Unreadable(f"{folder}: {error}") from error
    finally:
        lock.release()
    if output_format == JSON:
        echo_json(_document(name, found, restored, is_cut=is_cut))
    else:
        put = [] if restored is None else [f"{name}: put back in {_place(restored)}"]
        click.echo("\n".join([*put, *_lines(name, found, start, is_cut=is_cut)]))
    if found.damage is not None and not is_cut:
        sys.exit(DAMAGED)


def _config(file: Path | None, directory: Path, node_id: int | None) -> NodeConfig:
    """The node's settings. Raises WrongUsage, Unreadable."""
    if file is not None:
        return read_config(file)
    if node_id is None:
        raise WrongUsage("name the node: --node N of --dir, or --config FILE")
    return open_cluster(directory).node(node_id).config


def _place(changed: Changed) -> str:
    return (
        f"{changed.segment.name} at position {changed.position}: {changed.field} {changed.written}, "
        f"{changed.found} was found"
    )


def _field(changed: Changed | None) -> dict[str, Any] | None:
    return None if changed is None else {**changed._asdict(), "segment": changed.segment.name}


def _document(name: str, found: Inspected, restored: Changed | None, *, is_cut: bool) -> dict[str, Any]:
    damage = None
    if found.damage is not None:
        whole = found.damage.whole
        damage = {
            "segment": found.damage.segment.name,
            "position": found.damage.position,
            "segment_bytes": found.damage.size,
            "offset": found.damage.offset,
            "reason": found.damage.reason,
            "next_whole_batch": None if whole is None else {"position": whole[0], "offset": whole[1]},
        }
    return {
        "partition": name,
        "directory": str(found.directory),
        "segments": found.segments,
        "start_offset": found.start,
        "end_offset": found.end,
        "torn": found.torn,
        "changed": found.changed,
        "damage": damage,
        "lost": None if found.lost is None else asdict(found.lost),
        "restorable": _field(found.restorable),
        "restored": _field(restored),
        "repaired": is_cut or restored is not None,
    }


def _lines(name: str, found: Inspected, start: Offset, *, is_cut: bool) -> list[str]:
    sound = f"offsets {found.start} to {found.end - 1}" if found.end > found.start else "no records"
    if found.damage is None or found.lost is None:
        torn = [] if found.torn is None else [f"Torn by a crash, cut at the next start: {found.torn}"]
        changed = [] if found.changed is None else [f"Changed, which no cut mends: {found.changed}"]
        unread = [] if found.not_compared is None else [f"Not compared: {found.not_compared}"]
        return [f"{name}: sound, {sound} in {found.segments} segments", *torn, *changed, *unread]
    damage, lost = found.damage, found.lost
    behind = "no whole batch among them"
    if lost.batches:
        behind = f"among them {lost.batches} whole batches, offsets {lost.first} to {lost.last}"
    place = f"{damage.segment.name} at position {damage.position} of {damage.size}, offset {damage.offset}"
    words = [
        f"{name}: {'was ' if is_cut else ''}damaged in {place}: {damage.reason}",
        f"Sound before it: {sound}.",
        f"{'Cut' if is_cut else 'A cut there would lose'}: {lost.size} bytes, {behind}.",
    ]
    if found.restorable is not None:
        return [
            *words[:2],
            f"One field alone changed, by the segment's checksum: in {_place(found.restorable)}.",
            "Nothing was changed. The same command with --restore puts it back, and nothing is lost.",
        ]
    if is_cut:
        end = max(damage.offset, start)
        return [*words, f"The log ends at offset {end} now. Start the node again."]
    return [*words, "Nothing was changed. The same command with --accept-data-loss cuts."]
