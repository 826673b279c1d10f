"""``fencepost storage``: give a node's directory its identity, say what it holds, and repair a log in it.

``format`` also sees to the cluster's secret (``quorum.secret.file``): one that is there is kept, else it is
copied from ``--secret-file`` or made. ``info`` reads the store as of its last flush, from its own process,
whether the node runs or not.
Source      ``kafka-storage.sh``: its verbs and flags are accepted.
"""

import secrets
from pathlib import Path
from typing import Any
from uuid import UUID

import click

from fencepost.cli.images import read_image
from fencepost.cli.node_config import read_config
from fencepost.cli.output import JSON, dir_option, echo_json, format_option
from fencepost.cli.storage_clock import accept_clock
from fencepost.cli.storage_repair import repair
from fencepost.cli.storage_verify import verify
from fencepost.cluster.console import Failed, Unreadable, WrongUsage, lines
from fencepost.cluster.local_cluster import SECRET_BYTES, open_cluster
from fencepost.controller import levels
from fencepost.controller.producer_ids import PRODUCER_IDS
from fencepost.records.types import Log, NodeId
from fencepost.settings.born_users import USERS_MAX, parse_user
from fencepost.settings.config import EVERY_NODE_PROVES, NodeConfig
from fencepost.settings.durable_file import write_durably
from fencepost.settings.node_directories import format_directories
from fencepost.settings.node_identity import (
    Identity,
    StorageError,
    id_text,
    parse_id,
    random_id,
    read_identity,
)
from fencepost.snapshots.reader import Reader
from fencepost.wire.secret_proof import parse_secrets
from fencepost.wire.setting_files import SettingFileError, read_setting_file


@click.group()
def storage() -> None:
    """Format a node's directory, say what it holds, or repair a partition's log."""


storage.add_command(repair)
storage.add_command(accept_clock)
storage.add_command(verify)


@storage.command("random-uuid")
def random_uuid() -> None:
    """Print a new random id, for a cluster or a directory."""
    click.echo(id_text(random_id()))


@storage.command("format")
@click.option(
    "-c", "--config", "file", type=click.Path(path_type=Path), required=True, help="node.properties"
)
@click.option("-t", "--cluster-id", required=True, help="The same for every node; see random-uuid.")
@click.option(
    "--initial-controllers",
    default="",
    help="ID@DIRECTORY_ID[,..]: the voters of a cluster that is being born, the same list on every node. "
    "Kafka's ID@HOST:PORT:DIRECTORY_ID is read, too. Without it the node has to be readmitted.",
)
@click.option(
    "--secret-file",
    type=click.Path(path_type=Path),
    help="Another node's quorum.secret.file, to be copied to this node's: every node needs the same secret. "
    "Without it one that is there is kept, or else a new one is made.",
)
@click.option(
    "-S",
    "--add-scram",
    "scram",
    multiple=True,
    help="A user with which the cluster is born, the same on every node: "
    "SCRAM-SHA-256=[name=alice,password=secret]; may be repeated.",
)
@click.option(
    "-g", "--ignore-formatted", is_flag=True, help="Leave each directory of this very node as it is."
)
@format_option
def format_(
    file: Path,
    cluster_id: str,
    initial_controllers: str,
    secret_file: Path | None,
    scram: tuple[str, ...],
    ignore_formatted: bool,
    output_format: str,
) -> None:
    """Write cluster id, node id and a directory id into each of the node's directories: new or empty ones.

    They are metadata.log.dir and log.dirs. With --ignore-formatted only those that are new are formatted.

    Also writes the cluster's secret to the file that quorum.secret.file names, unless there is one. Copy the
    secret of the first node to the others, or name it with --secret-file when they are formatted.
    """
    config = read_config(file)
    try:
        parse_id(cluster_id)
        voters = _parse_controllers(initial_controllers)
        users = tuple(map(parse_user, scram))
    except ValueError as error:
        raise WrongUsage(str(error)) from error
    if users and (voters is None or len(users) > USERS_MAX):
        raise WrongUsage(
            f"--add-scram: at most {USERS_MAX} users, of a cluster that --initial-controllers makes"
        )
    known = {voter.node_id for voter in config.voters}
    if voters is not None and set(voters) != known:
        raise WrongUsage(
            f"--initial-controllers names nodes {sorted(voters)}, "
            f"controller.quorum.voters in {file} names {sorted(known)}"
        )
    try:
        identities = format_directories(
            config,
            cluster_id,
            directory_id=voters.get(config.node_id) if voters is not None else None,
            initial_voters=voters,
            users=users,
            ignore_formatted=ignore_formatted,
        )
    except (StorageError, OSError) as error:
        raise Failed(str(error)) from error
    made = _write_secret(config, secret_file)
    _print([_identity_row(config, identities[config.directory]) | made], output_format)


@storage.command()
@click.option("-c", "--config", "file", type=click.Path(path_type=Path), help="One node's node.properties.")
@dir_option
@click.option("--node", "node_id", type=int, help="Only this node of --dir.")
@format_option
def info(file: Path | None, directory: Path, node_id: int | None, output_format: str) -> None:
    """Say what a node's directory holds: ids, image version and digest, log ends, latest block.

    The digest is of the whole image: nodes at the same image version have the same digest.
    """
    if file is not None:
        configs = [read_config(file)]
    else:
        cluster = open_cluster(directory)
        nodes = cluster.nodes if node_id is None else (cluster.node(node_id),)
        configs = [node.config for node in nodes]
    _print([_describe(config) for config in configs], output_format)


def _parse_controllers(text: str) -> dict[NodeId, UUID] | None:
    """Voters from ``ID@[HOST:PORT:]DIRECTORY_ID[,..]``; None if there are none. Raises ValueError."""
    if not text:
        return None
    voters: dict[NodeId, UUID] = {}
    for item in text.split(","):
        node_id, at, rest = item.strip().partition("@")
        if not at or not node_id.isdigit():
            raise ValueError(f"expected ID@DIRECTORY_ID, got {item.strip()!r}")
        voters[NodeId(int(node_id))] = parse_id(rest.rpartition(":")[2])
    return voters


def _write_secret(config: NodeConfig, given: Path | None) -> dict[str, str]:
    """The cluster's secret in this node's file: kept, copied or made. Raises Failed, WrongUsage."""
    file = config.secret_file
    if file is None:
        raise WrongUsage(EVERY_NODE_PROVES)
    try:
        wanted = None if given is None else _read_secrets("--secret-file", given)
        if file.exists():
            if wanted not in (None, _read_secrets("quorum.secret.file", file)):
                raise Failed(
                    f"{file} holds another secret than {given}; remove the one that is not this cluster's"
                )
            return {"secret_file": str(file), "secret": "kept"}
        kept = () if wanted is None else [each.decode() for each in wanted if each is not None]
        text = "\n".join(kept) or secrets.token_hex(SECRET_BYTES)
        file.parent.mkdir(parents=True, exist_ok=True)
        write_durably(file, text + "\n", mode=0o600)
    except (OSError, UnicodeDecodeError) as error:
        raise Failed(f"the cluster's secret: {error}") from error
    except SettingFileError as error:
        raise Failed(str(error)) from error
    except ValueError as error:
        raise WrongUsage(f"{file if given is None else given}: {error}") from error
    how = "made; the other nodes need the same file" if wanted is None else f"copied from {given}"
    return {"secret_file": str(file), "secret": how}


def _read_secrets(setting: str, file: Path) -> tuple[bytes, bytes | None]:
    return parse_secrets(read_setting_file(setting, file, is_secret=True))


def _describe(config: NodeConfig) -> dict[str, Any]:
    try:
        identity = read_identity(config.directory)
    except StorageError as error:
        raise Unreadable(str(error)) from error
    row = _identity_row(config, identity)
    image = read_image(config.directory, _image_row)
    return row if image is None else row | image  # None: formatted, never started


def _identity_row(config: NodeConfig, identity: Identity) -> dict[str, Any]:
    return {
        "cluster_id": identity.cluster_id,
        "node_id": identity.node_id,
        "directory_id": id_text(identity.directory_id),
        "voter_id": id_text(identity.voter_id),
        "directory": str(config.directory),
        "log_dirs": {str(path): _directory_id(path) for path in config.log_directories},
    }


def _directory_id(path: Path) -> str:
    """Of a log directory, or why it has none."""
    try:
        return id_text(read_identity(path).directory_id)
    except StorageError as error:
        return str(error)


def _image_row(reader: Reader) -> dict[str, Any]:
    header = reader.header
    block = reader.get(PRODUCER_IDS, 0)
    return {
        "image_version": header.version,
        "controller_epoch": header.controller_epoch,
        "image_digest": reader.digest(),
        "log_level": levels.in_force(reader),
        "log_ends": {log.directory: header.log_end(log) for log in Log},
        "latest_block": None
        if block is None
        else {
            "broker_id": block.broker_id,
            "broker_epoch": block.broker_epoch,
            "start": block.first,
            "end": block.end,
        },
    }


def _print(rows: list[dict[str, Any]], output_format: str) -> None:
    if output_format == JSON:
        echo_json({"nodes": rows})
        return
    click.echo("\n\n".join(lines({name: _text(value) for name, value in row.items()}) for row in rows))


def _text(value: object) -> object:
    if isinstance(value, dict):
        return ", ".join(f"{name} {each}" for name, each in value.items())
    return "none" if value is None else value
