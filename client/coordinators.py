"""Requests to the coordinator of a transactional id or a group, on whichever node it is.

Repeated    what was refused because another node coordinates, or cannot do it yet, and what was lost with its
            connection: a caller sends only what may be done twice (the same pair, the same offsets).
Astray      a node that is cut off from the rest may name itself for long: another one is asked then.
Not         every other refusal is raised at once, as the ApiError that it came as.
Over        after the time that a call may take: NotReachable if no attempt was sent, else RequestTimedOut.
"""

import asyncio
from collections.abc import Callable
from typing import Final

from fencepost.client.backoff import Backoff
from fencepost.client.errors import NotReachable, RequestTimedOut, number_of
from fencepost.client.network import LOST, Channel, Network
from fencepost.wire.connection import NotConnected
from fencepost.wire.dispatch import Api, Q, R
from fencepost.wire.errors import error_for
from fencepost.wire.k10_find_coordinator import FIND_COORDINATOR, FindCoordinator
from fencepost.wire.requests import ApiError, ErrorCode

CONCURRENT_S: Final = 0.002
"""First pause after CONCURRENT_TRANSACTIONS: the markers of the last transaction take a few milliseconds."""

_ELSEWHERE: Final = frozenset((ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_NOT_AVAILABLE))
_LATER: Final = frozenset(
    (
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.REQUEST_TIMED_OUT,
        ErrorCode.NETWORK_EXCEPTION,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.UNSTABLE_OFFSET_COMMIT,
    )
)


class Coordinator:
    """The coordinator of one key. ``key_type``: GROUP or TRANSACTION of wire/k10_find_coordinator.py.

    ``by_group``   the key is a group's id, and the transactions of its members are meant (KIP-447).
    """

    def __init__(self, network: Network, key_type: int, key: str, *, by_group: bool = False) -> None:
        self._network = network
        self._key_type = key_type
        self._by_group = by_group
        self.key = key
        self._node_id: int | None = None

    @property
    def node_id(self) -> int | None:
        """The node that coordinates, as far as is known."""
        return self._node_id

    def forget(self) -> None:
        """Look for the coordinator again before the next request."""
        self._node_id = None

    async def call(
        self,
        api: Api[Q, R],
        request: Q,
        *,
        timeout_s: float,
        attempt_s: float | None = None,
        code_of: Callable[[R], int] | None = None,
    ) -> R:
        """The coordinator's answer. ``code_of``: the error code inside an answer, where rows have codes.

        Raises ApiError for a refusal that no repetition heals, NotReachable, RequestTimedOut.
        """
        backoff = Backoff(timeout_s, self._network.rng)
        concurrent = Backoff(timeout_s, self._network.rng, CONCURRENT_S)
        sent, failures = False, 0
        while True:
            pause = backoff
            try:
                node_id = await self._find()
                answer = await self._network.call(
                    node_id, Channel.COORDINATION, api, request, timeout_s=self._attempt_s(backoff, attempt_s)
                )
                code = ErrorCode.NONE if code_of is None else code_of(answer)
                if code == ErrorCode.NONE:
                    return answer
                raise error_for(code)
            except ApiError as error:
                obstacle: Exception = error
                code = number_of(error)
                if code in _ELSEWHERE:
                    self.forget()
                    failures += 1
                elif code == ErrorCode.CONCURRENT_TRANSACTIONS:
                    pause = concurrent
                elif code not in _LATER:
                    raise
            except LOST as error:
                obstacle = error
                sent = sent or not isinstance(error, NotConnected)
                self.forget()
                failures += 1
            if failures > 1:
                self._network.ask_another()
            if not await pause.pause():
                what = f"{api.name} of {self.key!r}: no answer in {timeout_s:.1f} s: {obstacle}"
                raise RequestTimedOut(what) if sent else NotReachable(what)

    def _attempt_s(self, backoff: Backoff, attempt_s: float | None) -> float:
        longest = self._network.settings.request_timeout_s if attempt_s is None else attempt_s
        return max(0.001, min(longest, backoff.left_s)) if attempt_s is None else longest

    async def _find(self) -> int:
        if self._node_id is not None:
            return self._node_id
        request = FindCoordinator(self._key_type, (self.key,), self._by_group)
        answer = await self._network.call_any(FIND_COORDINATOR, request)
        found = answer.coordinators[0]
        if found.error_code != ErrorCode.NONE:
            raise error_for(found.error_code, found.error_message)
        self._network.learn_one(found.node_id, found.host, found.port)
        self._node_id = found.node_id
        return found.node_id


async def cancelled(*tasks: "asyncio.Task[object] | None") -> None:
    """Cancel tasks of ours, and wait until they have ended."""
    running = [task for task in tasks if task is not None]
    for task in running:
        task.cancel()
    await asyncio.gather(*running, return_exceptions=True)
