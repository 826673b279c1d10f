"""Heartbeats of all groups share one entry, at most one every 20 ms, which proves that this node coordinates.

Session   begins anew as soon as the heartbeat of a current member is here: it delays an expiry, no more.
Source    Kafka GroupMetadataManager.classicGroupHeartbeat; the barrier is this project's: a deposed leader
          that goes on answering keeps an evicted member at work.
"""

from __future__ import annotations  # or each request computes those of the functions made for it

from functools import partial
from typing import Final, TypeAlias

from fencepost.controller.decision import Decision
from fencepost.controller.errors import ApiError, CoordinatorLoadInProgress, NotCoordinator
from fencepost.controller.groups import heartbeat, tables
from fencepost.controller.groups.heartbeat import HeartbeatGroup
from fencepost.controller.view import View
from fencepost.coordinator.groups.group_operations import CallLater, GroupOperations
from fencepost.quorum.port import Outcome, Submit
from fencepost.wire.dispatch import Reply

BARRIER_S: Final = 0.02
BATCH_MAX: Final = 500  # heartbeats of one entry: some 5 ms
WAITING_MAX: Final = 50_000

Waiting: TypeAlias = tuple[HeartbeatGroup, Reply[None]]
Outcomes: TypeAlias = tuple[ApiError | None, ...]


class Heartbeats:
    """See the module."""

    def __init__(self, operations: GroupOperations, submit: Submit, call_later: CallLater) -> None:
        self._operations = operations
        self._submit = submit
        self._call_later = call_later
        self._waiting: list[Waiting] = []
        self._last_s = 0.0
        self._leadership = 0

    def end(self) -> None:
        """The leadership is over."""
        self._leadership += 1
        waiting, self._waiting = self._waiting, []
        refusal = NotCoordinator("this node no longer coordinates groups")
        for _, reply in waiting:
            reply(refusal, 0)

    def add(self, request: HeartbeatGroup, reply: Reply[None]) -> None:
        """Answer with the next barrier. Raises CoordinatorLoadInProgress."""
        if len(self._waiting) >= WAITING_MAX:
            raise CoordinatorLoadInProgress(f"{WAITING_MAX} heartbeats wait; retry later")
        self._touch(request)
        self._waiting.append((request, reply))
        if len(self._waiting) == 1:
            wait_s = max(0.0, self._last_s + BARRIER_S - self._operations.clock())
            self._call_later(min(wait_s, BARRIER_S), partial(self._flush, self._leadership))

    def _touch(self, request: HeartbeatGroup) -> None:
        view, group = self._operations.image(), self._operations.find(request.group_id)
        row = tables.get(view, request.group_id)
        member = tables.member(view, request.group_id, request.member_id)
        if group is not None and row is not None and member is not None:
            if row.generation == request.generation:
                self._operations.touch(group, member)

    def _flush(self, leadership: int) -> None:
        if leadership != self._leadership:
            return
        self._last_s = self._operations.clock()
        batch, self._waiting = tuple(self._waiting[:BATCH_MAX]), self._waiting[BATCH_MAX:]
        preparing = tuple([self._operations.is_preparing(request.group_id) for request, _ in batch])
        requests = tuple([request for request, _ in batch])

        def decide(view: View, _now_ms: int) -> Decision[Outcomes]:
            pairs = zip(requests, preparing, strict=True)
            return Decision((), tuple([_refusal(view, request, is_open) for request, is_open in pairs]))

        self._submit(decide, partial(self._done, batch))
        if self._waiting:
            self._call_later(BARRIER_S, partial(self._flush, self._leadership))

    def _done(self, batch: tuple[Waiting, ...], outcome: Outcome[Outcomes], _throttle_ms: int) -> None:
        if isinstance(outcome, ApiError):
            error = self._operations.errors.translate(outcome)
            for _, reply in batch:
                reply(error, 0)
            return
        for (_, reply), refusal in zip(batch, outcome, strict=True):
            reply(refusal, 0)


def _refusal(view: View, request: HeartbeatGroup, is_preparing: bool) -> ApiError | None:
    try:
        heartbeat.require_alive(view, request, is_preparing=is_preparing)
    except ApiError as refusal:
        return refusal
    return None
