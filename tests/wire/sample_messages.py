"""One request and one response of every API, private ones included."""

from typing import Any

from fencepost.controller.acl_types import Acl
from fencepost.controller.acls import AclChange
from fencepost.controller.levels import LogLevels
from fencepost.controller.partition_recovery import PartitionRecovered, RecoverPartition
from fencepost.wire.k20021_migrate import LoggedFence, Migrate, Migrated, SeenZnode
from fencepost.wire.k20024_announce_partitions import Announcement, AnnouncePartitions
from fencepost.wire.k20027_force_markers import ForcedMarkers, ForceMarkers
from fencepost.wire.k20029_follow_acls import FollowAcls, FollowedAcls
from fencepost.wire.k20037_prove_secret import ProveSecret, SecretProved
from fencepost.wire.k20051_follow_scram_users import (
    FollowedScramUsers,
    FollowedUser,
    FollowScramUsers,
)
from fencepost.wire.k20055_move_leader import MoveLeader, MovesLeader
from fencepost.wire.k20057_log_levels import AskLogLevels
from fencepost.wire.k20065_explain_transaction import ExplainTransaction, Explanation, FenceExplained
from fencepost.wire.k20066_list_set_aside import WEDGED, ListSetAside, SetAside, SetAsideList
from tests.wire.test_apis import ROWS

_ACL = Acl(2, 3, "orders", "User:alice", "*", 3, 3)
MIGRATED = Migrated(
    phase="quorum",
    next_command="finalize",
    blocking=("the fence is gone",),
    floor=5000,
    producer_id_end=9000,
    ensemble="zk",
    fence=LoggedFence(4999, 7),
    zookeeper=SeenZnode(8, 4999, is_fenced=True),
    progress="fence: 3 tries",
    dry_run=True,
    message="done",
)

SAMPLES: dict[int, tuple[Any, Any]] = {
    **{row.api.key: (row.request, row.response) for row in ROWS},
    20021: (Migrate("status"), MIGRATED),
    20024: (
        AnnouncePartitions(
            (
                Announcement(
                    7,
                    3,
                    11,
                    (("orders", (0, 1)), ("t", ())),
                ),
            )
        ),
        None,
    ),
    20027: (ForceMarkers("transfers"), ForcedMarkers(("payments-3",))),
    20029: (
        FollowAcls(1, 5, 7),
        FollowedAcls(9, (AclChange(_ACL.acl_id, _ACL), AclChange(_ACL.acl_id))),
    ),
    20037: (ProveSecret(1, "cluster", "coordinator", b"n" * 16), SecretProved(2, "cluster", b"n", b"p")),
    20043: (RecoverPartition("orders", 3, 500), PartitionRecovered(1, 500)),
    20051: (
        FollowScramUsers(7, "alice", 1),
        FollowedScramUsers(9, (FollowedUser("bob", 2, 8192, b"salt", b"stored", b"server"),)),
    ),
    20055: (MoveLeader(2), MovesLeader(1, 5, 2)),
    20057: (AskLogLevels(1), LogLevels(log_level=0, log_level_max=1, voters=())),
    20065: (
        ExplainTransaction("transfers"),
        Explanation("It is open.", (FenceExplained(1_760_000_000_000, "new instance", 42, 3, "orders-2"),)),
    ),
    20066: (
        ListSetAside(),
        SetAsideList((SetAside(kind=WEDGED, concern="marker", key="t", reason="47", since_ms=5),), 1),
    ),
}
"""By API key: (request, response)."""
