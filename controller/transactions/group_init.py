"""Group-aware InitProducerId (KIP-447): other producers of a member's partitions are fenced first.

A member of a group names the group, its generation and the partitions that it was assigned. From its answer
on no other producer may write for one of them: what others had open for them is aborted and complete.

On the wire  tagged fields of InitProducerId from version 6 on (wire/k22_init_producer_id.py). The
             transactional id may be null: the coordinator makes one; the answer names it in a tag.
Fenced       of all transactional ids but its own
             1. each with an offset pending for one of the partitions in the group;
             2. each whose own group-aware InitProducerId was given one of them, whether its transaction has
                offsets, outputs alone or nothing: a producer that lost a partition writes nothing more.
             The epoch is bumped, no instance has the new one, and what is open is aborted. The producer is
             refused as by any new instance (90, below that version 47); its own InitProducerId begins anew.
Answered     once none of these has a transaction open or prepared: at CompleteX. Until then it is 51, which
             the coordinator parks. One that ends by itself is waited for in case 2; in case 1 its offsets
             have moved with its end, and nothing of it can change.
Two-phase    a transaction of two-phase commit is not aborted: its external coordinator alone may say how it
             ends. Until then it is 51.
Refused      with nothing written, in this order:

             the id's own checks, as ever                            42, 50, 90
             a pair is given: each assignment begins an instance     42
             the log level is too low                                35
             the group id is empty or too long                       24
             over ASSIGNED_MAX partitions, or one that cannot be     42
             the group is unknown                                    69
             the member is unknown, its instance id another's        25, 82
             another generation than the current one                 22
             the group has no members                                25
             the group's leader has not assigned yet                 27
             a group whose assignments are no consumer's             42
             an assignment too large to be read in one decision      42
             a partition that the member was not assigned            42

Member       a request without a member id is of any member that was assigned all of the partitions. In a
             group whose assignments have more than SEARCHED_BYTES_MAX bytes it is refused (42).
Source       KIP-447 as proposed. What shipped instead, generations in TxnOffsetCommit, is checked as well;
             docs/kafka-notes.md B12.
"""

from typing import Final

import msgspec

from fencepost.controller import levels
from fencepost.controller.errors import ConcurrentTransactions, InvalidRequest
from fencepost.controller.group_errors import GroupIdNotFound, RebalanceInProgress, UnknownMemberId
from fencepost.controller.groups import tables
from fencepost.controller.groups.assigned_partitions import (
    READ_BYTES_MAX,
    READ_TOPICS_MAX,
    TooLarge,
    partitions_in,
    topic_count,
)
from fencepost.controller.groups.identity import NO_MEMBER, require_generation, require_member
from fencepost.controller.groups.joining import require_group_id
from fencepost.controller.groups.offset_tables import PRODUCERS, WAITING, OffsetKey, key_of
from fencepost.controller.groups.subscriptions import CONSUMER
from fencepost.controller.transactions import assignments
from fencepost.controller.transactions.assignments import OWNERS, OWNERS_MAX
from fencepost.controller.transactions.ending import cost_of_end, records_of_end
from fencepost.controller.transactions.fencing import fenced_idle, fenced_open, is_held
from fencepost.controller.transactions.states import (
    PREPARED_STATES,
    FenceCause,
    State,
    Transaction,
    get,
    record_of,
)
from fencepost.controller.view import View
from fencepost.records.group_metadata import GroupMember, GroupState
from fencepost.records.logged import ROW_COST, StateRecord, cost_of, encode_record
from fencepost.records.transaction_log import GroupAssignment, TopicPartitions

ASSIGNED_MAX: Final = 1_000  # partitions of one request: some rows of the image for each
SEARCHED_BYTES_MAX: Final = 2 * READ_BYTES_MAX  # assignments of all members, where the request names none
SEARCHED_TOPICS_MAX: Final = 2 * READ_TOPICS_MAX
RIVALS_MAX: Final = 100  # ids that one decision fences; the request is decided again for more


class MemberAssignment(msgspec.Struct, frozen=True):
    """What a member of a group was assigned in ``generation``, as it says."""

    group_id: str
    generation: int
    partitions: tuple[TopicPartitions, ...] = ()
    member_id: str = NO_MEMBER
    instance_id: str | None = None

    @property
    def keys(self) -> tuple[OffsetKey, ...]:
        """(group, topic, partition) of each, in ascending order, each once."""
        named = {(each.topic, index) for each in self.partitions for index in each.partition_ids}
        return tuple([(self.group_id, *each) for each in sorted(named)])


class RivalsEnding(ConcurrentTransactions):
    """Other producers of the partitions are not at their end yet.

    ``transactional_ids``   what the request waits for, the first of them first; () if nothing: decide again.
    """

    def __init__(self, message: str, transactional_ids: tuple[str, ...]) -> None:
        super().__init__(message)
        self.transactional_ids = transactional_ids


class Rivals(msgspec.Struct, frozen=True):
    """Other transactional ids that have one of the partitions.

    ``held``     may still write, with the partitions for which an offset of theirs is pending.
    ``ending``   have a transaction whose end is to be waited for.
    """

    held: tuple[tuple[Transaction, tuple[OffsetKey, ...]], ...]
    ending: tuple[str, ...]


class Fenced(msgspec.Struct, frozen=True):
    """The records that fence rivals, and what replaying them takes beyond what their bytes say."""

    records: tuple[StateRecord, ...]
    transactional_ids: tuple[str, ...]
    extra_cost: int


def require_assigned(view: View, said: MemberAssignment) -> None:
    """Raises what the module says, unless the group has assigned these partitions to the member."""
    levels.require_group_aware_init(view)
    require_group_id(said.group_id)
    _require_nameable(said)
    group = tables.get(view, said.group_id)
    if group is None:
        raise GroupIdNotFound(f"nothing is known of group {said.group_id!r}")
    is_named = said.member_id != NO_MEMBER or said.instance_id is not None
    member = require_member(view, said.group_id, said.member_id, said.instance_id) if is_named else None
    require_generation(said.group_id, group, said.generation)
    if group.state is GroupState.EMPTY:
        raise UnknownMemberId(f"group {said.group_id!r} has no members: join again")
    if group.state is GroupState.COMPLETING_REBALANCE:
        raise RebalanceInProgress(f"group {said.group_id!r} waits for its leader's assignments: retry then")
    if group.protocol_type != CONSUMER:
        raise InvalidRequest(
            f"group {said.group_id!r} is of protocol type {group.protocol_type!r}: its assignments are opaque"
        )
    candidates = _candidates(view, said.group_id) if member is None else (member,)
    if not any(_holds(each, said) for each in candidates):
        who = f"not {said.member_id!r}" if is_named else "no single member"
        raise InvalidRequest(
            f"{len(said.keys)} partitions of group {said.group_id!r} in generation {said.generation}: "
            f"{who} was assigned all of them"
        )


def _require_nameable(said: MemberAssignment) -> None:
    count = sum([len(each.partition_ids) for each in said.partitions])
    if count > ASSIGNED_MAX:
        raise InvalidRequest(f"{count} assigned partitions; at most {ASSIGNED_MAX}")
    for each in said.partitions:
        for index in each.partition_ids:
            if key_of(said.group_id, each.topic, index) is None:
                raise InvalidRequest(f"no topic has a partition {each.topic!r}-{index}")


def _candidates(view: View, group_id: str) -> tuple[GroupMember, ...]:
    """All members, if one decision may read all of their assignments."""
    members = tables.members(view, group_id)
    size = sum([len(each.assignment) for each in members])
    topics = sum([topic_count(each.assignment) for each in members])
    if size > SEARCHED_BYTES_MAX or topics > SEARCHED_TOPICS_MAX:
        raise InvalidRequest(
            f"the members of group {group_id!r} were assigned {topics} topics in {size} bytes; at most "
            f"{SEARCHED_TOPICS_MAX} in {SEARCHED_BYTES_MAX} are searched: name the member id"
        )
    return members


def _holds(member: GroupMember, said: MemberAssignment) -> bool:
    """The member was assigned all of it. Raises InvalidRequest if its assignment cannot be read."""
    try:
        found = partitions_in(member.assignment)
    except TooLarge as error:
        raise InvalidRequest(f"the assignment of member {member.member_id!r} has {error}") from error
    if found is None:
        raise InvalidRequest(
            f"the assignment of member {member.member_id!r} cannot be read: it is no consumer's"
        )
    return all(found.get(each.topic, set()).issuperset(each.partition_ids) for each in said.partitions)


# -- whom it fences ----------------------------------------------------------------------------------------


def rivals(view: View, said: MemberAssignment, own: str | None) -> Rivals:
    """The other transactional ids that have one of these partitions.

    Raises   ConcurrentTransactions if one cannot be named: its transaction began at an older log level.
    """
    pending: dict[str, list[OffsetKey]] = {}
    for key in said.keys:
        owners = view.get(OWNERS, key)
        for owner in owners or ():
            pending.setdefault(owner, [])
        for producer_id in view.get(WAITING, key) or ():
            name = view.get(PRODUCERS, producer_id)
            if name is None:
                raise ConcurrentTransactions(
                    f"producer {producer_id} has an offset pending for {key[1]}-{key[2]} of group {key[0]!r} "
                    "in a transaction that began below the log level that names it: retry when it has ended"
                )
            pending.setdefault(name, []).append(key)
    held, ending = [], []
    for name, keys in pending.items():
        row = get(view, name)
        if row is None or name == own:
            continue
        if row.state in PREPARED_STATES or (row.state is State.ONGOING and row.is_two_phase):
            ending.append(name)
        elif row.state is State.ONGOING or is_held(row):
            held.append((row, tuple(keys)))
    return Rivals(tuple(held), tuple(ending))


def fence(view: View, said: MemberAssignment, found: Rivals, *, now_ms: int, by: str) -> Fenced:
    """What fences those that may still write: as many as the entry has room for, at least one."""
    records: list[StateRecord] = []
    names: list[str] = []
    room, extra = view.room, 0
    for row, keys in found.held[:RIVALS_MAX]:
        written, moving = _fence_one(view, said, row, keys, now_ms, by)
        cost = moving + sum([cost_of(each, encode_record(each)[1]) for each in written])
        if records and cost > room:
            break
        room -= cost
        extra += moving
        records += written
        names.append(row.transactional_id)
    return Fenced(tuple(records), tuple(names), extra)


def _fence_one(
    view: View, said: MemberAssignment, row: Transaction, keys: tuple[OffsetKey, ...], now_ms: int, by: str
) -> tuple[tuple[StateRecord, ...], int]:
    """The records, and what replaying them takes beyond what their bytes say."""
    if row.state is not State.ONGOING:
        return (record_of(fenced_idle(row, FenceCause.NEW_OWNER, now_ms, by)),), 0
    aborting = fenced_open(row, FenceCause.NEW_OWNER, now_ms, by)
    first, *others = records_of_end(view, aborting)
    # From here on no offset says whose partitions it wrote for: its assignment does, until it is complete.
    keys = tuple([key for key in keys if assignments.owner_count(view, key) < OWNERS_MAX])
    before = assignments.assigned(view, row.transactional_id)
    kept = assignments.with_keys(before, said.generation, keys)
    if kept != before:
        first = msgspec.structs.replace(first, assignments=kept)  # type: ignore[type-var]
    return (first, *others), cost_of_end(view, aborting) + ROW_COST * len(keys)


# -- what is recorded --------------------------------------------------------------------------------------


def recorded(said: MemberAssignment) -> tuple[GroupAssignment, ...]:
    """The assignments of the id from now on. A member without partitions has its group all the same."""
    found = assignments.with_keys((), said.generation, said.keys)
    return found or (GroupAssignment(said.group_id, said.generation, ()),)


def cost_of_recording(said: MemberAssignment) -> int:
    """What replaying ``recorded`` takes beyond what its bytes say."""
    return ROW_COST * len(said.keys)
