"""What the coordinator knows of one group beside its row in the image: soft, of one leadership.

A join phase  collects joins. Nothing of it is logged before it ends, so it is lost with the leadership: the
              generation before it goes on, or its members are asked to join again.
Operations    on one group run one after the other: while a record of the group is in flight, the next ones
              wait in ``queue``. So between two of them the image holds all that was decided of the group.
"""

from collections import deque
from collections.abc import Callable
from math import inf
from typing import Final, Protocol

import msgspec

from fencepost.controller.errors import ApiError
from fencepost.controller.groups.joining import JoinGroupAnswer, Phase
from fencepost.controller.groups.membership import Membership
from fencepost.controller.groups.syncing import SyncGroupAnswer
from fencepost.coordinator.groups.deadlines import Deadlines
from fencepost.wire.dispatch import Reply

NEW_MEMBER_S_MAX: Final = 300.0
"""For so long the join of a new member is parked: a client that gave up comes back under another id."""

NEXT_LOOK_S: Final = 5.0  # at a member that waits for an answer


class Refuse(Protocol):
    """A reply of any kind, which takes a refusal."""

    def __call__(self, refusal: ApiError, throttle_ms: int = 0, /) -> None:
        """See ``fencepost.wire.dispatch.Reply``."""


class ParkedJoin(msgspec.Struct, frozen=True):
    """A join that waits for the end of the phase."""

    reply: Reply[JoinGroupAnswer]
    is_new: bool
    since_s: float


class SoftGroup:
    """One group. Times are of the coordinator's monotonic clock; ``inf``: none is set."""

    __slots__ = (
        "added",
        "busy",
        "delay_left_s",
        "delay_s",
        "group_id",
        "is_initial",
        "is_open",
        "joins",
        "membership",
        "pending",
        "phase_end_s",
        "protocol_type",
        "queue",
        "sessions",
        "sync_end_s",
        "syncs",
        "unsynced",
    )

    def __init__(self, group_id: str) -> None:
        self.group_id = group_id
        self.sessions = Deadlines()
        self.pending = Deadlines()  # ids that were given out and have not joined
        self.membership: Membership | None = None  # loaded for a rebalance
        self.protocol_type = ""
        self.is_open = False  # a join phase is under way
        self.is_initial = False  # of a group that was empty: it waits for more members
        self.added = False  # a member joined since the initial delay was last begun
        self.delay_s = self.delay_left_s = 0.0
        self.phase_end_s = inf
        self.joins: dict[str, ParkedJoin] = {}
        self.syncs: dict[str, Reply[SyncGroupAnswer]] = {}
        self.unsynced: set[str] = set()  # of this generation
        self.sync_end_s = inf
        self.busy = False  # a record of it is in flight
        self.queue: deque[tuple[Callable[[], None], Refuse]] = deque()

    @property
    def phase(self) -> Phase:
        """As the rules of controller/groups see it."""
        return Phase(self.is_open, self.protocol_type, self.joins.keys(), self.pending)

    @property
    def is_idle(self) -> bool:
        """Nothing is known of it that the image does not say."""
        return not (self.busy or self.is_open or self.sessions or self.pending or self.queue)

    def open_phase(self, now_s: float, timeout_s: float, *, initial_delay_s: float | None) -> None:
        """Begin a join phase; with an initial delay, that of a group that was empty."""
        self.is_open = True
        self.added = False
        self.is_initial = initial_delay_s is not None
        if initial_delay_s is not None:
            self.delay_s = initial_delay_s
            self.delay_left_s = max(timeout_s - initial_delay_s, 0.0)
            timeout_s = initial_delay_s
        self.phase_end_s = now_s + timeout_s

    def close_phase(self) -> None:
        """The join phase has ended. The membership is to be read again."""
        self.is_open = self.is_initial = False
        self.phase_end_s = inf
        self.joins = {}
        self.membership = None

    def is_due(self, now_s: float, initial_delay_s: float) -> bool:
        """The join phase ends now; an initial delay begins anew while members come, up to their timeout."""
        is_over = self.phase_end_s <= now_s
        if not self.is_initial:
            return is_over or self.all_joined()
        if is_over and self.added and self.delay_left_s > 0:
            self.added = False
            waited_s, self.delay_s = self.delay_s, min(initial_delay_s, self.delay_left_s)
            self.delay_left_s = max(self.delay_left_s - waited_s, 0.0)
            self.phase_end_s = now_s + self.delay_s
            return False
        return is_over

    def all_joined(self) -> bool:
        """Every member has joined again, and no id that was given out is about to."""
        count = 0 if self.membership is None else len(self.membership)
        return count == len(self.joins) and not self.pending

    def await_syncs(self, now_s: float, membership: Membership) -> None:
        """A generation has begun: each member is to send a SyncGroup within the rebalance timeout."""
        self.unsynced = {each.member_id for each in membership}
        self.sync_end_s = now_s + membership.rebalance_timeout_ms() / 1000 if self.unsynced else inf

    def expired(self, now_s: float) -> frozenset[str]:
        """Members whose session is over, once: those that wait for an answer live, new ones for a while."""
        over = []
        for member_id in self.sessions.take_over(now_s):
            join = self.joins.get(member_id)
            stays = join is not None and (not join.is_new or now_s - join.since_s <= NEW_MEMBER_S_MAX)
            if stays or member_id in self.syncs:
                self.sessions.set(member_id, now_s + NEXT_LOOK_S)
            else:
                over.append(member_id)
        return frozenset(over)

    def is_waiting(self, member_id: str) -> bool:
        """A request of the member is parked."""
        return member_id in self.joins or member_id in self.syncs

    def wake_s(self) -> float:
        """When a timer of the group is due next, or before."""
        return min(self.sessions.earliest_s, self.pending.earliest_s, self.phase_end_s, self.sync_end_s)
