"""What is broken on purpose in the comparison of a log's copies."""

from typing import Final

from tests.mutants.mutant import Mutant

COPIES: Final = "tests/audit/walks/test_copies.py::test_what_is_found_in_the_copies_of_a_log"

TESTS: Final = "tests/audit/walks/test_other_logs.py::"
OTHER_LOG: Final = TESTS + "test_a_copy_with_another_logs_batches_is_one_finding"
WITHIN_THE_FIRST: Final = OTHER_LOG + "[within-the-first-batch-of-the-log-{}-rows-at-a-time]"
DIVIDED: Final = TESTS + "test_what_compaction_took_between_two_differences_does_not_divide_them"
AGREED: Final = TESTS + "test_what_copies_agree_on_between_two_differences_in_a_compacted_log_divides_them"

AUDIT_COPIES: Final = (
    Mutant(
        "emptied-batches-compared",
        "what is left of a batch that a log cleaner emptied is not compared",
        "audit/walks/differing.py",
        "        is_cleaned = not row.records or (row.attributes",
        "        is_cleaned = (row.attributes",
        (COPIES + "[a-compacted-log-is-cleaned-by-each-broker]",),
    ),
    Mutant(
        "agreed-batch-without-length",
        "batches of one copy within a longer one that the others agree on are not the log's",
        "audit/walks/copies.py",
        "            self._differing.agree(row)\n",
        "            pass\n",
        (WITHIN_THE_FIRST.format(1), WITHIN_THE_FIRST.format(1000)),
    ),
    Mutant(
        "agreed-batch-of-these-rows-only",
        "a longer batch that the copies agree on may have come with earlier rows",
        "audit/walks/copies.py",
        "            (self._agreed,) = _rows_of(rows, last, last + 1)\n",
        "            pass\n",
        (WITHIN_THE_FIRST.format(1),),
    ),
    Mutant(
        "within-a-longer-batch-unread",
        "a copy with batches within a longer one of the log differs, also where it had not differed before",
        "audit/walks/differing.py",
        "            if not self._log.is_compacted or row.copy in self._runs:\n",
        "            if row.copy in self._runs:\n",
        (WITHIN_THE_FIRST.format(1000),),
    ),
    Mutant(
        "runs-end-with-their-own-batch",
        "a copy that has not the log's batch differs up to the end of that batch",
        "audit/walks/differing.py",
        "        self.last = max(self.last, best.last, place if row is None else row.last)\n",
        "        self.last = max(self.last, (row or best).last)\n",
        (OTHER_LOG + "[some-begin-where-the-logs-do-1000-rows-at-a-time]",),
    ),
    Mutant(
        "runs-end-with-the-logs-batch",
        "a copy that has a longer batch than the log differs up to the end of its own",
        "audit/walks/differing.py",
        "        self.last = max(self.last, best.last, place if row is None else row.last)\n",
        "        self.last = max(self.last, best.last)\n",
        (OTHER_LOG + "[longer-ones-1000-rows-at-a-time]",),
    ),
    Mutant(
        "lacks-and-differences-apart",
        "what a copy lacks right behind what it has otherwise has the same cause",
        "audit/walks/differing.py",
        "        if run is not None and place > run.last + 1 and not self._log.is_compacted:\n",
        "        if run is not None and (place > run.last + 1 or (run.row is None) != (row is None)):\n",
        (TESTS + "test_a_batch_that_differs_and_one_that_lacks_behind_it_are_one_finding",),
    ),
    Mutant(
        "lacks-and-differences-as-one",
        "what a copy lacks and what it has otherwise further on are two findings",
        "audit/walks/differing.py",
        "        if run is not None and place > run.last + 1 and not self._log.is_compacted:\n",
        "        if False:\n",
        (TESTS + "test_a_batch_that_lacks_and_one_that_differs_further_on_are_two",),
    ),
    Mutant(
        "unread-bytes-explain-differences",
        "bytes that cannot be read explain what a copy lacks, not what it has otherwise in front of them",
        "audit/walks/differing.py",
        "        if run is not None and run.is_lack and row.flags & FLAG_AFTER_UNREAD:\n",
        "        if run is not None and row.flags & FLAG_AFTER_UNREAD:\n",
        (TESTS + "test_a_lack_that_cannot_be_read_takes_no_difference_with_it",),
    ),
    Mutant(
        "tails-of-the-logs-length",
        "what an old leader cuts ends where its copy does",
        "audit/walks/differing.py",
        "        row, end = run.row, min(run.last + 1, facts.end)\n",
        "        row, end = run.row, run.last + 1\n",
        (TESTS + "test_what_an_old_leader_cuts_ends_where_its_copy_does",),
    ),
    Mutant(
        "cleaned-offsets-divide-differences",
        "offsets that compaction took between two differences of a copy do not make them two findings",
        "audit/walks/differing.py",
        "        if run is not None and place > run.last + 1 and not self._log.is_compacted:\n",
        "        if run is not None and place > run.last + 1:\n",
        (DIVIDED + "[by-all-1000-rows-at-a-time]",),
    ),
    Mutant(
        "agreement-beside-a-third-copy-unseen",
        "a copy has the log's batch also where a third one differs",
        "audit/walks/differing.py",
        "            self.pass_over([row.copy for row in placed if row.variant == best.variant])\n",
        "            pass\n",
        (AGREED + "[two-of-three-1000-rows-at-a-time]",),
    ),
    Mutant(
        "agreement-of-all-unseen",
        "batches that all copies of a compacted log have alike divide what one has otherwise",
        "audit/walks/copies.py",
        "            self._pass_over(rows, before, first)\n",
        "            pass\n",
        (AGREED + "[all-1000-rows-at-a-time]",),
    ),
    Mutant(
        "agreement-of-all-in-whole-batches-unseen",
        "rows none of which differ divide what a copy of a compacted log has otherwise, too",
        "audit/walks/copies.py",
        "            self._pass_over(rows, 0, rows.num_rows)\n",
        "            pass\n",
        (AGREED + "[all-1-rows-at-a-time]",),
    ),
    Mutant(
        "agreement-behind-a-difference-unseen",
        "rows behind the last one that differs divide what a copy of a compacted log has otherwise, too",
        "audit/walks/copies.py",
        "        self._pass_over(rows, before, rows.num_rows)\n",
        "        pass\n",
        (AGREED + "[all-7-rows-at-a-time]",),
    ),
    Mutant(
        "every-copy-agrees",
        "only a copy that has a batch between two differences agrees there",
        "audit/walks/copies.py",
        "            self._differing.pass_over(copies.to_pylist())\n",
        "            self._differing.pass_over(self._log.copies)\n",
        (DIVIDED + "[by-that-copy-1000-rows-at-a-time]",),
    ),
)
