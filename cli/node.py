"""``fencepost node``: one node in the foreground."""

import shutil
from pathlib import Path

import click

from fencepost.cli.node_config import read_config
from fencepost.cluster.console import Failed, WrongUsage
from fencepost.node.main import run_node
from fencepost.records.named_errors import sentence
from fencepost.settings.config import ConfigError
from fencepost.settings.node_identity import StorageError, read_identity, require_identity
from fencepost.snapshots.reader import STORE
from fencepost.snapshots.store import STORE_FAILURES, StoreInUse


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
    except (StoreInUse, StorageError) as error:
        raise Failed(str(error)) from error
    except OSError as error:  # such as a port that is in use
        raise Failed(sentence(error)) from error
    except STORE_FAILURES as error:
        raise Failed(_of_the_store(config.directory / STORE, error)) from error


def _of_the_store(store: Path, error: Exception) -> str:
    """LMDB's errors do not say which file it was; a full disk is an input/output error to it."""
    try:
        free = f"{shutil.disk_usage(store.parent).free} bytes are free there"
    except OSError as failed:
        free = f"nothing is known of the free space: {failed.strerror}"
    return f"{store} cannot be read or written: {error}; {free}"
