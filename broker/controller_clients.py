"""The broker's connections to the active controller, one for each purpose."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from random import Random
from typing import Final, Self

from fencepost.broker import acl_follower, foreign_markers
from fencepost.wire.auth import Login
from fencepost.wire.client import Address, ControllerClient
from fencepost.wire.secret_proof import ClusterSecret
from fencepost.wire.stalls import Stalls
from fencepost.wire.tls import Tls

COORDINATORS: Final = 3
"""Rounds of verification at a time: one waits for an entry of the log, as what comes meanwhile would."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ControllerClients:
    """One client of the active controller for each purpose.

    A controller serves one request of a connection at a time, so what must not wait has its own: a heartbeat
    waits neither for a mute (allocation over its quota) nor for what a client of the broker reads, and a
    producer's transaction not for a list of topics.
    """

    membership: ControllerClient  # registration and heartbeats
    allocation: ControllerClient  # producer-id blocks
    reading: ControllerClient  # metadata, and what clients of this broker read of the cluster
    topics: ControllerClient  # creation, and settings
    coordinators: tuple[ControllerClient, ...]  # partitions of transactions; the last one is used most
    listing: ControllerClient  # a list of all transactions, which may take long
    acls: ControllerClient  # what changes, which may take a second
    users: ControllerClient  # SCRAM credentials

    @classmethod
    def of(
        cls,
        bootstrap: Sequence[Address],
        *,
        sasl: Login | None,
        tls: Tls | None,
        secret: ClusterSecret,
        rng: Random,
        stalls: Stalls,
    ) -> Self:
        """Clients that dial by ``tls``, log in by ``sasl`` and prove ``secret``, from their first call on."""
        client = partial(
            ControllerClient, bootstrap, sasl=sasl, tls=tls, secret=secret, rng=rng, stalls=stalls
        )
        return cls(
            membership=client(),
            allocation=client(),
            reading=client(),
            topics=client(),
            coordinators=tuple(client() for _ in range(COORDINATORS)),
            listing=client(attempt_timeout_s=foreign_markers.CALL_TIMEOUT_S),
            acls=client(attempt_timeout_s=acl_follower.CALL_TIMEOUT_S),
            users=client(attempt_timeout_s=acl_follower.CALL_TIMEOUT_S),
        )

    async def close(self) -> None:
        """Close the connections to all controllers."""
        for each in (
            self.membership, self.allocation, self.reading, self.topics, *self.coordinators, self.listing,
            self.acls, self.users,
        ):  # fmt: skip
            await each.close()
