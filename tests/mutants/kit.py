"""Mutants of the kit for applications: whose its ports are, what its faults hit, what its check finds."""

from typing import Final

from tests.mutants.mutant import Mutant

CHAOS: Final = "tests/testing/test_chaos.py::"
LEASE: Final = "tests/testing/test_lease.py::"
PORTS: Final = "tests/testing/test_held_ports.py::"
CHECK: Final = "tests/testing/test_exactly_once.py::"
CAUSES: Final = "tests/testing/test_causes.py::"

FORKED: Final = "tests/testing/test_forked.py::"
CONTROL: Final = "tests/testing/test_control.py::"
WRONG_CALLS: Final = "tests/testing/test_wrong_calls.py::"

FENCES: Final = (
    "tests/coordinator/test_transaction_timers.py"
    "::test_the_history_of_fences_says_which_timeout_and_which_epoch_came_after"
)

KIT_MUTANTS: Final = (
    Mutant(
        "ended-clusters-start-again",
        "nothing can be done to a cluster whose block ended",
        "testing/running.py",
        "        self._has_ended = True\n",
        "        self._has_ended = False\n",
        (WRONG_CALLS + "test_calls_in_the_wrong_order_say_what_to_do_and_leave_nothing",),
    ),
    Mutant(
        "forks-end-clusters",
        "a fork of the test run that leaves the block ends nothing",
        "testing/cluster.py",
        "        if self._undo is not None and self._started_by == os.getpid():\n",
        "        if self._undo is not None:\n",
        (WRONG_CALLS + "test_calls_in_the_wrong_order_say_what_to_do_and_leave_nothing",),
    ),
    Mutant(
        "cancelled-starts-go-on",
        "a cluster whose start was cancelled is ended",
        "testing/cluster.py",
        "            await asyncio.to_thread(self.__exit__, None, None, None)\n            raise\n",
        "            raise\n",
        (WRONG_CALLS + "test_a_start_that_is_cancelled_is_ended",),
    ),
    Mutant(
        "reused-as-they-begin",
        "two producers of one transactional id that begin together are named",
        "testing/causes.py",
        "        began_s = newer.init.at_s if each.code in FENCED else newer.began_s\n",
        "        began_s = newer.began_s\n",
        (CAUSES + "test_the_cause_is_named",),
    ),
    Mutant(
        "sent-again-is-no-cause",
        "what was committed and is written again by the next producer is named",
        "testing/causes.py",
        "    for look in (_unwaited_commits, _sent_again):\n",
        "    for look in (_unwaited_commits,):\n",
        (CAUSES + "test_the_cause_is_named",),
    ),
    Mutant(
        "any-late-commit-is-suspected",
        "a late commit after which its producer goes on is no cause, unless the test's fault made it late",
        "testing/causes.py",
        "        if commit and commit[-1] is requests[-1]:\n",
        "        if commit:\n",
        (CAUSES + "test_what_is_right_is_no_cause",),
    ),
    Mutant(
        "left-behind-until-later",
        "what a failing test left behind is collected before pytest shows it",
        "testing/plugin.py",
        "    if lease is not None and call.excinfo is not None:\n        gc.collect()\n",
        "",
        ("tests/testing/test_plugin.py::test_what_a_failing_test_left_is_collected_before_it_is_shown",),
    ),
    Mutant(
        "control-open-to-others",
        "only the owner of a cluster's folder may break it",
        "testing/control.py",
        "        self.path.chmod(0o600)\n",
        "        self.path.chmod(0o666)\n",
        (CONTROL + "test_only_its_owner_may_use_it",),
    ),
    Mutant(
        "cleared-faults-forgotten",
        "fault clear says which faults were armed, and they fire no more",
        "testing/control.py",
        "            self._fault(each).clear()\n",
        "            self._fault(each)\n",
        (CONTROL + "test_a_fault_is_armed_listed_waited_for_and_cleared",),
    ),
    Mutant(
        "ports-shared-by-clusters",
        "a port that one cluster holds is no other one's",
        "testing/held_ports.py",
        "                try:\n                    holder.bind((HOST, port))\n",
        "                holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)\n"
        "                try:\n                    holder.bind((HOST, port))\n",
        (PORTS + "test_no_other_program_and_no_other_cluster_gets_them",),
    ),
    Mutant(
        "ports-held-too-tightly",
        "a node may listen on a port that its cluster holds",
        "testing/held_ports.py",
        "            holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)\n        self._sockets",
        "            pass\n        self._sockets",
        (PORTS + "test_a_node_listens_dies_and_listens_again",),
    ),
    Mutant(
        "killed-until-none-gets-on",
        "between two kills of the marker a cluster is stable for that time",
        "testing/chaos.py",
        "                if not self._over.is_set():\n",
        "                if self._over.is_set():\n",
        (CHAOS + "test_the_next_kill_waits_for_a_cluster_that_is_stable",),
    ),
    Mutant(
        "left-armed-is-fine",
        "a fault that a test leaves armed fails it",
        "testing/lease.py",
        "    if left and not lease.has_failed:\n",
        "    if False:\n",
        (LEASE + "test_a_fault_that_is_left_armed_fails_the_test",),
    ),
    Mutant(
        "testing-beside-others",
        "a node that a test may move listens on loopback alone",
        "settings/config.py",
        "        not config.testing or all(is_loopback(each) for each in reached),\n",
        "        True,\n",
        ("tests/node/test_testing_port.py::test_beside_a_listener_that_others_reach_it_is_refused",),
    ),
    Mutant(
        "cut-lets-through",
        "no connection is made to an address that a node is cut off from",
        "wire/cuttable_loop.py",
        "        if (host, port) in self._cut:\n            raise",
        "        if False:\n            raise",
        ("tests/node/test_testing_port.py::test_connections_to_where_it_is_cut_from_end_and_none_is_made",),
    ),
    Mutant(
        "cut-forgets-connections",
        "connections to an address that a node is cut off from are closed",
        "wire/cuttable_loop.py",
        "        self._dialed = [*still_open, (transport, (host, port))]\n",
        "        self._dialed = still_open\n",
        ("tests/node/test_testing_port.py::test_connections_to_where_it_is_cut_from_end_and_none_is_made",),
    ),
    Mutant(
        "mutual-behind-a-proxy",
        "clients' certificates beside a proxy that ends TLS are refused by name",
        "testing/tls.py",
        "    if mode == MUTUAL and has_faults:\n",
        "    if False:\n",
        ("tests/testing/test_cluster_tls.py::test_what_cannot_be_is_refused_by_name",),
    ),
    Mutant(
        "doubled-is-fine",
        "what came out twice is found",
        "testing/exactly_once.py",
        "        elif len(elements) > 1:\n",
        "        elif len(elements) > 2:\n",
        (CHECK + "test_each_kind_is_named",),
    ),
    Mutant(
        "torn-is-lost",
        "a part of a transaction that came out makes it torn",
        "testing/exactly_once.py",
        "        if len(elements) == len(units[unit]):\n",
        "        if elements:\n",
        (CHECK + "test_a_transaction_of_which_a_part_came_out_is_torn",),
    ),
    Mutant(
        "order-not-looked-at",
        "records of one key that came out in another order are found",
        "testing/exactly_once.py",
        "        if at < last:\n",
        "        if False:\n",
        (CHECK + "test_records_of_one_key_keep_their_order",),
    ),
    Mutant(
        "restart-is-reuse",
        "an id is used twice if the older producer goes on, not if it was refused as the newer one began",
        "testing/causes.py",
        "        if each.at_s < began_s or ",
        "        if ",
        (CAUSES + "test_what_is_right_is_no_cause",),
    ),
    Mutant(
        "repeated-commit-is-reuse",
        "a client that repeats its commit after another producer began is no second user of the id",
        "testing/causes.py",
        '        if each.api == "EndTxn" and each.pair in pending:',
        "        if False:",
        (CAUSES + "test_the_cause_is_named",),
    ),
    Mutant(
        "aborts-are-outcomes",
        "an abort without an answer needs none when another producer begins",
        "testing/causes.py",
        " or not ends[count - 1].committed:\n",
        ":\n",
        (CAUSES + "test_what_is_right_is_no_cause",),
    ),
    Mutant(
        "known-outcome-is-unknown",
        "a commit that was answered before another producer began is known",
        "testing/causes.py",
        "    return end.answered_s is None or end.answered_s <= by_s\n",
        "    return False\n",
        (CAUSES + "test_what_is_right_is_no_cause",),
    ),
    Mutant(
        "readers-of-the-output-blamed",
        "a consumer of the output may commit its offsets as it likes",
        "testing/causes.py",
        "            if not written.intersection(",
        "            if True or not written.intersection(",
        (CAUSES + "test_what_is_right_is_no_cause",),
    ),
    Mutant(
        "epochs-are-instances",
        "a producer that is given another epoch stays the same",
        "testing/evidence.py",
        "        known = owner.get(request.pair) if request.pair is not None else None\n",
        "        known = None\n",
        (CAUSES + "test_an_instance_keeps_the_pairs_that_it_is_given",),
    ),
    Mutant(
        "a-fence-follows-itself",
        "the epoch that came after a fence is that of the next fence, or the current one",
        "coordinator/set_aside.py",
        "zip(row.fences, pairs[1:], strict=True)",
        "zip(row.fences, pairs[:-1], strict=True)",
        (FENCES,),
    ),
    Mutant(
        "every-fence-timed-out",
        "a fence has a timeout if that is its cause",
        "coordinator/set_aside.py",
        "row.transaction_timeout_ms if each.cause == FenceCause.TIMEOUT else UNKNOWN",
        "row.transaction_timeout_ms",
        (FENCES,),
    ),
    Mutant(
        "fences-of-the-ending-alone",
        "explain looks at the fences of every id that holds a partition, up to a number of them",
        "client/explain.py",
        "        others = {owner, *(each.owner for each in held)} - ending\n",
        "        others = set()\n",
        ("tests/client/test_explain.py::test_a_coordinator_of_ours_says_who_was_fenced",),
    ),
    Mutant(
        "forked-for-a-dead-run",
        "a node that is forked while its test run dies does not start",
        "cluster/fork_server.py",
        "    if parent_ended():\n",
        "    if False:\n",
        (FORKED + "test_what_is_forked_for_a_dead_run_does_not_start",),
    ),
    Mutant(
        "forked-by-an-abandoned-server",
        "a server whose test run died forks no more, also where a child of the run has its pipe",
        "cluster/fork_server.py",
        "        if os.getppid() != parent:\n",
        "        if False:\n",
        (FORKED + "test_a_server_with_another_parent_takes_no_request",),
    ),
    Mutant(
        "forked-nodes-unseen",
        "the reaper ends nodes that were forked, too",
        "testing/reaper.py",
        "                if FORKED in named:\n",
        "                if False:\n",
        (FORKED + "test_the_reaper_finds_what_was_forked_in_its_folder_and_nothing_else",),
    ),
    Mutant(
        "forked-by-a-dead-server",
        "another server takes the place of one that was killed",
        "cluster/forked.py",
        "        if not _SERVERS or not _SERVERS[0].is_alive:\n",
        "        if not _SERVERS:\n",
        (FORKED + "test_another_server_takes_the_place_of_one_that_was_killed",),
    ),
)
