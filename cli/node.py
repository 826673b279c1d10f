"""``fencepost node``: one node in the foreground."""

from pathlib import Path

import click

from fencepost.cli.node_config import read_config
from fencepost.cluster.console import Failed, WrongUsage
from fencepost.node.main import run_node
from fencepost.settings.config import ConfigError
from fencepost.settings.node_identity import StorageError, read_identity, require_identity
from fencepost.snapshots.store import StoreInUse


@click.command()
@click.option(
    "-c", "--config", "file", type=click.Path(path_type=Path), required=True, help="node.properties"
)
def node(file: Path) -> int:
    """Run one node in the foreground. Its directory must be formatted: see 'fencepost storage format'."""
    config = read_config(file)
    try:
        identity = read_identity(config.directory)
        require_identity(config.directory, identity, cluster_id=None, node_id=config.node_id)
        return run_node(config, identity)
    except ConfigError as error:
        raise WrongUsage(str(error)) from error
    except (OSError, StoreInUse, StorageError) as error:  # such as a port that is in use
        raise Failed(str(error)) from error
