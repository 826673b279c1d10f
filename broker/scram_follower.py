"""The SCRAM credentials of a broker whose node is no voter: all of them, again when something changed.

Newest      what it has is at most POLL_S, and a call, behind the active controller. Cut off, it goes on with
            what it has. A connection that is open stays open.
Before      its first answer no user of the log can log in; those of the node's own file can.
"""

import asyncio
from random import Random
from typing import Final

from structlog.typing import FilteringBoundLogger

from fencepost.broker.retry import CALL_FAILURES, Retry
from fencepost.controller.scram_types import Mechanism, StoredCredential
from fencepost.wire.client import ControllerClient
from fencepost.wire.k20051_follow_scram_users import FOLLOW_SCRAM_USERS, FollowedUser, FollowScramUsers

POLL_S: Final = 1.0
CALL_TIMEOUT_S: Final = 4.0


class ScramFollower:
    """``run`` until cancelled."""

    def __init__(self, controllers: ControllerClient, rng: Random, log: FilteringBoundLogger) -> None:
        self._controllers = controllers
        self._log = log
        self._retry = Retry("follow the SCRAM users", rng=rng, log=log)
        self._known = -1
        self._users: dict[tuple[str, int], StoredCredential] = {}

    def find(self, user: str, mechanism: Mechanism) -> StoredCredential | None:
        """The user's credential, as of the last answer."""
        return self._users.get((user, int(mechanism)))

    async def run(self) -> None:
        """Follow, for ever."""
        while True:
            try:
                await self._look()
            except CALL_FAILURES as error:
                await asyncio.sleep(self._retry.failed(error))
                continue
            self._retry.succeeded()
            await asyncio.sleep(POLL_S)

    async def _look(self) -> None:
        """Take over what is new. Pages of different changes are no whole: then the next look begins again."""
        after = ("", 0)
        rows: list[FollowedUser] = []
        first: int | None = None
        while True:
            request = FollowScramUsers(self._known, *after)
            answer = await self._controllers.call(FOLLOW_SCRAM_USERS, request, timeout_s=CALL_TIMEOUT_S)
            if answer.users is None or first not in (None, answer.changes):
                return
            first = answer.changes
            rows += answer.users
            if not answer.has_more:
                break
            after = (rows[-1].user, rows[-1].mechanism)
        self._users = {
            (each.user, each.mechanism): StoredCredential(
                each.salt, each.iterations, each.stored_key, each.server_key
            )
            for each in rows
        }
        self._known = first
        self._log.info("scram_users_loaded", credentials=len(self._users), change=first)
