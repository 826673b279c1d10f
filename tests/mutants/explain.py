"""What is broken on purpose in ``explain``: what hangs, what may be aborted, what is not known."""

from typing import Final

from tests.mutants.mutant import Mutant

JUDGED: Final = "tests/records/test_open_transactions.py::"
LIVE: Final = "tests/client/test_explain.py::"
COMMAND: Final = "tests/cli/test_explain.py::"
LOGS: Final = "tests/audit/test_opened.py::"
JUDGE_FILE: Final = "records/open_transactions.py"
LIVE_FILE: Final = "client/explain.py"
INQUIRY_FILE: Final = "client/inquiry.py"
LOGS_FILE: Final = "audit/jobs/opened.py"

EXPLAIN: Final = (
    Mutant(
        "explain-hangs-unanswered",
        "a transaction hangs only if every coordinator's answer is in",
        JUDGE_FILE,
        "        if not is_whole:\n",
        "        if False:\n",
        (JUDGED + "test_what_it_waits_for", LIVE + "test_without_a_coordinators_answer_nothing_hangs"),
    ),
    Mutant(
        "explain-any-partition",
        "a transaction hangs where its coordinator's transaction does not include the partition",
        JUDGE_FILE,
        "    if (opened.topic, opened.partition) not in owner.partitions:\n",
        "    if not owner.partitions:\n",
        (
            JUDGED + "test_what_it_waits_for",
            LIVE + "test_a_transactional_id_with_what_is_open_missing_and_left_behind",
        ),
    ),
    Mutant(
        "explain-aborts-decided",
        "what is decided is not offered to force-terminate unless its marker is refused",
        "cli/explain_commands.py",
        "        return {OURS: ours} if is_wedged else {}\n",
        "        return {OURS: ours}\n",
        (COMMAND + "test_the_commands_that_end_it",),
    ),
    Mutant(
        "explain-one-look",
        "a transaction hangs if two looks say so",
        LIVE_FILE,
        "        return _confirmed(await self._look(where), _hanging(first))\n",
        "        return first\n",
        (LIVE + "test_what_ends_between_two_looks_does_not_hang",),
    ),
    Mutant(
        "explain-new-hangs",
        "what was not open in the look before is unknown",
        LIVE_FILE,
        "                if each.judged.holding is Holding.HANGING and _identity(each) not in before\n",
        "                if False\n",
        (LIVE + "test_what_begins_between_two_looks_is_not_yet_known_to_hang",),
    ),
    Mutant(
        "explain-leaderless-coordinators",
        "a coordinator's partition without a leader is an answer that is missing",
        INQUIRY_FILE,
        "        return len(self.leaders((topic,))) == len(topic.partitions)\n",
        "        return True\n",
        (LIVE + "test_without_a_leader_of_a_coordinators_partition_nothing_hangs",),
    ),
    Mutant(
        "explain-no-coordinator",
        "if no node coordinates, no answer is in",
        INQUIRY_FILE,
        "            return found, bool(coordinators)\n",
        "            return found, True\n",
        (LIVE + "test_if_no_node_coordinates_nothing_hangs",),
    ),
    Mutant(
        "explain-takes-the-first-reading",
        "a name that is two things is refused",
        "cli/explain.py",
        "    if len(readings) > 1:\n",
        "    if len(readings) > 2:\n",
        (COMMAND + "test_what_a_bare_name_is", LOGS + "test_the_command_reads_directories"),
    ),
    Mutant(
        "explain-holes-are-nothing",
        "what is missing behind a transaction's data may be its marker",
        LOGS_FILE,
        "if reading.last_break > each.start_offset)",
        "if False)",
        (LOGS + "test_what_is_missing_may_be_the_marker",),
    ),
    Mutant(
        "explain-some-coordinators",
        "the coordinators' logs are whole only if each id lies where its hash says",
        LOGS_FILE,
        "    if any(_home(name, count) != partition for name, partition in found.homes.items()):\n",
        "    if False:\n",
        (LOGS + "test_whether_all_coordinators_are_there",),
    ),
    Mutant(
        "explain-unreplicated",
        "in files what is not known to be replicated does not hang",
        "cli/explain_logs.py",
        "    if opened.start_offset >= log.end:\n",
        "    if False:\n",
        (LOGS + "test_what_is_not_known_to_be_replicated_does_not_hang",),
    ),
    Mutant(
        "explain-other-moments",
        "in files the coordinator's log may be of a later moment than the partition's",
        "cli/explain_logs.py",
        "        if updated_ms > log.last_ms:\n",
        "        if False:\n",
        (LOGS + "test_a_coordinator_that_went_on",),
    ),
    Mutant(
        "explain-makes-a-topic",
        "looking for a transactional id makes no topic of coordinators",
        INQUIRY_FILE,
        "        if not await self._may_have_transactions():\n",
        "        if False:\n",
        (LIVE + "test_looking_for_an_id_makes_no_topic_of_coordinators_on_apache_kafka[False]",),
    ),
    Mutant(
        "explain-prints-what-it-gets",
        "a client's word cannot move the cursor or end the line of a command",
        "cli/explain_commands.py",
        "    if word.isprintable():\n",
        "    if True:\n",
        (COMMAND + "test_a_clients_word_is_one_word_of_the_command",),
    ),
    Mutant(
        "tables-print-what-they-get",
        "a client's word cannot move the cursor or end the line of a table",
        "cluster/console.py",
        "    cells = [[printable(str(cell)) for",
        "    cells = [[str(cell) for",
        ("tests/cli/test_printed_names.py::test_a_row_is_a_line",),
    ),
    Mutant(
        "explain-dash-first",
        "a client's word that looks like an option is the value of one",
        "cli/explain_commands.py",
        ' if text.startswith("-") else ',
        " if False else ",
        (COMMAND + "test_a_clients_word_is_one_word_of_the_command",),
    ),
)
