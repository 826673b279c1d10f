"""What members of a group were answered, and what must hold of it, whichever node coordinated.

Generations  a generation is announced with one member list; answered generations never go back.
Assignments  what a member is assigned in a generation is one thing, and no partition has two owners in it.
Fences       who left, was replaced or is of an older generation is answered no success to what it sends
             later; nor to one that was fenced; and no process is fenced in favour of one replaced before.
"""

import struct
from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any, Final

from fencepost.controller.errors import ApiError, ErrorCode
from fencepost.controller.groups.assigned_partitions import partitions_in
from fencepost.controller.groups.heartbeat import HeartbeatGroup
from fencepost.controller.groups.joining import JoinGroupAnswer
from fencepost.controller.groups.leaving import LeaveGroup, LeaveGroupAnswer
from fencepost.controller.groups.syncing import SyncGroup, SyncGroupAnswer
from tests.simulation.invariants import require

TOPIC: Final = "numbers"


def consumers_assignment(partitions: Iterable[int]) -> bytes:
    """Partitions of TOPIC as Kafka's ConsumerProtocolAssignment, version 0."""
    numbers, name = list(partitions), TOPIC.encode()
    head = struct.pack(">hih", 0, 1, len(name)) + name
    return head + struct.pack(f">i{len(numbers)}ii", len(numbers), *numbers, -1)


def numbers_in(assignment: bytes) -> bytes:
    """The partitions of an assignment, one byte each."""
    found = partitions_in(assignment)
    require(found is not None, "an assignment is no consumer's", assignment=assignment)
    return bytes(sorted((found or {}).get(TOPIC, ())))


class GroupFacts:
    """See the module. Times are counts of events: ``sent`` numbers requests and answers alike."""

    def __init__(self, holder_of: Callable[[str], str | None]) -> None:
        self.holder_of = holder_of  # the member id of an instance, by the image of the active controller
        self._now = 0
        self.counts: Counter[str] = Counter()
        self.announced: dict[int, frozenset[str]] = {}
        self._generations: list[
            tuple[int, int]
        ] = []  # (when it was answered, the highest generation by then)
        self._assigned: dict[tuple[int, str], bytes] = {}
        self._owners: dict[tuple[int, int], str] = {}
        self._gone: dict[str, int] = {}  # member id -> since when it is not a member any more
        self._holders: dict[str, dict[str, int]] = {}  # instance id -> member id -> when it was answered
        self._keys: dict[str, str] = {}  # member id -> its instance id, or itself
        self.owned: dict[int, dict[int, str]] = {}

    def count(self, what: str) -> None:
        """One more of these."""
        self.counts[what] += 1

    def sent(self, request: Any) -> int:
        """The time at which a request is sent."""
        self._now += 1
        return self._now

    def answered(self, sent: int, instance_id: str | None, request: Any, answer: Any) -> None:
        """An answer to what a member sent then leaves the coordinator. Raises Violation."""
        self._now += 1
        if isinstance(answer, ApiError):
            self.counts[answer.code.name] += 1
            if answer.code == ErrorCode.FENCED_INSTANCE_ID and instance_id is not None:
                holder = self.holder_of(instance_id)
                require(holder not in self._gone, "fenced in favour of one that was replaced", holder=holder)
                if getattr(request, "member_id", ""):
                    self._gone.setdefault(request.member_id, self._now)
        elif isinstance(answer, JoinGroupAnswer):
            self._joined(sent, instance_id, answer)
        elif isinstance(answer, SyncGroupAnswer):
            self._synced(sent, request, answer)
        elif isinstance(request, HeartbeatGroup):
            self.counts["heartbeats"] += 1
            self._current(sent, request.member_id, request.generation, "a heartbeat")
        elif isinstance(answer, LeaveGroupAnswer):
            self._left(request, answer)

    def _joined(self, sent: int, instance_id: str | None, answer: JoinGroupAnswer) -> None:
        self.counts["joins"] += 1
        member_id, generation = answer.member_id, answer.generation
        self._keys[member_id] = instance_id or member_id
        if instance_id is not None:
            holders = self._holders.setdefault(instance_id, {})
            for older, answered in holders.items():
                if older != member_id and answered < sent:  # it had its answer before this one was sent
                    self._gone.setdefault(older, self._now)
            holders.setdefault(member_id, self._now)
        self._current(sent, member_id, generation, "a join")
        highest = max(generation, self._generations[-1][1] if self._generations else 0)
        self._generations.append((self._now, highest))
        if answer.members and not answer.skip_assignment:
            ids = frozenset(each.instance_id or each.member_id for each in answer.members)
            known = self.announced.setdefault(generation, ids)
            require(known == ids, "a generation was announced with two member lists", generation=generation)
        if generation in self.announced:
            key = instance_id or member_id
            listed = key in self.announced[generation]
            require(listed, "a member joined a generation that does not list it", member_id=member_id)

    def _synced(self, sent: int, request: SyncGroup, answer: SyncGroupAnswer) -> None:
        self.counts["syncs"] += 1
        generation = request.generation
        self._current(sent, request.member_id, generation, "a sync")
        key = self._keys.get(request.member_id, request.member_id)
        assignment = numbers_in(answer.assignment)
        known = self._assigned.setdefault((generation, key), assignment)
        require(known == assignment, "a member has two assignments in a generation", generation=generation)
        for partition in assignment:
            owner = self._owners.setdefault((generation, partition), key)
            require(owner == key, "a partition has two owners in a generation", partition=partition)
            self.owned.setdefault(generation, {})[partition] = key

    def _left(self, request: LeaveGroup, answer: LeaveGroupAnswer) -> None:
        for member in answer.members:
            if member.error_code == ErrorCode.NONE:
                self.counts["leaves"] += 1
                self._gone.setdefault(member.member_id, self._now)

    def _current(self, sent: int, member_id: str, generation: int, what: str) -> None:
        """The member may be answered with success to what it sent then."""
        gone = self._gone.get(member_id)
        require(
            gone is None or sent < gone, f"{what} of a member that is gone succeeded", member_id=member_id
        )
        before = [highest for when, highest in self._generations[-50:] if when < sent]
        if before:
            behind = before[-1] <= generation
            require(behind, f"{what} of an old generation succeeded", generation=generation, known=before[-1])
