"""Timers of offsets: what expired is forgotten, what is of a deleted topic, and groups with nothing left.

Slices      a walk looks at a bounded number of rows of an index at a time, the loop free between them, and
            proposes only when there is something to write.
Rows        that cannot be decided are set aside (quorum/quarantine.py); all others are forgotten.
Source      Kafka ``offsets.retention.check.interval.ms``, GroupCoordinatorService.onPartitionsDeleted.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Final, Generic, TypeVar

from structlog.typing import FilteringBoundLogger

from fencepost.controller import levels
from fencepost.controller.decision import Decision
from fencepost.controller.groups import offset_expiry
from fencepost.controller.groups.offset_expiry import ByTopicKey, Forgotten, Retention, TimedKey
from fencepost.controller.groups.offset_tables import OffsetKey
from fencepost.controller.view import View
from fencepost.coordinator.marker_sender import CallLater
from fencepost.quorum.port import Submit
from fencepost.quorum.quarantine import Quarantine
from fencepost.quorum.sweep import DecideRows, Sweep
from fencepost.records.levels import GROUP_LOG

FIRST_S_MAX: Final = 60.0  # after activation: or a cluster whose leaders change would never forget
TOPICS_S: Final = 10.0  # between two walks of the topics of which there are offsets
SLICE_PAUSE_S: Final = 0.05

EXPIRY: Final = "offset expiry"
TOPIC_DELETION: Final = "offsets of deleted topics"
EMPTY_GROUPS: Final = "empty groups"

K = TypeVar("K")
A = TypeVar("A")

Look = Callable[[View, int, A | None], tuple[tuple[K, ...], A | None]]
"""(view, now_ms, where the walk goes on) -> keys that are due, and where it goes on; None: at its end."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetTimes:
    """The settings of expiry, in milliseconds."""

    retention_ms: int = 7 * 24 * 3_600_000
    check_interval_ms: int = 600_000


class OffsetTimers:
    """See the module. Soft state is of one leadership."""

    def __init__(
        self,
        times: OffsetTimes,
        image: Callable[[], View],
        submit: Submit,
        call_later: CallLater,
        *,
        quarantine: Quarantine,
        clock: Callable[[], float],
        now_ms: Callable[[], int],
        slowest_ms: Callable[[], int | None],
        may_expire: Callable[[], bool] = lambda: True,
        log: FilteringBoundLogger,
    ) -> None:
        self._times = times
        self._slowest_ms = slowest_ms
        self._may_expire = may_expire
        self._activated_ms = 0
        self._image = image
        self.forgotten = 0  # offsets, for metrics
        world = _World(image, call_later, clock, now_ms, self._count)
        interval_s = times.check_interval_ms / 1000

        def swept(concern: str, decide: DecideRows[K, Forgotten]) -> Sweep[K, Forgotten]:
            return Sweep(concern, decide, submit, quarantine, log)

        by_key = swept(EXPIRY, self._decide_expire)
        self._walks: tuple[
            _Walk[OffsetKey, TimedKey] | _Walk[OffsetKey, ByTopicKey] | _Walk[str, str], ...
        ] = (
            _Walk(world, interval_s, self._due_by_time, by_key),
            _Walk(world, interval_s, self._due_by_client, by_key),
            _Walk(world, TOPICS_S, _due_by_topic, swept(TOPIC_DELETION, _decide_topics)),
            _Walk(world, interval_s, _due_groups, swept(EMPTY_GROUPS, _decide_groups)),
        )

    def activated(self, now_ms: int) -> None:
        """A new leadership: nothing is known of how far a sweep was."""
        self._activated_ms = now_ms
        for walk in self._walks:
            walk.activated()

    def deposed(self) -> None:
        """The leadership is over: walks end where they are."""
        for walk in self._walks:
            walk.deposed()

    def maintain(self, _now_ms: int) -> None:
        """Begin one walk that is due and not under way; the others are begun in the next ticks."""
        if levels.in_force(self._image()) >= GROUP_LOG:
            any(walk.begin_if_due() for walk in self._walks)

    def sweep(self, _now_ms: int) -> None:
        """See driver.Service: its timers are finer than that."""

    def _count(self, forgotten: Forgotten) -> None:
        self.forgotten += forgotten.offsets

    def _retention(self, now_ms: int) -> Retention:
        return Retention(now_ms, self._activated_ms, self._times.retention_ms, self._slowest_ms())

    def _due_by_time(
        self, view: View, now_ms: int, after: TimedKey | None
    ) -> tuple[tuple[OffsetKey, ...], TimedKey | None]:
        if not self._may_expire():
            return (), None
        return offset_expiry.due_by_time(view, self._retention(now_ms), after)

    def _due_by_client(
        self, view: View, now_ms: int, after: TimedKey | None
    ) -> tuple[tuple[OffsetKey, ...], TimedKey | None]:
        if not self._may_expire():
            return (), None
        return offset_expiry.due_by_client(view, self._retention(now_ms), after)

    def _decide_expire(self, view: View, now_ms: int, keys: tuple[OffsetKey, ...]) -> Decision[Forgotten]:
        return offset_expiry.decide_expire(view, self._retention(now_ms), keys)


@dataclass(frozen=True, slots=True)
class _World:
    """What a walk needs of its node."""

    image: Callable[[], View]
    call_later: CallLater
    clock: Callable[[], float]
    now_ms: Callable[[], int]
    count: Callable[[Forgotten], None]


class _Walk(Generic[K, A]):
    """One index, from its beginning to its end, again and again."""

    def __init__(
        self, world: _World, interval_s: float, look: Look[A, K], sweep: Sweep[K, Forgotten]
    ) -> None:
        self._world = world
        self._interval_s = interval_s
        self._look = look
        self._sweep = sweep
        self._leadership = 0
        self._walking = False
        self._due_s = 0.0

    def activated(self) -> None:
        """Begin soon, from the beginning."""
        self.deposed()
        self._due_s = self._world.clock() + min(self._interval_s, FIRST_S_MAX)

    def deposed(self) -> None:
        """What is under way belongs to a leadership that is over."""
        self._leadership += 1
        self._walking = False

    def begin_if_due(self) -> bool:
        """Begin a walk, unless one is under way. Returns whether it was begun."""
        if self._walking or self._world.clock() < self._due_s:
            return False
        self._walking = True
        self._slice(self._leadership, None)
        return True

    def _slice(self, leadership: int, after: A | None) -> None:
        if leadership != self._leadership:
            return
        keys, after = self._look(self._world.image(), self._world.now_ms(), after)
        passed_by = self._sweep.passed_by()
        keys = tuple([each for each in keys if str(each) not in passed_by])
        if keys:
            self._sweep.run(keys, partial(self._decided, leadership, after))
        else:
            self._go_on(leadership, after)

    def _decided(self, leadership: int, after: A | None, outcomes: tuple[Forgotten, ...]) -> None:
        for each in outcomes:
            self._world.count(each)
        self._go_on(leadership, after if outcomes else None)

    def _go_on(self, leadership: int, after: A | None) -> None:
        if leadership != self._leadership:
            return
        if after is not None:
            self._world.call_later(SLICE_PAUSE_S, partial(self._slice, leadership, after))
            return
        self._walking = False
        self._due_s = self._world.clock() + self._interval_s


def _due_by_topic(
    view: View, now_ms: int, after: ByTopicKey | None
) -> tuple[tuple[OffsetKey, ...], ByTopicKey | None]:
    return offset_expiry.due_by_topic(view, after)


def _decide_topics(view: View, now_ms: int, keys: tuple[OffsetKey, ...]) -> Decision[Forgotten]:
    return offset_expiry.decide_forget_topics(view, keys)


def _due_groups(view: View, now_ms: int, after: str | None) -> tuple[tuple[str, ...], str | None]:
    return offset_expiry.due_empty_groups(view, after)


def _decide_groups(view: View, now_ms: int, keys: tuple[str, ...]) -> Decision[Forgotten]:
    return offset_expiry.decide_forget_groups(view, keys)
