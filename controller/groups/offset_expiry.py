"""Offsets expire: what no one commits any more, and what is of a topic that is gone.

Retention   counts from the commit, and while the group has consumers that read the topic never; a group that
            became empty later, from then on (Kafka: from then on even for a later commit of ``assign()``).
Clocks      a stamp may be a former leader's: controller/clocks.py says which are old for sure. A clock that
            jumps forward expires nothing.
Topics      a delete of a topic is a decision of another log: these offsets read as none at once, and a sweep
            forgets them, found by their topic ids.
Groups      one without members is forgotten when nothing of it is left.
Source      Kafka OffsetMetadataManager.cleanupExpiredOffsets, OffsetExpirationConditionImpl, KAFKA-13636,
            KAFKA-19163; docs/kafka-notes.md D.
"""

from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Final, TypeAlias
from uuid import UUID

import msgspec

from fencepost.controller import topics
from fencepost.controller.clocks import IdleStamps, idle_stamps
from fencepost.controller.decision import Decision
from fencepost.controller.groups import tables
from fencepost.controller.groups.offset_deletion import FORGOTTEN_COST, forgets_group, is_subscribed
from fencepost.controller.groups.offset_tables import (
    BY_TOPIC,
    EXPIRIES,
    OFFSETS,
    PENDING,
    TIMES,
    TIMES_BUCKET_MS,
    WAITING,
    KeptOffset,
    OffsetKey,
)
from fencepost.controller.groups.tables import GROUP_ID_BYTES_MAX, GROUPS
from fencepost.controller.view import Table, View
from fencepost.records.group_metadata import GroupForgotten, GroupState
from fencepost.records.logged import StateRecord
from fencepost.records.offset_commit import OffsetForgotten

DUE_MAX: Final = 400  # forgotten by one decision: some 15 ms of every node's loop
LOOKED_MAX: Final = 500  # rows of an index that one look walks over: some 20 us each, read from the store
TOPICS_LOOKED_MAX: Final = 500

TimedKey: TypeAlias = tuple[int, OffsetKey]
ByTopicKey: TypeAlias = tuple[UUID, str, int]

_LAST_GROUP: Final = "\U0010ffff" * (GROUP_ID_BYTES_MAX // 4) + "\u07ff" * (GROUP_ID_BYTES_MAX % 4 // 2)
_LAST_PARTITION: Final = 2**32 - 1
_FIRST: Final[OffsetKey] = ("", "", 0)


class Retention(msgspec.Struct, frozen=True):
    """The clock of a sweep: see ``clocks.idle_stamps``. ``idle_ms`` is ``offsets.retention.minutes``."""

    now_ms: int
    activated_ms: int
    idle_ms: int
    slowest_ms: int | None

    def idle(self, idle_ms: int | None = None) -> IdleStamps:
        """Which stamps lie back by that time, for sure."""
        wanted = self.idle_ms if idle_ms is None else idle_ms
        return idle_stamps(self.now_ms, self.activated_ms, wanted, self.slowest_ms)


class Forgotten(msgspec.Struct, frozen=True):
    """How many offsets and groups a sweep forgot."""

    offsets: int = 0
    groups: int = 0


# -- what is due -----------------------------------------------------------------------------------------


def due_by_time(
    view: View, retention: Retention, after: TimedKey | None = None
) -> tuple[tuple[OffsetKey, ...], TimedKey | None]:
    """Offsets that expired, by when they were committed: at most DUE_MAX, of LOOKED_MAX rows.

    And where the walk goes on: None at its end.
    """
    idle = retention.idle()
    return _due(view, retention, TIMES, _within(view, TIMES, after, idle.last_ms, idle.first_future_ms))


def due_by_client(
    view: View, retention: Retention, after: TimedKey | None = None
) -> tuple[tuple[OffsetKey, ...], TimedKey | None]:
    """The same of offsets whose client said how long they are kept."""
    return _due(view, retention, EXPIRIES, _within(view, EXPIRIES, after, retention.now_ms, None))


def _within(
    view: View,
    table: Table[TimedKey, bool],
    after: TimedKey | None,
    last_ms: int,
    first_future_ms: int | None,
) -> Iterator[TimedKey]:
    """The keys beyond ``after`` up to one time, and then those from another one on."""
    if after is None or after[0] <= last_ms:
        for key, _ in view.scan(table, after):
            if key[0] > last_ms:
                break
            yield key
    if first_future_ms is not None:
        future = (max(0, first_future_ms - TIMES_BUCKET_MS), _FIRST)
        for key, _ in view.scan(table, future if after is None else max(after, future)):
            yield key


def _due(
    view: View, retention: Retention, table: Table[TimedKey, bool], keys: Iterator[TimedKey]
) -> tuple[tuple[OffsetKey, ...], TimedKey | None]:
    due: list[OffsetKey] = []
    looked, last = 0, None
    for at in keys:
        looked, last = looked + 1, at
        row = view.get(OFFSETS, at[1])
        if row is not None and is_expired(view, at[1], row, retention):
            due.append(at[1])
        if len(due) == DUE_MAX or looked == LOOKED_MAX:
            return tuple(due), last
    return tuple(due), None


def due_by_topic(
    view: View, after: ByTopicKey | None = None
) -> tuple[tuple[OffsetKey, ...], ByTopicKey | None]:
    """Offsets of topics that are gone: at most DUE_MAX, of TOPICS_LOOKED_MAX topics. And where to go on."""
    due: list[OffsetKey] = []
    for _ in range(TOPICS_LOOKED_MAX):
        found = next(iter(view.scan(BY_TOPIC, after)), None)
        if found is None:
            return tuple(due), None
        topic_id = found[0][0]
        if topics.find_by_id(view, topic_id) is None:
            for key, topic in islice(view.scan(BY_TOPIC, after), DUE_MAX - len(due)):
                if key[0] != topic_id:
                    break
                due.append((key[1], topic, key[2]))
                after = key
            if len(due) == DUE_MAX:
                return tuple(due), after
        after = (topic_id, _LAST_GROUP, _LAST_PARTITION)
    return tuple(due), after


def is_expired(view: View, key: OffsetKey, row: KeptOffset, retention: Retention) -> bool:
    """The offset is to be forgotten. A pending one keeps it."""
    if view.get(WAITING, key):
        return False
    if row.expires_ms >= 0:
        return retention.idle(max(0, row.expires_ms - row.committed_ms)).holds(max(0, row.committed_ms))
    since_ms = row.committed_ms
    group = tables.get(view, key[0])
    if group is not None and group.protocol_type:
        if group.state is GroupState.EMPTY:
            since_ms = max(since_ms, group.state_ms)
        elif group.state is not GroupState.STABLE or is_subscribed(view, key[0], group, key[1]):
            return False
    return retention.idle().holds(max(0, since_ms))


# -- decisions -------------------------------------------------------------------------------------------


def decide_expire(view: View, retention: Retention, keys: tuple[OffsetKey, ...]) -> Decision[Forgotten]:
    """Forget those of these offsets that are still expired, and their groups if nothing is left of them."""
    rows = [(key, view.get(OFFSETS, key)) for key in keys]
    gone = [key for key, row in rows if row is not None and is_expired(view, key, row, retention)]
    counts = Counter([key[0] for key in gone])
    group_ids = [each for each, count in counts.items() if forgets_group(view, each, count)]
    return _decided(gone, group_ids)


def decide_forget_topics(view: View, keys: tuple[OffsetKey, ...]) -> Decision[Forgotten]:
    """Forget those of these offsets whose topic is gone. A group that had members stays, as after Kafka's."""
    gone = [key for key in keys if _is_of_gone_topic(view, key)]
    counts = Counter([key[0] for key in gone])
    simple = [each for each in counts if tables.get(view, each) is None]
    return _decided(gone, [each for each in simple if forgets_group(view, each, counts[each])])


def _is_of_gone_topic(view: View, key: OffsetKey) -> bool:
    row = view.get(OFFSETS, key)
    if row is None or topics.find_by_id(view, row.topic_id) is not None:
        return False
    for producer_id in view.get(WAITING, key) or ():  # a tombstone would take the pending one with it
        pending = view.get(PENDING, (producer_id, key))
        if pending is not None and topics.find_by_id(view, pending.topic_id) is not None:
            return False
    return True


def _decided(gone: list[OffsetKey], group_ids: Iterable[str]) -> Decision[Forgotten]:
    records: list[StateRecord] = [OffsetForgotten(*key) for key in gone]
    forgotten = [GroupForgotten(each) for each in group_ids]
    return Decision(
        (*records, *forgotten), Forgotten(len(gone), len(forgotten)), extra_cost=FORGOTTEN_COST * len(gone)
    )


def due_empty_groups(view: View, after: str | None = None) -> tuple[tuple[str, ...], str | None]:
    """Groups without members of which nothing is left: of LOOKED_MAX rows; and where the walk goes on."""
    rows = list(islice(view.scan(GROUPS, after), LOOKED_MAX))
    due = [group_id for group_id, _ in rows if forgets_group(view, group_id, 0)][:DUE_MAX]
    if len(due) == DUE_MAX:
        return tuple(due), due[-1]
    return tuple(due), rows[-1][0] if len(rows) == LOOKED_MAX else None


def decide_forget_groups(view: View, group_ids: tuple[str, ...]) -> Decision[Forgotten]:
    """Forget those of these groups of which nothing is left."""
    return _decided([], [each for each in group_ids if forgets_group(view, each, 0)])
