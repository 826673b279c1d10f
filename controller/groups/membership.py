"""The members that a group has or is about to have, in the order in which they joined, and what they share.

Invariant   ``bytes`` and the counts behind ``supported`` are those of the members that are in here.
Vote        candidates are the protocols that all members support; each member votes for the first of its own
            that is one; the most votes win, and among equals the one that the leader prefers.
Source      Kafka ClassicGroup (candidateProtocols, vote, selectProtocol).
"""

from collections import Counter
from collections.abc import Iterable, Iterator

from fencepost.controller.groups import tables
from fencepost.controller.view import View
from fencepost.records.group_metadata import GroupMember


class Membership:
    """See the module."""

    __slots__ = ("_instances", "_members", "_support", "bytes")

    def __init__(self, members: Iterable[GroupMember] = ()) -> None:
        self._members: dict[str, GroupMember] = {}
        self._instances: dict[str, str] = {}
        self._support: Counter[str] = Counter()
        self.bytes = 0
        for each in members:
            self.put(each)

    @classmethod
    def of(cls, view: View, group_id: str) -> "Membership":
        """The members of a group in the image."""
        return cls(tables.members(view, group_id))

    def __len__(self) -> int:
        return len(self._members)

    def __iter__(self) -> Iterator[GroupMember]:
        """In the order in which they joined."""
        return iter(self._members.values())

    def __contains__(self, member_id: object) -> bool:
        return member_id in self._members

    def get(self, member_id: str) -> GroupMember | None:
        """A member, or None."""
        return self._members.get(member_id)

    def holder_of(self, instance_id: str) -> str | None:
        """The member id of a static member, or None."""
        return self._instances.get(instance_id)

    def put(self, member: GroupMember) -> None:
        """Add a member as the last one, or change one, whose place stays."""
        before = self._members.get(member.member_id)
        if before is not None:
            self._forget(before)
        self._members[member.member_id] = member
        if member.instance_id is not None:
            self._instances[member.instance_id] = member.member_id
        self._support.update({name for name, _ in member.protocols})
        self.bytes += tables.size_of(member)

    def remove(self, member_id: str) -> None:
        """Remove a member; nothing happens if it is not in here."""
        before = self._members.pop(member_id, None)
        if before is not None:
            self._forget(before)

    def replace(self, member_id: str, member: GroupMember) -> None:
        """``member`` takes the place of the one with that id."""
        members = [member if each.member_id == member_id else each for each in self]
        self.__init__(members)  # type: ignore[misc]

    def supported(self) -> frozenset[str]:
        """The protocols that all members support."""
        return frozenset(name for name, count in self._support.items() if count == len(self._members))

    def vote(self, leader: str | None) -> str | None:
        """The protocol that they agree on; None if they share none."""
        candidates = self.supported()
        votes: Counter[str] = Counter()
        for each in self:
            choice = next((name for name, _ in each.protocols if name in candidates), None)
            if choice is not None:
                votes[choice] += 1
        if not votes:
            return None
        most = max(votes.values())
        first = self.get(leader) if leader is not None else None
        preferred = [name for name, _ in first.protocols] if first is not None else []
        winners = [name for name in votes if votes[name] == most]
        return min(winners, key=lambda name: preferred.index(name) if name in preferred else len(preferred))

    def rebalance_timeout_ms(self) -> int:
        """The longest of all members; 0 without members."""
        return max((each.rebalance_timeout_ms for each in self), default=0)

    def _forget(self, member: GroupMember) -> None:
        if member.instance_id is not None and self._instances.get(member.instance_id) == member.member_id:
            del self._instances[member.instance_id]
        self._support.subtract({name for name, _ in member.protocols})
        self.bytes -= tables.size_of(member)
