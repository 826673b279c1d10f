"""What is broken on purpose where brokers report the ends of their partitions, and which are offline."""

from typing import Final

from tests.mutants.mutant import Mutant

KEPT: Final = "tests/controller/test_partition_reports.py::"
SAID: Final = "tests/broker/test_partition_reports.py::"
RECOVERY: Final = "tests/controller/test_partition_recovery.py::"
TAG: Final = "tests/wire/test_heartbeat_tag.py::"
TOPICS: Final = "tests/coordinator/test_topic_server.py::"
CONTROLLER: Final = "controller/partition_reports.py"
BROKER: Final = "broker/partition_reports.py"

PARTITION_REPORTS: Final = (
    Mutant(
        "reports-recovered-below-the-end",
        "a partition that is started again begins at the end that was reported, at least",
        "controller/partition_recovery.py",
        "    start = max(request.start_offset, before, reported or 0)\n",
        "    start = max(request.start_offset, before)\n",
        (RECOVERY + "test_a_start_is_never_below_the_end_that_was_reported",),
    ),
    Mutant(
        "reports-dry-run-does-it",
        "a dry run changes nothing",
        "controller/partition_recovery.py",
        "    return Decision(() if request.dry_run else (record,), recovered)\n",
        "    return Decision((record,), recovered)\n",
        (RECOVERY + "test_a_dry_run_says_where_it_would_begin_and_changes_nothing",),
    ),
    Mutant(
        "reports-recovered-stays-offline",
        "a partition that is started again has a leader",
        "controller/partition_recovery.py",
        "        if view.get(OFFLINE_PARTITIONS, key) is not None:\n",
        "        if record.leader < 0:\n",
        (RECOVERY + "test_a_partition_that_is_started_again_is_not_offline_any_more",),
    ),
    Mutant(
        "reports-end-goes-back",
        "the highest end that was reported counts",
        CONTROLLER,
        "max(end, view.get(PARTITION_ENDS, key) or 0)",
        "end",
        (KEPT + "test_an_end_never_goes_back_and_ends_wait_for_their_time",),
    ),
    Mutant(
        "reports-below-the-level",
        "nothing is written that an older voter does not read",
        CONTROLLER,
        "    if not request.reports or not levels.keeps_partition_reports(view):\n",
        "    if not request.reports:\n",
        (KEPT + "test_nothing_is_kept_below_the_log_level",),
    ),
    Mutant(
        "reports-of-another-broker",
        "a broker reports on its own partitions alone",
        CONTROLLER,
        "    if kept is None or kept.leader != request.broker_id:\n",
        "    if kept is None:\n",
        (KEPT + "test_what_is_kept",),
    ),
    Mutant(
        "reports-any-end",
        "an end is an offset that a log may reach",
        CONTROLLER,
        "    if report.partition < 0 or not OFFLINE <= report.end <= END_MAX:\n",
        "    if report.partition < 0 or report.end < OFFLINE:\n",
        (KEPT + "test_what_is_kept",),
    ),
    Mutant(
        "reports-ends-with-each-heartbeat",
        "ends are written once a minute",
        CONTROLLER,
        "    return ends_are_due and report.end",
        "    return report.end",
        (KEPT + "test_an_end_never_goes_back_and_ends_wait_for_their_time",),
    ),
    Mutant(
        "reports-due-at-once",
        "a registration waits a minute before its next ends are kept",
        CONTROLLER,
        "now_ms - kept[1] >= ENDS_MS_MIN",
        "now_ms >= kept[1]",
        (KEPT + "test_ends_are_kept_once_a_minute_for_each_registration_and_when_it_leaves",),
    ),
    Mutant(
        "reports-offline-for-ever",
        "a broker that has started again has opened its logs anew",
        CONTROLLER,
        "    return broker is not None and broker.epoch == epoch\n",
        "    return broker is not None\n",
        (KEPT + "test_offline_is_kept_at_once_for_one_registration",),
    ),
    Mutant(
        "reports-offline-unseen",
        "a partition that its broker reports offline has no leader",
        "coordinator/topic_descriptions.py",
        "    return kept.leader in live and not is_offline(view, key, kept)\n",
        "    return kept.leader in live\n",
        (TOPICS + "test_a_partition_that_its_broker_reports_offline_has_no_leader_until_it_says_otherwise",),
    ),
    Mutant(
        "reports-topics-not-read-again",
        "brokers read the topics again when a partition went offline or came back",
        CONTROLLER,
        "    if moved:\n",
        "    if not record.partition_reports:\n",
        (KEPT + "test_brokers_ask_for_the_topics_again_only_when_a_partition_went_or_came_back",),
    ),
    Mutant(
        "reports-topics-read-each-minute",
        "an end alone makes no broker read all topics again",
        "controller/brokers.py",
        "    if not record.partition_reports:  # which change no registration\n",
        "    if record.broker_epoch >= 0:\n",
        (KEPT + "test_brokers_ask_for_the_topics_again_only_when_a_partition_went_or_came_back",),
    ),
    Mutant(
        "reports-outlive-their-topic",
        "what was reported goes with its topic",
        "controller/topics.py",
        "= (STARTED_AT, PARTITION_ENDS, OFFLINE_PARTITIONS)\n",
        "= (STARTED_AT,)\n",
        (KEPT + "test_what_was_reported_goes_with_its_topic",),
    ),
    Mutant(
        "reports-one-too-many",
        "a heartbeat has a bounded number of reports",
        "records/partition_report.py",
        "    if rest or count > REPORTS_MAX:\n",
        "    if rest:\n",
        (TAG + "test_reports_of_others_are_read_strictly",),
    ),
    Mutant(
        "reports-a-byte-too-many",
        "reports are whole",
        "records/partition_report.py",
        "    if rest or count > REPORTS_MAX:\n",
        "    if count > REPORTS_MAX:\n",
        (KEPT + "test_bytes_that_are_no_reports_do_not_apply",),
    ),
    Mutant(
        "reports-lost-with-their-heartbeat",
        "what was in a heartbeat without an answer is in the next one",
        "broker/registration.py",
        "        self._reports.answered()\n        return status\n",
        "        return status\n",
        ("tests/broker/test_registration.py::test_leaving_asks_to_be_let_go_until_the_controller_agrees",),
    ),
    Mutant(
        "reports-the-first-ends-alone",
        "a broker with many partitions reports all of them in turn",
        BROKER,
        "            self._next_end += self._sent_ends\n",
        "            self._next_end = self._sent_ends\n",
        (SAID + "test_more_ends_than_fit_are_reported_in_turn",),
    ),
    Mutant(
        "reports-came-back-unsaid",
        "a partition that came back is reported, also if ends are due",
        BROKER,
        "        if is_due and self._offline <= offline:\n",
        "        if is_due:\n",
        (SAID + "test_what_came_back_when_ends_were_due_is_not_forgotten",),
    ),
    Mutant(
        "reports-unopened-unsaid",
        "a log that could not be opened is offline, whatever its folder says of its topic",
        "broker/partitions.py",
        "            self._offline[topic, index] = lost._replace(placed_id=topic_id)\n",
        "            self._offline[topic, index] = lost\n",
        (SAID + "test_a_broker_reports_its_ends_and_a_log_that_could_not_be_opened",),
    ),
    Mutant(
        "reports-not-when-it-leaves",
        "a broker that leaves reports where its logs end",
        BROKER,
        "        is_due = leaving or self._clock_ms() >= self._due_ms\n",
        "        is_due = self._clock_ms() >= self._due_ms\n",
        (SAID + "test_ends_are_reported_once_a_minute_for_each_registration_and_by_one_who_leaves",),
    ),
)
