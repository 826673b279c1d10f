"""Options by which a command learns which nodes to contact, and the target that they name."""

from collections.abc import Callable
from pathlib import Path

import click

from fencepost.cli.output import Command, dir_option
from fencepost.cluster.command_config import read_access
from fencepost.cluster.local_cluster import open_cluster
from fencepost.cluster.target import (
    Target,
    brokers_of,
    controllers_of,
    target_at,
)


def target_options(command: Command) -> Command:
    """Add ``--bootstrap-controller``, ``--command-config`` and ``--dir``; ``find_target`` reads them."""
    help_text = "HOST:PORT[,..] of controller listeners, instead of --dir."
    return _options(command, click.option("--bootstrap-controller", help=help_text))


def find_target(directory: Path, bootstrap_controller: str | None, command_config: Path | None) -> Target:
    """What the options of ``target_options`` name. Raises WrongUsage or Unreadable."""
    access = None if command_config is None else read_access(command_config)
    if bootstrap_controller is not None:
        return target_at("--bootstrap-controller", bootstrap_controller, access)
    cluster = open_cluster(directory)
    return (
        controllers_of(cluster)
        if access is None
        else Target(cluster.controllers, access.sasl, cluster, access.tls)
    )


def broker_options(command: Command) -> Command:
    """Add ``--bootstrap-server``, ``--command-config`` and ``--dir``; ``find_brokers`` reads them."""
    help_text = "HOST:PORT[,..] of brokers, instead of --dir."
    return _options(command, click.option("--bootstrap-server", help=help_text))


def find_brokers(directory: Path, bootstrap_server: str | None, command_config: Path | None) -> Target:
    """What the options of ``broker_options`` name. Raises WrongUsage or Unreadable."""
    access = None if command_config is None else read_access(command_config)
    if bootstrap_server is None:
        return brokers_of(open_cluster(directory), access)
    return target_at("--bootstrap-server", bootstrap_server, access)


def _options(command: Command, bootstrap: Callable[[Command], Command]) -> Command:
    config = click.option(
        "--command-config",
        type=click.Path(path_type=Path),
        help="Properties file with Kafka's security.protocol, ssl.*, sasl.* (a node's own file will do).",
    )
    return config(bootstrap(dir_option(command)))
