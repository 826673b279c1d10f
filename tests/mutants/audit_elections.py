"""What is broken on purpose in what the audit knows of unclean elections."""

from typing import Final

from tests.mutants.mutant import Mutant

MARKER: Final = "audit/walks/marker.py"
COPIES: Final = "audit/walks/copies.py"
UNSEEN: Final = "tests/audit/walks/test_unclean.py::test_where_an_election_may_have_cut"
DATED: Final = "tests/audit/walks/test_unclean.py::test_an_election_was_before_the_next_time_of_a_server"
CUTS: Final = "tests/audit/walks/test_unclean.py::test_what_is_found_in_a_log_that_was_cut"
COORDINATOR: Final = (
    "tests/audit/walks/test_unclean.py::test_a_coordinators_log_that_was_cut_tells_of_what_came_after"
)
SHORT: Final = (
    "tests/audit/walks/test_unclean.py"
    "::test_a_stopped_copy_is_shorter_than_its_checkpoint_from_before_the_election"
)
CASES: Final = "tests/audit/checks/test_cases.py::test_one_fault_is_one_finding"

AUDIT_ELECTIONS: Final = (
    Mutant(
        "audit-cut-marker-is-missing",
        "a marker that an unclean election may have cut off is unknown",
        MARKER,
        "    if not cuts:\n",
        "    if steps:\n",
        (CUTS,),
    ),
    Mutant(
        "audit-election-excuses-what-came-later",
        "a marker that was decided long after an unclean election is missing",
        MARKER,
        "            if is_there and decided_ms <= by_ms:\n",
        "            if is_there:\n",
        (CUTS,),
    ),
    Mutant(
        "audit-election-excuses-what-stood-before",
        "a marker is missing if a later one of another epoch stands before the cut",
        MARKER,
        "(later is None or later >= offset)",
        "True",
        (CUTS,),
    ),
    Mutant(
        "audit-election-excuses-what-stood-behind",
        "a marker is missing if an earlier one of another epoch stands behind the cut",
        MARKER,
        "(earlier or -1) < offset",
        "True",
        (CUTS,),
    ),
    Mutant(
        "audit-producer-began-in-a-cut",
        "a producer may have begun in what an unclean election cut",
        "audit/walks/log.py",
        "            self._begins_at = -1  # what",
        "            pass  # what",
        (CUTS,),
    ),
    Mutant(
        "audit-cut-coordinator-is-believed",
        "what stands before a cut of a coordinator's log says nothing",
        "audit/walks/story.py",
        "(FLAG_UNCOMMITTED | FLAG_BEFORE_ELECTION)",
        "(FLAG_UNCOMMITTED)",
        (COORDINATOR,),
    ),
    Mutant(
        "audit-checkpoint-from-before-an-election",
        "a copy is no shorter than it should be if its checkpoint may be from before an unclean election",
        "audit/walks/length.py",
        "is_cut = was_cut and not copy.is_clean",
        "is_cut = False",
        (SHORT,),
    ),
    Mutant(
        "audit-checkpoint-from-before-an-unseen-election",
        "nor if that election's record is not kept",
        "audit/walks/length.py",
        " or log.is_unseen_between(0, log.unseen)",
        "",
        (SHORT,),
    ),
    Mutant(
        "audit-offset-of-what-an-unseen-election-cut",
        "an offset beyond the end is unknown where the record of an election is not kept",
        "audit/checks/groups.py",
        "                UNION ALL SELECT topic, partition, at_ms FROM doubtful_elections\n",
        "",
        (f"{CASES}[an-offset-beyond-what-an-election-left-that-a-snapshot-alone-tells-of]",),
    ),
    Mutant(
        "audit-first-leader-was-elected-uncleanly",
        "the first leader of a partition cut nothing",
        "audit/checks/facts.py",
        "    WHERE e.epoch > 0\n",
        "",
        (f"{CASES}[an-offset-beyond-the-end-of-a-log-whose-first-leader-leads]",),
    ),
    Mutant(
        "audit-one-replica-was-cut",
        "the log of one replica was not cut by an election",
        "audit/checks/facts.py",
        "HAVING count(*) = 1",
        "HAVING count(*) = 0",
        (f"{CASES}[an-offset-goes-back-in-a-log-of-one-replica]",),
    ),
    Mutant(
        "audit-offset-that-went-back-behind-an-unseen-election",
        "an offset that goes back is unknown where the record of an election is not kept",
        "audit/checks/groups.py",
        " AND NOT is_doubtful",
        "",
        (f"{CASES}[an-offset-goes-back-where-a-snapshot-alone-tells-of-an-election]",),
    ),
    Mutant(
        "audit-unseen-election-excuses-what-came-later",
        "an offset that goes back long after every election is found",
        "audit/checks/groups.py",
        "     AND d.at_ms >= s.previous_timestamp_ms - {CLOCK_GRACE_MS}\n",
        "",
        (f"{CASES}[an-offset-goes-back-long-after-an-election-that-a-snapshot-alone-tells-of]",),
    ),
    Mutant(
        "audit-offset-of-what-was-cut",
        "an offset beyond the end that an unclean election may have cut is unknown",
        "audit/checks/groups.py",
        "coalesce(u.at_ms >= s.timestamp_ms - {CLOCK_GRACE_MS}, FALSE)",
        "coalesce(u.at_ms < 0, FALSE)",
        (CASES + "[an-offset-beyond-what-an-unclean-election-left]",),
    ),
    Mutant(
        "audit-last-leader-cuts-itself",
        "the last leader that comes back alone lacks nothing, whatever Kafka calls its election",
        "audit/checks/facts.py",
        " AND leader <> coalesce(leader_before, -1)",
        "",
        (CASES + "[an-offset-beyond-the-end-where-the-last-leader-came-back-alone]",),
    ),
    Mutant(
        "audit-election-of-a-snapshot-is-clean",
        "an election of which a snapshot alone tells may have been unclean",
        COPIES,
        "log.is_unseen_between(before, own) if before >= 0",
        "False if before >= 0",
        (CUTS + "[an-election-of-which-a-snapshot-alone-tells]",),
    ),
    Mutant(
        "audit-log-begins-with-an-election",
        "before the first offset that is kept no election is looked for",
        COPIES,
        " else place == 0 <= log.unseen:",
        " else 0 <= log.unseen:",
        (UNSEEN,),
    ),
    Mutant(
        "audit-topic-was-never-made-again",
        "a topic of which a snapshot alone tells may have been made again",
        COPIES,
        " else place == 0 <= log.unseen:",
        " else place == 0 < log.unseen:",
        (UNSEEN, CASES + "[a-marker-that-may-be-with-a-topic-of-that-name-that-was-deleted]"),
    ),
    Mutant(
        "audit-election-that-the-log-tells-is-unseen",
        "an election of which the metadata log tells is known",
        "audit/checks/facts.py",
        "CASE WHEN first_seen <= stated THEN first_seen - 1 ELSE stated END",
        "stated",
        (CASES + "[a-marker-where-the-metadata-log-tells-of-a-clean-election-and-a-snapshot-too]",),
    ),
    Mutant(
        "audit-one-replica-is-elected",
        "a log of one replica has no other to elect",
        "audit/walks/facts.py",
        "len(self.replicas) != 1 and ",
        "",
        (CASES + "[a-marker-of-a-log-of-one-replica]",),
    ),
    Mutant(
        "audit-unseen-election-is-as-old-as-its-snapshot",
        "what was decided after the first batch of a leader no election before it cut",
        COPIES,
        "self._unbroken.cut(place, self._unbroken.first_ms(rows.slice(at), said[at:]))",
        "self._unbroken.cut(place, log.unseen_ms)",
        (CASES + "[a-marker-that-was-decided-long-after-an-election-that-a-snapshot-alone-tells-of]",),
    ),
    Mutant(
        "audit-unseen-election-has-no-time",
        "an election in whose first batches there is no time was before the next one that a server wrote",
        "audit/walks/unbroken.py",
        "        self._date(self.first_ms(rows, flags))\n",
        "",
        (DATED,),
    ),
)
