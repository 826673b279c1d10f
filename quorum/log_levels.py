"""Which log levels a replica needs, and at which one a cluster is born (the row: controller/levels.py)."""

from collections.abc import Mapping

from fencepost.controller import levels
from fencepost.controller.view import View
from fencepost.quorum.replica_config import ReplicaConfig
from fencepost.records.levels import LevelTooHigh
from fencepost.records.types import NodeId


def require(config: ReplicaConfig, level: int) -> None:
    """Raises LevelTooHigh if a level is above what this node reads."""
    if level > config.log_level_max:
        raise LevelTooHigh(f"{config.directory}", level, config.log_level_max)


def formatted(config: ReplicaConfig, highest: Mapping[NodeId, int]) -> int:
    """At which a new cluster is born: as its directories say, else what every voter has said it reads."""
    if config.initial_voters is not None:
        return config.log_level_formatted
    return min(highest.get(node, 0) for node in config.voter_ids)


def needed(config: ReplicaConfig, image: View) -> int:
    """What this node and each of its peers must be able to read."""
    born = config.log_level_formatted if config.initial_voters is not None else 0
    return levels.of_leader(image, born)
