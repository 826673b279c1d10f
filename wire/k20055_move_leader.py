"""MoveLeader, API key 20055, version 0: another voter is to lead. To the active controller.

A private API, beside Kafka's DescribeQuorum (55). docs/api-keys.md has its documents. The answer says what
begins; by DescribeQuorum the leader's epoch is another one when it is done.

Refused     INVALID_REQUEST (42) with the reason: the node is no voter, or could not lead. Nothing was done.
Allowed     to principals with ALTER on the cluster.
"""

from typing import Final

import msgspec

from fencepost.wire.dispatch import CONTROLLER
from fencepost.wire.private_api import Json, private_api


class MoveLeader(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Leadership goes to node ``to``; None: to any other voter."""

    to: int | None = None


class MovesLeader(msgspec.Struct, frozen=True):
    """Node ``leader_id`` leads in ``leader_epoch``, and hands over to ``to`` unless that is itself."""

    leader_id: int
    leader_epoch: int
    to: int | None = None


MOVE_LEADER: Final = private_api(20055, "MoveLeader", Json(MoveLeader), Json(MovesLeader), (CONTROLLER,))
