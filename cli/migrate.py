"""``fencepost migrate``: the upgrade from ZooKeeper, one command per phase (docs/upgrade-from-zookeeper.md).

Exit status  0 done, or ready; 1 refused, blocked, or only a dry run where more was requested; 2 wrong usage;
             3 no response, unreadable, or the outcome is unknown; 4 not authorized.
"""

import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

import click

from fencepost.bridge.export import Export, write_export
from fencepost.cli import migrate_source
from fencepost.cli.migrate_access import access_to, configured, scan, with_zookeeper
from fencepost.cli.migrate_call import TIMEOUT_SECONDS, cluster_id, look, send
from fencepost.cli.migrate_output import print_answer, print_preflight
from fencepost.cli.migrate_source import FILES, JSON_FILE, LIVE, NO_BLOCK_THERE, NOT_STOPPED, Source
from fencepost.cli.output import JSON, Command, echo_json, format_option
from fencepost.cli.target_options import find_target, target_options
from fencepost.cluster import local_cluster
from fencepost.cluster.console import Failed, WrongUsage
from fencepost.cluster.target import Target
from fencepost.controller.migration import NO_BLOCK
from fencepost.wire.k20021_migrate import Migrate, Migrated, Stopped

Move = Callable[..., None]

FENCED_PHASES: Final = ("fencing", "quorum", "finalized", "rolling-back")
WATCH_SECONDS: Final = 3.0

timeout_option = click.option(
    "--timeout", "timeout_s", type=float, default=TIMEOUT_SECONDS, show_default=True, help="Seconds."
)
dry_run_option = click.option("--dry-run", is_flag=True, help="Say what would be done; write nothing.")
no_block_option = click.option(
    "--no-block-yet",
    is_flag=True,
    help="This Kafka cluster never gave out a producer id: that ZooKeeper has no block is right.",
)
is_stopped_option = click.option(
    "--zookeeper-is-stopped",
    is_flag=True,
    help="All its servers, and for good: the fence need not be seen.",
)
log_dir_option = click.option(
    "--log-dir",
    "log_dirs",
    type=click.Path(path_type=Path),
    multiple=True,
    help="One of Kafka's log.dirs: no producer id found in it is given out again. Repeatable.",
)


def _zookeeper_options(command: Command) -> Command:
    for option in (
        click.option(
            "--zookeeper",
            metavar="CONNECT",
            help="HOST:PORT[,..][/CHROOT], as Kafka's zookeeper.connect.  [default: that of --dir's nodes]",
        ),
        click.option(
            "--zookeeper-config",
            type=click.Path(path_type=Path),
            help="Properties file of a node, whose zookeeper.* settings say how to log in.",
        ),
    ):
        command = option(command)
    return command


@click.group()
def migrate() -> None:
    """The upgrade from ZooKeeper: no producer id is ever handed out twice.

    \b
    In this order, each repeatable at any time:
      preflight  bridge  import  fence  finalize
    and, until finalize, back again: rollback
    """


# -- looking -----------------------------------------------------------------------------------------------


@migrate.command()
@target_options
@format_option
def status(
    directory: Path, bootstrap_controller: str | None, command_config: Path | None, output_format: str
) -> None:
    """Say where the upgrade stands, what comes next, and what is in its way."""
    print_answer(look(find_target(directory, bootstrap_controller, command_config)), output_format)


@migrate.command()
@_zookeeper_options
@click.option("--watch", "watch_s", type=float, default=WATCH_SECONDS, show_default=True,
              help="Seconds to watch for whom blocks are written.")  # fmt: skip
@log_dir_option
@target_options
@format_option
def preflight(
    zookeeper: str | None,
    zookeeper_config: Path | None,
    watch_s: float,
    log_dirs: tuple[Path, ...],
    directory: Path,
    bootstrap_controller: str | None,
    command_config: Path | None,
    output_format: str,
) -> int:
    """Look at everything, change nothing; say what is in the way, and what the fence does to each broker.

    Exit status: 0 ready: nothing is in the way, and no broker is registered that the fence would cut off;
    1 otherwise, with the reasons.
    """
    from fencepost.cli.migrate_preflight import look as look_at

    access = access_to(zookeeper, zookeeper_config, directory)
    found = with_zookeeper(
        access, f"watching for {watch_s:g} s", lambda each: look_at(each, str(access.connect), watch_s)
    )
    seen = scan(log_dirs)
    if seen is not None and found.block is not None and seen.producer_id >= found.block["end"]:
        found.remarks.append(
            f"producer id {seen.producer_id} in {seen.file} is above ZooKeeper's block: import with --log-dir"
        )
    standing = None
    if bootstrap_controller is not None or local_cluster.exists(directory):
        standing = look(find_target(directory, bootstrap_controller, command_config))
        found.blocking += [each for each in standing.blocking if each not in found.blocking]
        if standing.ensemble not in ("", found.ensemble):
            found.blocking.append(f"the upgrade began with {standing.ensemble}, this is {found.ensemble}")
    if found.fence is not None and (standing is None or standing.phase not in FENCED_PHASES):
        whose = f"ZooKeeper is fenced by fencepost cluster {found.fence['cluster_id']}"
        if not any(whose in reason for reason in found.blocking):
            found.blocking.append(f"{whose}: an upgrade is made, or under way")
    result = found.to_json()
    result["highest_producer_id"] = None if seen is None else seen.producer_id
    result["phase"] = None if standing is None else standing.phase
    result["next_command"] = None if standing is None else standing.next_command
    if output_format == JSON:
        echo_json(result)
    else:
        print_preflight(result, seen)
    return 0 if found.verdict == "ready" else 1


@migrate.command("export-znodes")
@_zookeeper_options
@click.option("--output", type=click.Path(path_type=Path), required=True, help="The file to write.")
@click.option("--dir", "directory", type=click.Path(path_type=Path), default=".fencepost", show_default=True)
@format_option
def export_znodes(
    zookeeper: str | None, zookeeper_config: Path | None, output: Path, directory: Path, output_format: str
) -> None:
    """Write the znodes below the chroot into one JSON file: see docs/upgrade-from-zookeeper.md."""
    access = access_to(zookeeper, zookeeper_config, directory)
    znodes, forbidden = with_zookeeper(access, "reading znodes", lambda each: each.read_tree())
    zxid = max((znode.modified_zxid for znode in znodes.values()), default=0)
    export = Export(access.connect.servers, access.connect.chroot, time.time_ns() // 1_000_000, zxid, znodes)
    try:
        write_export(output, export)
    except OSError as error:
        raise Failed(f"{output}: {error}") from error
    for path in forbidden:
        click.echo(f"{path} may not be read and is left out", err=True)
    if output_format == JSON:
        echo_json({"file": str(output), "znodes": len(znodes), "zxid": zxid, "left_out": list(forbidden)})
    else:
        click.echo(f"{len(znodes)} znodes in {output}, up to transaction {zxid:#x}")


# -- moving ------------------------------------------------------------------------------------------------


def _mover(name: str, short: str, text: str, *options: Callable[[Move], Move]) -> click.Command:
    """A command that is its name to the controller, and the operator's words: fields of Migrate."""

    def move(
        dry_run: bool,
        timeout_s: float,
        directory: Path,
        bootstrap_controller: str | None,
        command_config: Path | None,
        output_format: str,
        no_block_yet: bool = False,
        zookeeper_is_stopped: bool = False,
    ) -> None:
        target = find_target(directory, bootstrap_controller, command_config)
        words = Migrate(name, dry_run, no_block_yet=no_block_yet, zookeeper_is_stopped=zookeeper_is_stopped)
        print_answer(send(target, words, timeout_s), output_format)

    decorated = target_options(format_option(dry_run_option(timeout_option(move))))
    for option in options:
        decorated = option(decorated)
    return click.command(name, short_help=short, help=text)(decorated)


migrate.add_command(
    _mover(
        "bridge",
        "Give out ids through ZooKeeper's own block.",
        "Begin to give out producer ids through ZooKeeper's conditional write: brokers that write the block "
        "themselves and brokers that ask the controller may run side by side.",
        no_block_option,
    )
)
migrate.add_command(
    _mover(
        "fence",
        "Fence ZooKeeper; from then on the quorum gives out ids.",
        "Put an exhausted block into ZooKeeper, at exactly the version that was logged, and switch: "
        "from then on the quorum gives out the ids, and no broker that is registered in ZooKeeper gets any.",
        no_block_option,
    )
)
migrate.add_command(
    _mover(
        "finalize",
        "End the upgrade; no way back.",
        "Leave ZooKeeper for good, if its fence is seen there now. There is no way back from here.",
        is_stopped_option,
    )
)
migrate.add_command(
    _mover(
        "rollback",
        "Go back to ZooKeeper.",
        "Let ZooKeeper give out the ids again, above every id that the quorum gave out. After it the "
        "phase is bridge; run it before finalize.",
    )
)


@migrate.command("import", short_help="Bring ZooKeeper's block into the log, as a floor.")
@click.option("--from", "kind", type=click.Choice((LIVE, JSON_FILE, FILES)), default=LIVE, show_default=True)
@click.argument("paths", type=click.Path(path_type=Path), nargs=-1)
@click.option("--zookeeper-is-stopped", "is_stopped", is_flag=True, help="All its servers, and for good.")
@click.option("--zookeeper", metavar="CONNECT", help="With files: only its /CHROOT counts.")
@click.option("--servers", "size", type=int, help="With files of ZooKeeper 3.4: how many voting servers.")
@no_block_option
@log_dir_option
@dry_run_option
@timeout_option
@target_options
@format_option
def import_(
    kind: str,
    paths: tuple[Path, ...],
    is_stopped: bool,
    zookeeper: str | None,
    size: int | None,
    no_block_yet: bool,
    log_dirs: tuple[Path, ...],
    dry_run: bool,
    timeout_s: float,
    directory: Path,
    bootstrap_controller: str | None,
    command_config: Path | None,
    output_format: str,
) -> int:
    """Bring ZooKeeper's block into the log, as a floor: no id below it is ever given out by the quorum.

    \b
    --from live              ZooKeeper goes on; next comes fence
    --from files DIR...      its servers' dataDirs (dataDir:dataLogDir), of a majority; the quorum takes over
    --from json FILE         an export of its znodes, checked against --log-dir; the quorum takes over

    Files and an export cannot fence: without --zookeeper-is-stopped they give a dry run only, with exit
    status 1 unless --dry-run is given.
    """
    seen = scan(log_dirs)
    at_least = 0 if seen is None else seen.producer_id + 1
    if kind == LIVE:
        if paths or is_stopped:
            raise WrongUsage("--from live takes neither PATH nor --zookeeper-is-stopped")
        controllers = find_target(directory, bootstrap_controller, command_config)
        request = Migrate("import", dry_run, at_least, no_block_yet=no_block_yet)
        imported = send(controllers, request, timeout_s)
        print_answer(imported, output_format, seen=seen)
        return 0
    source = _offline(kind, paths, zookeeper, size, directory)
    source = migrate_source.checked_against(source, seen)
    if source.block_end == NO_BLOCK and not no_block_yet:
        source = source._replace(reasons=(*source.reasons, NO_BLOCK_THERE))
    if not is_stopped:
        source = source._replace(reasons=(*source.reasons, NOT_STOPPED))
    may_write = not dry_run and not source.reasons
    target: Target | None = None
    if may_write or bootstrap_controller is not None or local_cluster.exists(directory):
        target = find_target(directory, bootstrap_controller, command_config)
    answer = None if target is None else _import_offline(target, source, at_least, may_write, timeout_s)
    print_answer(answer, output_format, source=source, seen=seen)
    for reason in source.reasons:
        click.echo(f"a dry run only: {reason}", err=True)
    return 0 if may_write or dry_run else 1


def _import_offline(
    target: Target, source: Source, at_least: int, may_write: bool, timeout_s: float
) -> Migrated:
    if source.fence is not None and source.fence.cluster_id != (ours := cluster_id(target)):
        raise Failed(f"ZooKeeper is fenced by fencepost cluster {source.fence.cluster_id}, this is {ours}")
    stopped = Stopped(source.ensemble, source.block_end, may_write)
    return send(target, Migrate("import", not may_write, at_least, stopped), timeout_s)


def _offline(
    kind: str, paths: tuple[Path, ...], zookeeper: str | None, size: int | None, directory: Path
) -> Source:
    if kind == JSON_FILE:
        if len(paths) != 1:
            raise WrongUsage("--from json takes one FILE")
        return migrate_source.from_json(paths[0])
    connect = zookeeper or configured(directory) or ""
    chroot = "/" + connect.partition("/")[2] if "/" in connect else ""
    return migrate_source.from_files(paths, chroot.rstrip("/"), size)
