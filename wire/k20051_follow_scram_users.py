"""FollowScramUsers, API key 20051, version 0: a broker without a voter's store takes over users' credentials.

A private API: Kafka's brokers read the metadata log. docs/api-keys.md has its documents.

News        ``known`` is the number of the last change that the broker has: the answer is that number alone
            while there was none since; else all credentials, a page at a time.
Allowed     to principals with CLUSTER_ACTION, on a connection that proved the cluster's secret.
"""

from typing import Final

import msgspec

from fencepost.wire.dispatch import CONTROLLER
from fencepost.wire.private_api import LIST_BYTES_MAX, Json, private_api


class FollowScramUsers(msgspec.Struct, frozen=True):
    """``after_user``, ``after_mechanism``: of the last row of the page before; "": the first page."""

    known: int
    after_user: str = ""
    after_mechanism: int = 0


class FollowedUser(msgspec.Struct, frozen=True):
    """A credential. Bytes are base64 in JSON."""

    user: str
    mechanism: int
    iterations: int
    salt: bytes
    stored_key: bytes
    server_key: bytes

    def __repr__(self) -> str:
        """Without what is secret."""
        return f"FollowedUser({self.user!r}, {self.mechanism})"


class FollowedScramUsers(msgspec.Struct, frozen=True):
    """``changes``: the number of the last change. ``users`` None: nothing is new."""

    changes: int
    users: tuple[FollowedUser, ...] | None = None
    has_more: bool = False


FOLLOW_SCRAM_USERS: Final = private_api(
    20051,
    "FollowScramUsers",
    Json(FollowScramUsers),
    Json(FollowedScramUsers, LIST_BYTES_MAX),
    (CONTROLLER,),
)
