"""What a replica is given once, at its start."""

import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from fencepost.records.levels import LEVEL_MAX
from fencepost.records.schema import UserScramCredentialRecord
from fencepost.records.types import NodeId


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaConfig:
    """Settings of a replica. Times are in seconds."""

    node_id: NodeId
    directory_id: uuid.UUID
    cluster_id: str
    voter_ids: frozenset[NodeId]
    initial_voters: Mapping[NodeId, uuid.UUID] | None
    directory: Path
    election_s: tuple[float, float] = (0.3, 0.6)
    heartbeat_s: float = 0.05
    snapshot_entries: int = 50_000
    snapshot_bytes: int = 16 * 1024 * 1024
    segment_bytes: int = 64 * 1024 * 1024
    archive_bytes_max: int = -1  # retention of the archive of each log but the next one; -1: unlimited
    group_archive_bytes_max: int = -1  # the same, of ``__consumer_offsets``
    log_level_max: int = LEVEL_MAX  # the highest that this node reads
    log_level_formatted: int = 0  # at which the cluster of ``initial_voters`` is born
    users_formatted: tuple[UserScramCredentialRecord, ...] = ()  # with whom it is born
    sync: bool = True  # False: simulations, which lose unflushed writes by abandoning the transaction
