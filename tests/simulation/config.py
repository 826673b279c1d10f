"""How the voters of a simulation are configured."""

from pathlib import Path
from typing import Any, Final

from fencepost.quorum.replica_config import ReplicaConfig
from fencepost.records.types import NodeId
from fencepost.settings.config import NodeConfig
from fencepost.settings.properties import parse_properties

SESSION_MS: Final = 2_000  # of a broker
DISK_FREE_MIN: Final = 1_000  # bytes
CLUSTER: Final = "simulated"
SNAPSHOT_ENTRIES: Final = 40
SEGMENT_BYTES: Final = 4096


def config_of(node_id: NodeId, voter_ids: frozenset[NodeId]) -> NodeConfig:
    """Of one voter. No address, directory or file in it is there."""
    voters = ",".join(f"{voter}@127.0.0.1:{9_200 + voter}" for voter in sorted(voter_ids))
    return parse_properties(
        f"node.id={node_id}\nprocess.roles=controller\nlisteners=CONTROLLER://127.0.0.1:9100\nlog.dirs=data\n"
        f"controller.quorum.voters={voters}\ncontroller.quorum.bootstrap.servers=127.0.0.1:9100\n"
        f"quorum.secret.file=secret\nbroker.session.timeout.ms={SESSION_MS}\n"
        f"broker.heartbeat.interval.ms={SESSION_MS // 4}\n",
        Path("/simulated/node.properties"),
    )


def replica_config_of(**of_the_voter: Any) -> ReplicaConfig:
    """The same of its replica: snapshots and segments are small, nothing waits for a real disk."""
    return ReplicaConfig(
        cluster_id=CLUSTER,
        snapshot_entries=SNAPSHOT_ENTRIES,
        segment_bytes=SEGMENT_BYTES,
        sync=False,
        **of_the_voter,
    )
