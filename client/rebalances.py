"""A subscription: what a group assigns to a consumer, from one rebalance to the next.

Eager    before the member joins again all its partitions are revoked, and none is read until it is assigned
         its new ones. The listener is awaited inside ``poll``, and is never cancelled by poll's timeout.
"""

import asyncio
from collections.abc import Iterable, Sequence
from typing import Protocol

from fencepost.client.coordinators import cancelled
from fencepost.client.fetcher import Fetcher
from fencepost.client.membership import Joined, Membership
from fencepost.client.metadata import ClusterMetadata
from fencepost.client.types import TopicPartition


class RebalanceListener(Protocol):
    """What an application wants to know of its assignment. Called inside ``poll``, awaited."""

    async def on_revoked(self, partitions: Sequence[TopicPartition]) -> None:
        """The partitions are the member's for the last time: offsets may still be committed."""

    async def on_assigned(self, partitions: Sequence[TopicPartition]) -> None:
        """The partitions are the member's from now on: ``seek`` works on them."""

    async def on_lost(self, partitions: Sequence[TopicPartition]) -> None:
        """The partitions may be another member's already: nothing of them can be committed."""


class Rebalances:
    """The topics that a member subscribes to, and the partitions that it is assigned of them."""

    def __init__(self, membership: Membership, metadata: ClusterMetadata) -> None:
        self._membership = membership
        self._metadata = metadata
        self._listener: RebalanceListener | None = None
        self._joining: asyncio.Task[Joined] | None = None
        self.topics: tuple[str, ...] = ()

    def subscribe(self, topics: Iterable[str], listener: RebalanceListener | None) -> None:
        """The next poll joins for these topics."""
        self.topics, self._listener = tuple(sorted(set(topics))), listener
        self._membership.must_join = True
        self._metadata.want(*self.topics)

    async def ensure_member(self, fetcher: Fetcher, until_s: float) -> bool:
        """Join if that is needed. False: not joined by ``until_s``; the join goes on. Raises as ``join``."""
        membership = self._membership
        membership.polled()
        if membership.failure is not None:
            failure, membership.failure = membership.failure, None
            raise failure
        if self._joining is None:
            if not membership.must_join:
                return True
            await self._revoke(fetcher)
            self._joining = asyncio.create_task(membership.join(self.topics))
        left_s = until_s - asyncio.get_running_loop().time()
        await asyncio.wait((self._joining,), timeout=max(0.0, left_s))
        if not self._joining.done():
            return False
        joining, self._joining = self._joining, None
        joined = joining.result()
        membership.adopt(joined)
        fetcher.assign(joined.partitions)
        self._metadata.want(*self.topics)
        if self._listener is not None:
            await self._listener.on_assigned(sorted(joined.partitions))
        return True

    async def leave(self, fetcher: Fetcher | None) -> None:
        """Give the partitions up, and leave the group. Raises what the listener raises."""
        joining, self._joining = self._joining, None
        await cancelled(joining)
        if self.topics:
            if fetcher is not None:
                await self._revoke(fetcher)
            self.topics = ()
            await self._membership.leave()

    async def _revoke(self, fetcher: Fetcher) -> None:
        revoked = sorted(fetcher.partitions)
        if revoked and self._listener is not None:
            if self._membership.lost:
                await self._listener.on_lost(revoked)
            else:
                await self._listener.on_revoked(revoked)
        fetcher.assign(())
