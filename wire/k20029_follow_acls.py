"""FollowAcls, API key 20029, version 0: a broker takes over the ACLs, and says how far it has them.

A private API: Kafka's brokers read the metadata log. docs/api-keys.md has its documents.

Whole       ``known`` -1 requests all ACLs, a page at a time: ``after`` is the last row of the one before.
News        ``known`` is the number of a change: what came after it is answered, at once or when there is
            some, after a second at the latest. That a broker asks so says that it decides by these ACLs.
Allowed     to principals with CLUSTER_ACTION on the cluster.
"""

from typing import Final

import msgspec

from fencepost.controller.acls import AclChange
from fencepost.wire.dispatch import CONTROLLER
from fencepost.wire.private_api import LIST_BYTES_MAX, Json, private_api


class FollowAcls(msgspec.Struct, frozen=True):
    """``known``: the last change that the broker decides by, -1 if it has none."""

    broker_id: int
    broker_epoch: int
    known: int
    after: AclChange | None = None


class FollowedAcls(msgspec.Struct, frozen=True):
    """``changes``: the number of the last change. ``is_lost``: the broker must begin again, with -1."""

    changes: int
    rows: tuple[AclChange, ...] = ()
    has_more: bool = False
    is_lost: bool = False


FOLLOW_ACLS: Final = private_api(
    20029, "FollowAcls", Json(FollowAcls), Json(FollowedAcls, LIST_BYTES_MAX), (CONTROLLER,)
)
