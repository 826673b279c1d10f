"""What is broken on purpose in the sums of ranges of keys, by which a running store's rows are read."""

from typing import Final

from tests.mutants.mutant import Mutant

SUMS: Final = "snapshots/row_ranges.py"
TESTS: Final = "tests/snapshots/test_row_ranges.py::"
CHANGED: Final = (TESTS + "test_a_row_that_changed_is_not_read",)
GENERATIONS: Final = "tests/snapshots/test_generations.py::"
READS: Final = "tests/coordinator/test_transaction_reads.py::"
READ: Final = (TESTS + "test_what_is_read_is_what_was_written",)

ROW_RANGES: Final = (
    Mutant(
        "ranges-not-compared",
        "a range that does not have its sum is not read",
        SUMS,
        "        if sum_of_rows(rows) & _SUM_MASK != self._sums[at]:\n",
        "        if False:\n",
        CHANGED,
    ),
    Mutant(
        "ranges-counted-alone",
        "a range with as many rows as were written, of which one changed, is not read",
        SUMS,
        "        if sum_of_rows(rows) & _SUM_MASK != self._sums[at]:\n",
        "        if len(rows) != self._counts[at]:\n",
        CHANGED,
    ),
    Mutant(
        "ranges-of-a-snapshot-made-at-the-first-read",
        "the sums of a snapshot's rows are those of the rows that were put",
        "snapshots/store.py",
        "        self._ranges = self._filled_ranges\n",
        "        self._ranges = None\n",
        (TESTS + "test_a_row_of_a_snapshot_that_changed_before_it_was_the_image_is_not_read",),
    ),
    Mutant(
        "ranges-of-the-image-before",
        "an image that a snapshot took the place of has no range any more",
        "snapshots/store.py",
        "        self._ranges = self._filled_ranges\n",
        "",
        CHANGED,
    ),
    Mutant(
        "ranges-not-of-writes",
        "a row that is written changes its range's sum",
        "snapshots/image.py",
        "                wrote(txn, db, at, difference, more, size)\n",
        "",
        READ,
    ),
    Mutant(
        "ranges-forget-what-was-there",
        "a row that is written over counts once",
        "snapshots/image.py",
        "more, size = more - 1, size - len(before)",
        "pass",
        (TESTS + "test_a_range_is_as_long_as_its_rows_are_many",),
    ),
    Mutant(
        "ranges-split-is-not-compared",
        "a range that is split is one that has its sum",
        SUMS,
        "rows, first = self._read(txn, db, at, key),",
        "rows, first = self._found(txn, db, at),",
        (TESTS + "test_rows_that_came_are_found_when_their_range_is_split",),
    ),
    Mutant(
        "ranges-never-split",
        "a read is of few rows, however many came",
        SUMS,
        "        if count > RANGE_ROWS_MAX or (",
        "        if (",
        (TESTS + "test_a_range_is_as_long_as_its_rows_are_many",),
    ),
    Mutant(
        "ranges-of-any-bytes",
        "a read is of few bytes, however long the rows beside are",
        SUMS,
        " or (self._bytes[at] > RANGE_BYTES_MAX and count > 1):\n",
        ":\n",
        (TESTS + "test_a_long_row_is_in_a_range_of_its_own",),
    ),
    Mutant(
        "ranges-of-a-start-of-any-bytes",
        "a start makes ranges of few bytes, too",
        SUMS,
        "if part and size <= RANGE_BYTES_MAX else",
        "if part else",
        (TESTS + "test_a_long_row_is_in_a_range_of_its_own",),
    ),
    Mutant(
        "ranges-of-one-row-are-split",
        "a long row is not read at each write of it",
        SUMS,
        "> RANGE_BYTES_MAX and count > 1):",
        "> RANGE_BYTES_MAX):",
        (TESTS + "test_a_long_row_is_in_a_range_of_its_own",),
    ),
    Mutant(
        "ranges-never-joined",
        "a range whose rows are all gone takes no memory",
        SUMS,
        "        elif count <= 0 and at:\n",
        "        elif False:\n",
        (TESTS + "test_a_range_is_as_long_as_its_rows_are_many",),
    ),
    Mutant(
        "ranges-joined-with-a-sum",
        "a range of which the last row found is deleted has no sum left",
        SUMS,
        "        if self._sums[at]:\n",
        "        if False:\n",
        (TESTS + "test_a_lost_row_is_found_when_its_range_has_no_other_one",),
    ),
    Mutant(
        "ranges-scan-again",
        "a scan begins behind the row that it goes on after",
        SUMS,
        "if row[0] >= at and row[0] != passed and",
        "if row[0] >= at and",
        (
            "tests/snapshots/test_store.py::test_a_scan_goes_on_after_a_key_over_what_is_saved_and_what_is_not",
        ),
    ),
    Mutant(
        "ranges-changed-rows-are-a-connection's",
        "a node whose rows changed while it was open ends",
        "snapshots/store.py",
        "STORE_FAILURES: Final = (lmdb.Error, MemoryError, RowsChanged)",
        "STORE_FAILURES: Final = (lmdb.Error, MemoryError)",
        ("tests/node/test_halts.py::test_a_node_whose_rows_changed_ends_wherever_that_is_seen",),
    ),
    Mutant(
        "ranges-of-a-list-not-compared",
        "a list of transactions is made of rows that have their sums",
        "coordinator/transaction_lists.py",
        "self._replica.store.verified_reader()",
        "self._replica.store.reader()",
        (READS + "test_a_list_is_not_made_of_a_row_that_changed",),
    ),
    Mutant(
        "ranges-of-a-list-are-the-image's",
        "a list has sums of its own, of what was flushed for it",
        "snapshots/store.py",
        "self.ranges.copy())",
        "self.ranges)",
        (READS + "test_a_list_has_the_sums_of_what_was_flushed_for_it",),
    ),
    Mutant(
        "ranges-of-a-list-change-nothing",
        "a row that changed, and that a list finds, makes the image a bad one",
        "coordinator/transaction_lists.py",
        "                self._replica.watch.differs(str(outcome))\n",
        "                pass\n",
        (READS + "test_a_list_is_not_made_of_a_row_that_changed",),
    ),
    Mutant(
        "ranges-of-another-generation",
        "the generation that was filled last becomes the image, and no other",
        "snapshots/store.py",
        "        invariant(generation == self._filled_ranges.generation,",
        "        invariant(True,",
        (GENERATIONS + "test_a_generation_that_was_not_filled_last_does_not_become_the_image",),
    ),
)
