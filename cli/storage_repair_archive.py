"""``fencepost storage repair --archive``: the archives of a stopped node are put right from other nodes'."""

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

import click

from fencepost.cli.output import JSON, echo_json
from fencepost.cluster.console import Failed, Unreadable, WrongUsage
from fencepost.records.invariant import CorruptData
from fencepost.records.types import LOGS
from fencepost.settings.config import NodeConfig
from fencepost.settings.node_identity import StorageError, read_identity
from fencepost.snapshots.archive_repair import Wrong, give_up, take, wrong_segments
from fencepost.snapshots.history import ARCHIVE_FOLDER
from fencepost.snapshots.reader import STORE
from fencepost.snapshots.segments import archive_owner
from fencepost.snapshots.store import StoreInUse, require_unused

DAMAGED: Final = 1  # the exit status while a damage is there


class Outcome(NamedTuple):
    """What was wrong, and what became of it."""

    log: str
    wrong: Wrong
    taken_from: Path | None
    is_given_up: bool


def repair_archives(
    config: NodeConfig, peers: Sequence[Path], *, may_give_up: bool, output_format: str
) -> None:
    """``peers``: directories of other nodes of the cluster. Raises WrongUsage, Failed, Unreadable."""
    home = config.directory
    without = [each for each in peers if not (each / ARCHIVE_FOLDER).is_dir()]
    if without:
        raise WrongUsage(f"{without[0]} has no folder {ARCHIVE_FOLDER}: name the log directory of a node")
    try:
        require_unused(home / STORE)
        found = _repaired(config, read_identity(home).cluster_id, peers, may_give_up=may_give_up)
    except StoreInUse as error:
        raise Failed(str(error)) from error
    except (CorruptData, StorageError) as error:
        raise Failed(f"{error}. A start makes a holes.json that cannot be read again") from error
    except OSError as error:
        raise Unreadable(f"{home}: {error}") from error
    if output_format == JSON:
        echo_json({"node_id": config.node_id, "archives": [_document(each) for each in found]})
    else:
        click.echo(
            "\n".join(_line(each) for each in found) or f"node {config.node_id}: all archives are sound"
        )
    if any(each.taken_from is None and not each.is_given_up for each in found):
        if output_format != JSON:
            where = (
                "--from DIRECTORY of another node" if not peers else "--from DIRECTORY of a node that has it"
            )
            click.echo(f"Try {where}; --accept-data-loss sets the rest aside, as named holes.")
        sys.exit(DAMAGED)


def _repaired(
    config: NodeConfig, cluster_id: str, peers: Sequence[Path], *, may_give_up: bool
) -> list[Outcome]:
    """Raises CorruptData, OSError."""
    done = []
    for log in LOGS:
        folder, owner = config.directory / ARCHIVE_FOLDER / log.directory, archive_owner(cluster_id, log)
        others = [each / ARCHIVE_FOLDER / log.directory for each in peers]
        for wrong in wrong_segments(folder, owner, is_kept=config.keeps_archive(log)):
            source = take(folder, wrong, others, owner)
            is_given_up = source is None and may_give_up
            if is_given_up:
                give_up(folder, wrong)
            done.append(Outcome(log.directory, wrong, source, is_given_up))
    return done


def _document(each: Outcome) -> dict[str, Any]:
    return {
        "log": each.log,
        "segment": None if each.wrong.segment is None else each.wrong.segment.path.name,
        "first_offset": each.wrong.first,
        "end_offset": each.wrong.end,
        "reason": each.wrong.reason,
        "taken_from": None if each.taken_from is None else str(each.taken_from),
        "given_up": each.is_given_up,
    }


def _line(each: Outcome) -> str:
    what = f"{each.log}, from offset {each.wrong.first}: {each.wrong.reason}"
    if each.taken_from is not None:
        return f"{what}. Taken from {each.taken_from}."
    return f"{what}. Set aside: these offsets are a named hole." if each.is_given_up else f"{what}."
