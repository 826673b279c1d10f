"""The holes of a coordinator that decides in memory and logs later, planted where this one has none.

H1   a generation is announced before it is in the log; H2 a replacement, H3 a removal (membership.py, too).
     Likewise an assignment that is answered before it is there.
H4   what a deposed leader thinks is answered: the mutants "without-barrier" of membership.py and offsets.py.
H5   what may be cut off the log is acknowledged.
H6   a commit without identity goes over an owner's: "txn-offset-commit-over-an-owner" of offsets.py.
H7   a member commits partitions of another one in its own generation. That is open here as in Kafka: the
     fence is the generation, so there is nothing to plant.
H8   pending offsets are left out of a request for all.
H9   a clock that jumps expires offsets: "offset-expiry-by-its-own-clock" of offsets.py.

And the checks of identity, one API at a time: those of Heartbeat, OffsetCommit and TxnOffsetCommit are in
membership.py and offsets.py.
"""

from typing import Final

from tests.mutants.mutant import Mutant

ATTACKS: Final = "tests/coordinator/test_group_attacks.py::"
STORM: Final = "tests/simulation/test_failover_storms.py::test_failovers"
JOINING: Final = "tests/controller/groups/test_joining.py::test_what_a_join_leads_to"
RULES: Final = "tests/controller/groups/test_members_that_go.py::"
ANSWERS: Final = "tests/coordinator/test_group_answers.py::"
COMMITS: Final = "tests/controller/groups/test_offsets.py::test_who_may_commit"
TXN_COMMITS: Final = "tests/controller/transactions/test_commit_offsets.py::test_who_may_commit"

GROUP_HOLES: Final = (
    Mutant(
        "deletes-who-joins",
        "a group whose first members join is not deleted",
        "coordinator/groups/offset_server.py",
        "            if group_id not in begun and self.is_preparing(group_id):\n",
        "            if False:\n",
        (ATTACKS + "test_a_group_whose_first_members_join_is_not_deleted",),
    ),
    Mutant(
        "deleted-and-unknown",
        "a group that exists by its offsets alone goes with the last of them",
        "controller/groups/offset_deletion.py",
        "    more = len(keys) > TOMBSTONES_MAX\n",
        "    more = len(keys) >= TOMBSTONES_MAX\n",
        (ATTACKS + "test_a_deletion_that_has_begun_goes_to_its_end",),
    ),
    Mutant(
        "deletes-by-half",
        "a deletion that has begun goes to its end",
        "coordinator/groups/offset_server.py",
        "                begun.add(group_id)\n",
        "",
        (ATTACKS + "test_a_deletion_that_has_begun_goes_to_its_end",),
    ),
    Mutant(
        "group-generation-announced-before-it-is-logged",
        "a generation is in the log before a member is answered with it (H1)",
        "coordinator/groups/join_phases.py",
        "        operations.write(group, decide, partial(self._completed, group), failed)\n",
        "        early = decide(operations.image(), 0)\n"
        "        said = tables.Group(early.protocol_type, early.generation, early.state, early.protocol, "
        "early.leader)\n"
        "        for member_id, join in group.joins.items():\n"
        "            join.reply(joining.answer_of(said, Membership(early.members), member_id), 0)\n"
        "        operations.write(group, decide, partial(self._completed, group), failed)\n",
        (STORM + "[failover-seed-0]",),
    ),
    Mutant(
        "group-assignment-answered-before-it-is-logged",
        "the leader's assignments are in the log before any member is answered with its own",
        "coordinator/groups/sync_requests.py",
        "        operations.write(group, decide, applied, failed)\n",
        "        for member in decide(operations.image(), 0).members:\n"
        "            early = group.syncs.pop(member.member_id, None)\n"
        "            if early is not None:\n"
        "                early(syncing.answer_of(row, member), 0)\n"
        "        operations.write(group, decide, applied, failed)\n",
        (ANSWERS + "test_an_assignment_is_in_the_log_before_it_is_answered", STORM + "[failover-seed-1]"),
    ),
    Mutant(
        "group-leaver-answered-before-it-is-logged",
        "a removal is in the log before the leaver is answered (H3)",
        "coordinator/groups/removals.py",
        "        operations.write(group, decide, applied, then)\n",
        "        early, then = then, lambda _error: None\n"
        "        early(None)\n"
        "        operations.write(group, decide, applied, then)\n",
        (ANSWERS + "test_a_leaver_is_gone_from_the_log_before_it_is_answered",),
    ),
    Mutant(
        "group-commit-of-an-old-generation",
        "commits of an old generation are refused, plain and in transactions",
        "controller/groups/identity.py",
        "        require_generation(group_id, group, identity.generation)\n",
        "",
        (COMMITS, TXN_COMMITS + "[old-generation]"),
    ),
    Mutant(
        "acknowledged-when-deposed",
        "what is in flight when a leadership ends is not acknowledged: its entry may be cut off (H5)",
        "quorum/proposer.py",
        "        waiting, self._pending, self._clients_wait, self._alone = self._pending, deque(), 0, 0\n",
        "        waiting, self._pending, self._clients_wait, self._alone = self._pending, deque(), 0, 0\n"
        "        flight, self._in_flight = self._in_flight, None\n"
        "        if flight is not None:\n"
        "            self._respond(flight.answers)\n",
        (
            "tests/quorum/test_proposer.py::test_losing_leadership_says_nothing_about_what_is_in_flight",
            STORM + "[failover-seed-0]",
        ),
    ),
    Mutant(
        "pending-left-out-of-all",
        "a request for all offsets of a group names those that are only pending (H8)",
        "controller/groups/offsets.py",
        "        if view.get(OFFSETS, key) is None:\n            yield Place(key, True)\n",
        "        if False:\n            yield Place(key, True)\n",
        ("tests/controller/groups/test_offsets.py::test_all_that_a_group_has[1]",),
    ),
    Mutant(
        "group-join-of-a-replaced-member",
        "JoinGroup fences the member id that an instance had before",
        "controller/groups/joining.py",
        "        if holder != request.member_id:\n",
        "        if False:\n",
        (JOINING,),
    ),
    Mutant(
        "group-join-of-a-stranger",
        "JoinGroup refuses a member id that is not in the group",
        "controller/groups/joining.py",
        "    before = membership.get(request.member_id)\n    if before is None:\n",
        "    before = membership.get(request.member_id) or _member(request, sender, request.member_id)\n"
        "    if before is None:\n",
        (JOINING,),
    ),
    Mutant(
        "group-sync-without-identity-check",
        "SyncGroup checks whose it is",
        "controller/groups/syncing.py",
        "    member = identity.require_member(",
        "    member = (lambda *_: tables.members(view, request.group_id)[0])(",
        (RULES + "test_whose_sync_it_is",),
    ),
    Mutant(
        "group-sync-without-protocol",
        "SyncGroup from version 5 on names its protocol",
        "wire/k14_sync_group.py",
        "    if version >= _PROTOCOL_FROM and (protocol_type is None or protocol is None):\n",
        "    if False:\n",
        (
            "tests/wire/test_k14_sync_group.py::test_a_request_without_its_protocol_is_refused_whatever_the_rights",
        ),
    ),
    Mutant(
        "group-leave-of-a-replaced-member",
        "LeaveGroup fences the member id that an instance had before",
        "controller/groups/leaving.py",
        "        if member_id not in (NO_MEMBER, holder):\n",
        "        if False:\n",
        (RULES + "test_who_leaves",),
    ),
    Mutant(
        "group-leave-of-a-stranger",
        "LeaveGroup refuses a member id that is not in the group",
        "controller/groups/leaving.py",
        "    if member_id not in membership or member_id in gone:\n",
        "    if False:\n",
        (RULES + "test_who_leaves",),
    ),
)
