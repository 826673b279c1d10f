"""What is broken on purpose in the membership of groups."""

from typing import Final

from tests.mutants.mutant import Mutant

SERVER: Final = "tests/coordinator/test_group_membership.py::"
JOINING: Final = "tests/controller/groups/test_joining.py::test_what_a_join_leads_to"
RULES: Final = "tests/controller/groups/test_members_that_go.py::"
TABLES: Final = "tests/controller/groups/test_tables.py::"
IDENTITY: Final = "tests/controller/groups/test_identity.py::"
INSTANCES: Final = "tests/coordinator/test_instance_attacks.py::"
ATTACKS: Final = "tests/coordinator/test_group_attacks.py::"
FAILOVERS: Final = "tests/simulation/test_failover_storms.py::test_failovers"
STORM: Final = "tests/simulation/test_group_storms.py::test_processes_are_replaced_while_they_live"

MEMBERSHIP: Final = (
    Mutant(
        "group-generation-not-logged",
        "a generation is in the log before a member is answered with it",
        "coordinator/groups/join_phases.py",
        "        operations.write(group, decide, partial(self._completed, group), failed)\n",
        "        operations.write(group, lambda _v, _n: None, partial(self._completed, group), failed)\n",
        (SERVER + "test_a_group_of_one",),
    ),
    Mutant(
        "group-replacement-not-logged",
        "a static member's new id is in the log before the old one is fenced (H2)",
        "coordinator/groups/join_phases.py",
        "        if row is None or logged is None:  # it joined in this phase: nothing of it is logged\n",
        "        if True:\n",
        (
            SERVER + "test_a_static_member_that_comes_back_goes_on_with_its_assignment",
            FAILOVERS + "[failover-seed-2]",
        ),
    ),
    Mutant(
        "group-removal-not-logged",
        "a member that left or expired is removed in the log (H3)",
        "controller/groups/leaving.py",
        "    if group is None or not any(each in leaving for each in ids):\n",
        "    if True:\n",
        (
            SERVER + "test_a_leaver_is_logged_before_it_is_answered",
            SERVER + "test_a_session_ends_without_heartbeats_and_that_is_logged",
            RULES + "test_those_that_stay_are_logged_as_about_to_join_again",
            FAILOVERS + "[failover-seed-2]",
        ),
    ),
    Mutant(
        "group-heartbeat-of-a-stranger",
        "a heartbeat of a member that is gone is refused",
        "controller/groups/heartbeat.py",
        "    identity.require_member(view, request.group_id, request.member_id, request.instance_id)\n",
        "",
        (
            RULES + "test_heartbeats",
            SERVER + "test_a_static_member_that_comes_back_goes_on_with_its_assignment",
            STORM,
        ),
    ),
    Mutant(
        "group-heartbeat-of-an-old-generation",
        "a heartbeat of an old generation is refused",
        "controller/groups/heartbeat.py",
        "    identity.require_generation(request.group_id, group, request.generation)\n",
        "",
        (RULES + "test_heartbeats",),
    ),
    Mutant(
        "group-heartbeat-without-barrier",
        "a heartbeat is answered when an entry proves that this node coordinates",
        "coordinator/groups/heartbeats.py",
        "        self._submit(decide, partial(self._done, batch))\n",
        "        self._done(batch, decide(self._operations.image(), 0).response, 0)\n",
        (SERVER + "test_heartbeats_share_an_entry",),
    ),
    Mutant(
        "group-sync-of-an-old-generation",
        "a sync of an old generation is refused",
        "controller/groups/syncing.py",
        "    identity.require_generation(request.group_id, group, request.generation)\n",
        "",
        (RULES + "test_whose_sync_it_is",),
    ),
    Mutant(
        "group-sync-of-a-stranger",
        "a sync is of a member of the group",
        "controller/groups/identity.py",
        "        if holder != member_id:\n",
        "        if False:\n",
        (
            IDENTITY + "test_the_member_of_a_request",
            RULES + "test_whose_sync_it_is",
        ),
    ),
    Mutant(
        "group-expires-what-it-has-not-read",
        "a node that stood still reads what members sent before it expires one",
        "coordinator/groups/group_server.py",
        "        if now_s < self._reading_until_s:\n",
        "        if False:\n",
        (SERVER + "test_a_node_that_stood_still_expires_no_member_before_it_read_its_heartbeat",),
    ),
    Mutant(
        "group-generation-comes-back",
        "a generation never goes back and none is left out",
        "controller/groups/tables.py",
        "        forward = before.generation <= record.generation <= before.generation + 1\n",
        "        forward = True\n",
        (TABLES + "test_a_generation_neither_goes_back_nor_is_left_out",),
    ),
    Mutant(
        "group-instance-outlives-its-member",
        "an instance id goes with its member",
        "controller/groups/tables.py",
        "            view.delete(INSTANCES, (group_id, before.instance_id))\n",
        "            pass\n",
        (TABLES + "test_an_instance_goes_with_its_member",),
    ),
    Mutant(
        "group-pending-id-ignored",
        "a phase waits for the ids that were given out",
        "coordinator/groups/soft_group.py",
        "        return count == len(self.joins) and not self.pending\n",
        "        return count == len(self.joins)\n",
        (SERVER + "test_a_phase_waits_for_an_id_that_was_given_out",),
    ),
    Mutant(
        "group-protocol-of-one",
        "a protocol is supported by all members",
        "controller/groups/membership.py",
        " in self._support.items() if count == len(self._members))\n",
        " in self._support.items() if count)\n",
        (JOINING,),
    ),
    Mutant(
        "group-parked-joins-forgotten",
        "joins that are parked when the leadership ends find the next coordinator",
        "coordinator/groups/group_operations.py",
        "                join.reply(refusal, 0)\n",
        "                pass\n",
        (SERVER + "test_parked_members_find_the_next_coordinator",),
    ),
    Mutant(
        "group-replaced-join-stays-parked",
        "what is parked of a member that was replaced is answered, and not with a place in the generation",
        "coordinator/groups/join_phases.py",
        "        self._operations.dismiss(group, old_id, fenced)\n",
        "",
        (INSTANCES + "test_one_process_is_the_member_and_it_alone_is_not_fenced[seed-0]",),
    ),
    Mutant(
        "group-reset-while-it-has-members",
        "a commit without a member id is refused while a group has members",
        "controller/groups/identity.py",
        "    elif not transactional and not is_empty:\n",
        "    elif False:\n",
        (
            ATTACKS + "test_offsets_are_reset_before_the_first_member_is_in_and_not_later",
            ATTACKS + "test_no_reset_goes_between_a_member_that_has_joined_and_what_it_reads[seed-0]",
        ),
    ),
    Mutant(
        "offsets-added-by-a-fenced-producer",
        "AddOffsetsToTxn of a producer that was fenced is refused",
        "controller/transactions/add_partitions.py",
        "    require_current(row, request.producer_id, request.producer_epoch)\n"
        "    _require_not_ending(row)\n    require_not_kept(row)\n    united",
        "    _require_not_ending(row)\n    require_not_kept(row)\n    united",
        (ATTACKS + "test_of_two_members_with_one_transactional_id_the_later_fences_the_earlier[it began]",),
    ),
)
