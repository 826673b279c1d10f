"""What is broken on purpose in group-aware InitProducerId: fences, the time of its answer, refusals."""

from typing import Final

from tests.mutants.mutant import Mutant

PURE: Final = "tests/controller/transactions/test_group_init.py::"
REFUSED: Final = "tests/controller/transactions/test_group_init_refused.py::"
LAW: Final = (
    "tests/controller/transactions/test_group_laws.py::test_a_pair_that_lost_a_partition_writes_nothing_more"
)
TAGS: Final = "tests/wire/test_group_init_tags.py::"
CLIENT: Final = "tests/client/test_group_init.py::"
SERVED: Final = "tests/coordinator/test_group_init.py::"
FIND: Final = "tests/broker/test_find_coordinator.py::"
GROUP_FILE: Final = "controller/transactions/group_init.py"
ASSIGNMENTS_FILE: Final = "controller/transactions/assignments.py"
FENCING_FILE: Final = "controller/transactions/fencing.py"

GROUP_INIT: Final = (
    Mutant(
        "group-init-knows-offsets-alone",
        "a producer that was assigned the partition is fenced without an offset of it, too",
        GROUP_FILE,
        "        for owner in owners or ():\n",
        "        for owner in ():\n",
        (
            PURE + "test_the_producer_that_lost_a_partition_is_aborted_and_fenced[with-outputs-alone]",
            PURE + "test_one_without_a_transaction_is_fenced_too",
            LAW,
        ),
    ),
    Mutant(
        "group-init-knows-assignments-alone",
        "a producer with a pending offset is fenced, whether it knows groups or not",
        GROUP_FILE,
        "        for producer_id in view.get(WAITING, key) or ():\n",
        "        for producer_id in ():\n",
        (
            PURE + "test_one_that_knows_no_groups_is_fenced_by_its_pending_offsets_and_waited_for",
            PURE + "test_a_pending_offset_of_an_older_log_level_is_waited_for",
        ),
    ),
    Mutant(
        "group-init-answers-before-markers",
        "it is answered when what it aborted is complete",
        GROUP_FILE,
        "            ending.append(name)\n",
        "            continue\n",
        (
            PURE + "test_it_is_answered_when_what_it_aborted_is_complete[with-offsets]",
            PURE + "test_what_ends_by_itself_is_waited_for_and_its_producer_fenced",
            LAW,
        ),
    ),
    Mutant(
        "group-init-forgets-whom-it-aborts",
        "an aborted producer that no group assigned anything is waited for until it is complete",
        GROUP_FILE,
        "        first = msgspec.structs.replace(first, assignments=kept)",
        "        first = msgspec.structs.replace(first, assignments=None)",
        (PURE + "test_one_that_knows_no_groups_is_fenced_by_its_pending_offsets_and_waited_for",),
    ),
    Mutant(
        "group-init-aborts-without-a-new-instance",
        "an instance that lost a partition does not go on by its pair",
        FENCING_FILE,
        "        instance_epoch=epoch,\n",
        "        instance_epoch=row.instance_epoch,\n",
        (PURE + "test_one_without_a_transaction_is_fenced_too",),
    ),
    Mutant(
        "group-init-leaves-the-idle-epoch",
        "a producer without a transaction is fenced by an epoch of its own",
        FENCING_FILE,
        "    epoch = min(row.producer_epoch + 1, EPOCH_MAX)\n    return",
        "    epoch = min(row.producer_epoch, EPOCH_MAX)\n    return",
        (PURE + "test_one_that_was_fenced_begins_anew_with_what_it_has_left_and_no_transaction",),
    ),
    Mutant(
        "group-init-aborts-two-phase",
        "a transaction of two-phase commit is only its coordinator's to end",
        GROUP_FILE,
        " or (row.state is State.ONGOING and row.is_two_phase):\n",
        ":\n",
        (PURE + "test_a_transaction_of_two_phase_commit_is_waited_for",),
    ),
    Mutant(
        "group-init-any-generation",
        "a member of an older generation fences no producer",
        GROUP_FILE,
        "    require_generation(said.group_id, group, said.generation)\n",
        "",
        (
            REFUSED + "test_what_is_not_so_is_refused_and_aborts_nothing[an-old-generation]",
            REFUSED + "test_what_is_not_so_is_refused_and_aborts_nothing[no-generation]",
            LAW,
        ),
    ),
    Mutant(
        "group-init-any-partition",
        "a member fences no producer of a partition that it was not assigned",
        GROUP_FILE,
        "    return all(found.get(each.topic, set()).issuperset(each.partition_ids) for each in",
        "    return all(True for each in",
        (REFUSED + "test_what_is_not_so_is_refused_and_aborts_nothing[another-members-partition]",),
    ),
    Mutant(
        "group-init-before-the-assignments",
        "between a generation and its assignments no partition is any member's",
        GROUP_FILE,
        "    if group.state is GroupState.COMPLETING_REBALANCE:\n",
        "    if False:\n",
        (REFUSED + "test_the_group_has_assigned",),
    ),
    Mutant(
        "group-init-below-its-level",
        "nodes of the version before have the same rows until the log level is raised",
        "controller/transactions/commit_offsets.py",
        "    if records and levels.knows_group_aware_init(view) and",
        "    if records and",
        (REFUSED + "test_below_its_log_level_no_row_differs_from_what_an_older_node_has",),
    ),
    Mutant(
        "group-init-takes-nothing",
        "a partition that was given to one producer is no other's any more",
        ASSIGNMENTS_FILE,
        "        if takes:\n",
        "        if False:\n",
        (PURE + "test_one_that_knows_no_groups_is_fenced_by_its_pending_offsets_and_waited_for",),
    ),
    Mutant(
        "group-init-keeps-the-index",
        "an id whose partitions were replaced is not found by the old ones",
        ASSIGNMENTS_FILE,
        "            _put_owners(view, key, _without(view, key, transactional_id))\n",
        "            pass\n",
        (PURE + "test_it_is_called_again_after_every_rebalance", LAW),
    ),
    Mutant(
        "plain-init-keeps-the-assignment",
        "an instance that begins without a group was assigned nothing",
        "controller/transactions/init_producer_id.py",
        "msgspec.structs.replace(record, assignments=()) if begins and before else record",
        "record",
        (PURE + "test_an_instance_that_goes_on_keeps_what_it_was_assigned_and_a_new_one_does_not",),
    ),
    Mutant(
        "group-init-waits-for-its-own-id",
        "a request waits for the producer that it fenced, and is decided when that one's markers are written",
        "coordinator/transaction_requests.py",
        "        self.transactional_id = pending[0] if pending else self._own_id\n",
        "        self.transactional_id = self._own_id\n",
        (SERVED + "test_it_is_parked_until_the_last_marker_is_written[in-order-an-id]",),
    ),
    Mutant(
        "group-init-sends-no-markers",
        "the markers of those that are fenced are sent at once",
        "coordinator/transaction_requests.py",
        "[each for each in transactional_ids if self._requests.markers.look(each)]",
        "[each for each in transactional_ids if self._requests.markers.is_pending(each)]",
        (SERVED + "test_it_is_parked_until_the_last_marker_is_written[in-order-an-id]",),
    ),
    Mutant(
        "group-init-tags-close-the-connection",
        "an assignment that cannot be read is refused with 42",
        "wire/k22_init_producer_id.py",
        "        Reader(body[start:], flexible=True).tags({})\n",
        "        raise\n",
        (TAGS + "test_an_assignment_that_cannot_be_parsed_is_refused[null-partitions]",),
    ),
    Mutant(
        "group-init-without-its-id",
        "a request without a transactional id is answered with the one that was made",
        "controller/transactions/init_producer_id.py",
        "transactional_id=None if request.member is None else row.transactional_id,",
        "transactional_id=None,",
        (
            PURE + "test_without_a_transactional_id_one_is_made_and_named",
            SERVED + "test_it_is_parked_until_the_last_marker_is_written[in-order-no-id]",
        ),
    ),
    Mutant(
        "group-init-fence-ends-the-client",
        "a group-aware producer that was fenced goes on with its next assignment",
        "client/transactions.py",
        "        return self._group_aware and isinstance(error, ProducerFenced)\n",
        "        return False\n",
        (CLIENT + "test_one_that_was_fenced_goes_on_with_its_next_assignment[v2]",),
    ),
    Mutant(
        "group-init-of-any-broker",
        "brokers that fenced no other producer are not taken for ones that did",
        "client/group_calls.py",
        "        if answer.transactional_id is None:\n",
        "        if False:\n",
        (CLIENT + "test_brokers_that_know_no_groups_are_refused_for_they_fenced_no_producer[named]",),
    ),
    Mutant(
        "group-init-reads-any-assignment",
        "an assignment is not read if reading it would hold the loop",
        "controller/groups/assigned_partitions.py",
        "    if len(assignment) > READ_BYTES_MAX:\n",
        "    if len(assignment) > 4 * READ_BYTES_MAX:\n",
        (REFUSED + "test_one_decision_reads_assignments_up_to_a_bound",),
    ),
    Mutant(
        "group-init-searches-any-group",
        "a request that names no member is refused if all members' assignments are too much to read",
        GROUP_FILE,
        "    if size > SEARCHED_BYTES_MAX or topics > SEARCHED_TOPICS_MAX:\n",
        "    if size > SEARCHED_BYTES_MAX:\n",
        (REFUSED + "test_one_decision_reads_assignments_up_to_a_bound",),
    ),
    Mutant(
        "group-init-of-no-id-is-a-brokers",
        "a member without a transactional id is served by the coordinator, not from the broker's block",
        "broker/server.py",
        "        if request.transactional_id is not None or request.member is not None:\n",
        "        if request.transactional_id is not None:\n",
        ("tests/broker/test_broker.py::test_init_producer_id_refuses[a-groups-member-without-an-id]",),
    ),
    Mutant(
        "group-init-finds-any-groups-coordinator",
        "what cannot be a group's id is refused where its transactions' coordinator is looked for",
        "broker/server.py",
        "    if not is_key(key):\n        return Coordinator(key, error_code=ErrorCode.INVALID_GROUP_ID",
        "    if False:\n        return Coordinator(key, error_code=ErrorCode.INVALID_GROUP_ID",
        (FIND + "test_the_coordinator_of_a_groups_transactions_is_that_of_all_others",),
    ),
    Mutant(
        "group-init-finds-by-any-key-type",
        "transactions of groups are found with the key type of transactions alone",
        "broker/server.py",
        "        if request.key_type != TRANSACTION:\n",
        "        if False:\n",
        (FIND + "test_other_key_types_have_no_transactions_of_groups",),
    ),
)
