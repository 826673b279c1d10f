"""Users' SCRAM credentials on the active controller: API keys 50 and 51, and what brokers alone follow.

In force    on a voter once the record is applied there; on a broker alone within POLL_S of its follower.
            A connection that is open stays open, as in Kafka: re-authentication ends it.
"""

from typing import Final

from fencepost.controller import scram
from fencepost.controller.acl_errors import ClusterOperationDenied
from fencepost.controller.authorization import Acls, Operation
from fencepost.controller.decision import Decision
from fencepost.controller.scram_types import AlterScram, AlterScramAnswer, DescribeScram, DescribeScramAnswer
from fencepost.controller.view import View
from fencepost.quorum.port import Submit
from fencepost.wire.dispatch import Context, Reply, Service, served
from fencepost.wire.k50_describe_user_scram_credentials import DESCRIBE_USER_SCRAM_CREDENTIALS
from fencepost.wire.k51_alter_user_scram_credentials import ALTER_USER_SCRAM_CREDENTIALS
from fencepost.wire.k20051_follow_scram_users import (
    FOLLOW_SCRAM_USERS,
    FollowedScramUsers,
    FollowedUser,
    FollowScramUsers,
)

PAGE_ROWS: Final = 1_000  # credentials of a page


class ScramServer:
    """Endpoints of one node. ``acls``: of a file, where there is no authorizer."""

    def __init__(self, submit: Submit, acls: Acls) -> None:
        self._submit = submit
        self._acls = acls

    @property
    def service(self) -> Service:
        """API key to (codec, endpoint)."""
        return dict(
            (
                served(DESCRIBE_USER_SCRAM_CREDENTIALS, self.describe),
                served(ALTER_USER_SCRAM_CREDENTIALS, self.alter),
                served(FOLLOW_SCRAM_USERS, self.follow),
            )
        )

    def describe(self, request: DescribeScram, context: Context, reply: Reply[DescribeScramAnswer]) -> None:
        """API key 50: a linearizable read."""
        self._acls.require(context.principal, Operation.DESCRIBE)
        self._submit(lambda view, now_ms: Decision((), scram.describe(view, request)), reply, closing=reply)

    def alter(self, request: AlterScram, context: Context, reply: Reply[AlterScramAnswer]) -> None:
        """API key 51. Under an ACL file a broker forwards for clients whom it has checked."""
        if not self._acls.allows(context.principal, Operation.CLUSTER_ACTION):
            self._acls.require(context.principal, Operation.ALTER)
        self._submit(lambda view, now_ms: scram.decide_alter(view, request), reply, closing=reply)

    def follow(self, request: FollowScramUsers, context: Context, reply: Reply[FollowedScramUsers]) -> None:
        """API key 20051. Raises ClusterOperationDenied: the connection is no node's of this cluster."""
        self._acls.require(context.principal, Operation.CLUSTER_ACTION)
        if not context.proved:
            raise ClusterOperationDenied(
                "credentials go to connections alone that proved the cluster's secret"
            )
        self._submit(lambda view, now_ms: Decision((), _followed(view, request)), reply, closing=reply)


def _followed(view: View, request: FollowScramUsers) -> FollowedScramUsers:
    changes = scram.state(view).changes
    after = (request.after_user, request.after_mechanism) if request.after_user else None
    if after is None and request.known == changes:
        return FollowedScramUsers(changes)
    rows: list[FollowedUser] = []
    for (user, mechanism), each in view.scan(scram.SCRAM_CREDENTIALS, after):
        if len(rows) == PAGE_ROWS:
            return FollowedScramUsers(changes, tuple(rows), has_more=True)
        rows.append(
            FollowedUser(user, mechanism, each.iterations, each.salt, each.stored_key, each.server_key)
        )
    return FollowedScramUsers(changes, tuple(rows))
