"""``fencepost container``: a node whose settings are environment variables (settings/environment.py).

Secrets     go from the environment to files of mode 0600; the node's own environment has none.
"""

import http
import http.client
import os
import ssl
import sys
from pathlib import Path
from typing import Final, NoReturn

import click

from fencepost.cli.node_config import read_config
from fencepost.cluster.console import Failed, WrongUsage
from fencepost.node.metrics_port import LIVE, READY
from fencepost.settings.config import EVERY_NODE_PROVES, ConfigError, NodeConfig
from fencepost.settings.config_values import SSL
from fencepost.settings.durable_file import write_durably
from fencepost.settings.environment import PREFIX, read_environment
from fencepost.settings.meta_properties import META_PROPERTIES
from fencepost.settings.node_directories import format_directories
from fencepost.settings.node_identity import (
    StorageError,
    parse_id,
    read_identity,
)
from fencepost.wire.secret_proof import parse_secrets
from fencepost.wire.tls import Tls

CLUSTER_ID: Final = "CLUSTER_ID"
FILE: Final = Path("/var/lib/fencepost/node.properties")
QUORUM_SECRET: Final = "QUORUM_SECRET"  # noqa: S105
EVERY_INTERFACE: Final = ("", "0.0.0.0", "::")  # noqa: S104
ANSWER_S_MAX: Final = 5.0


@click.group(short_help="Be a node whose settings are environment variables.")
def container() -> None:
    """Be a node in a container: its settings are KAFKA_ variables, as in apache/kafka's image."""


@container.command()
@click.option(
    "--file", type=click.Path(path_type=Path), default=FILE, show_default=True, help="Where to write them."
)
def run(file: Path) -> NoReturn:
    """Write the settings to a file of mode 0600, and become the node.

    The process is the node from then on: SIGTERM hands leadership over and ends it. A directory that is not
    formatted is, for the cluster that CLUSTER_ID says: voters that are all new make a cluster once they have
    all met, one that is new among others is readmitted by them. QUORUM_SECRET is the cluster's secret, the
    same for all; without it quorum.secret.file must be there.
    """
    try:
        config = read_environment(os.environ)
        file.parent.mkdir(parents=True, exist_ok=True)
        write_durably(file, config.render(), mode=0o600)
        if read_config(file) != config:
            raise WrongUsage(f"{file} cannot hold these settings: is there a line break in a variable?")
        _see_to_identity(config)
        _see_to_secret(config)
    except ConfigError as error:
        raise WrongUsage(str(error)) from error
    except (StorageError, OSError) as error:
        raise Failed(str(error)) from error
    sys.stdout.flush()
    words = [sys.executable, "-P", "-m", "fencepost.cli.main", "node", "--config", str(file)]
    kept = {name: text for name, text in os.environ.items() if not name.startswith((PREFIX, QUORUM_SECRET))}
    os.execve(sys.executable, words, kept)  # noqa: S606


def _see_to_identity(config: NodeConfig) -> None:
    """Format the directories that are not. Raises StorageError, OSError, Failed, WrongUsage."""
    named, is_formatted = os.environ.get(CLUSTER_ID), (config.directory / META_PROPERTIES).exists()
    if is_formatted:
        found = read_identity(config.directory).cluster_id
        if named not in (None, found):
            raise Failed(f"{config.directory} is of cluster {found}, and {CLUSTER_ID} is {named}")
        named = found
    if named is None:
        raise WrongUsage(
            f"{config.directory} is not formatted, and {CLUSTER_ID} is not set: give all nodes of the "
            "cluster the same id, of 'fencepost storage random-uuid'"
        )
    try:
        parse_id(named)
    except ValueError as error:
        raise WrongUsage(f"{CLUSTER_ID}: {error}") from error
    format_directories(config, named, ignore_formatted=True)


def _see_to_secret(config: NodeConfig) -> None:
    """Write the secret that the environment says. Raises OSError, Failed, WrongUsage."""
    given, file = os.environ.get(QUORUM_SECRET), config.secret_file
    if file is None:
        raise WrongUsage(EVERY_NODE_PROVES)
    if given is None:
        if not file.exists():
            raise WrongUsage(
                f"{file} is not there, and {QUORUM_SECRET} is not set: the same on all nodes, random"
            )
        return
    try:
        parse_secrets(given)
    except ValueError as error:
        raise WrongUsage(f"{QUORUM_SECRET}: {error}") from error
    file.parent.mkdir(parents=True, exist_ok=True)
    write_durably(file, given.strip() + "\n", mode=0o600)


@container.command()
@click.argument("what", type=click.Choice(("live", "ready")))
@click.option(
    "--file", type=click.Path(path_type=Path), default=FILE, show_default=True, help="The node's settings."
)
def probe(what: str, file: Path) -> None:
    """Say whether the node of this container is live, or ready. Exit status 0: it is; 1: it is not.

    Live: its event loop answers. Ready: its broker is not fenced. A quorum that is lost makes a node neither
    dead nor, once it was ready, unready: to restart it would bring nothing back.
    """
    config = read_config(file)
    if config.metrics_port is None:
        raise WrongUsage(f"{file}: metrics.port is not set: probes are answered there")
    host = "127.0.0.1" if config.metrics_host in EVERY_INTERFACE else config.metrics_host
    connection = http.client.HTTPConnection(host, config.metrics_port, timeout=ANSWER_S_MAX)
    if config.metrics_protocol == SSL:
        context = Tls(config.tls_settings).client()
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE  # it asks itself
        connection = http.client.HTTPSConnection(
            host, config.metrics_port, timeout=ANSWER_S_MAX, context=context
        )
    try:
        connection.request("GET", LIVE if what == "live" else READY)
        answer = connection.getresponse()
        said = answer.read(1_000).decode().strip()
    except (OSError, http.client.HTTPException) as error:
        raise Failed(f"not {what}: {host}:{config.metrics_port} does not answer: {error}") from error
    finally:
        connection.close()
    if answer.status != http.HTTPStatus.OK:
        raise Failed(f"not {what}: {said}")
    click.echo(said)
