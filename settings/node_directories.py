"""All directories of a node: ``metadata.log.dir``, whose identity is the node's, and ``log.dirs``."""

from collections.abc import Mapping
from pathlib import Path
from uuid import UUID

from fencepost.records.schema import UserScramCredentialRecord
from fencepost.records.types import NodeId
from fencepost.settings.config import NodeConfig
from fencepost.settings.node_identity import Identity, format_directory


def format_directories(
    config: NodeConfig,
    cluster_id: str,
    *,
    directory_id: UUID | None = None,
    initial_voters: Mapping[NodeId, UUID] | None = None,
    users: tuple[UserScramCredentialRecord, ...] = (),
    ignore_formatted: bool = False,
) -> dict[Path, Identity]:
    """Give each directory of a node its identity, durably; ``metadata.log.dir`` first, which the voter has.

    Raises ForeignDirectory, StorageError, OSError: the directories before that one are formatted.
    """
    home = config.directory
    made = {
        home: format_directory(
            home,
            cluster_id,
            config.node_id,
            directory_id=directory_id,
            initial_voters=initial_voters,
            users=users,
            ignore_formatted=ignore_formatted,
        )
    }
    for path in config.log_directories:
        if path != home:
            made[path] = format_directory(path, cluster_id, config.node_id, ignore_formatted=ignore_formatted)
    return made
