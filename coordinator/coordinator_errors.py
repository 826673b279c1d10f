"""Why the log did not decide, as the error that a client of a transaction coordinator understands.

Unknown     outcomes are COORDINATOR_NOT_AVAILABLE (15): never a failure that later shows as done.
Source      docs/kafka-notes.md B2 to B7.
"""

from __future__ import annotations  # or each request computes those of the functions made for it

from fencepost.controller.errors import (
    ApiError,
    CoordinatorLoadInProgress,
    CoordinatorNotAvailable,
    NotController,
    NotCoordinator,
    RequestTimedOut,
    StorageFull,
)
from fencepost.quorum.port import Outcome, R
from fencepost.quorum.port import Reply as PortReply
from fencepost.quorum.replica import Replica
from fencepost.wire.dispatch import Reply


class CoordinatorErrors:
    """Translates the outcomes of one node's log for clients of its coordinator."""

    def __init__(self, replica: Replica) -> None:
        self._replica = replica

    def translate(self, outcome: Outcome[R]) -> Outcome[R]:
        """The outcome, with a coordinator's error in the place of the log's."""
        if not isinstance(outcome, ApiError):
            return outcome
        if isinstance(outcome, NotController):
            proposer = self._replica.proposer
            if self._replica.raft.is_leader and proposer.active_epoch is None:
                return CoordinatorLoadInProgress("this node becomes the coordinator; retry soon")
            return NotCoordinator(str(outcome))
        if isinstance(outcome, RequestTimedOut | StorageFull):
            return CoordinatorNotAvailable(str(outcome))
        return outcome

    def before(self, reply: Reply[R]) -> PortReply[R]:
        """A reply that translates the outcome, then gives it to ``reply``."""

        def respond(outcome: Outcome[R], throttle_ms: int) -> None:
            reply(self.translate(outcome), throttle_ms)

        return respond
