"""What is broken on purpose in the sums of ranges of keys, by which a running store's rows are read."""

from typing import Final

from tests.mutants.mutant import Mutant

SUMS: Final = "snapshots/row_ranges.py"
TESTS: Final = "tests/snapshots/test_row_ranges.py::"
CHANGED: Final = (TESTS + "test_a_row_that_changed_is_not_read",)
GENERATIONS: Final = "tests/snapshots/test_generations.py::"
SCRUBBED: Final = "tests/quorum/test_scrubbed_images.py::"
DECIDES: Final = SCRUBBED + "test_a_leader_decides_nothing_from_a_row_that_changed"
APPLIES: Final = SCRUBBED + "test_an_entry_that_cannot_be_applied_to_a_row_that_changed_comes_with_a_snapshot"
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
        "ranges-found-changed-say-nothing",
        "a node that finds a row changed has a bad image",
        "quorum/image_watch.py",
        "        if not self.is_bad and self._store.ranges.changed:\n",
        "        if False:\n",
        (
            DECIDES + "[by_decision]",
            SCRUBBED + "test_rows_found_changed_while_others_are_written_make_the_image_bad",
        ),
    ),
    Mutant(
        "ranges-changed-rows-are-bugs",
        "a request that reads a changed row goes to another node",
        "quorum/draft.py",
        "        if isinstance(error, RowsChanged):\n",
        "        if False:\n",
        (DECIDES + "[by_decision]",),
    ),
    Mutant(
        "ranges-entry-passed-over",
        "an entry that cannot be applied is not counted as applied",
        "quorum/image_watch.py",
        "            self.differs(str(error))\n            return\n        version",
        "            return\n        version",
        (APPLIES,),
    ),
    Mutant(
        "ranges-entry-counted",
        "the core does not go on behind an entry that was not applied",
        "quorum/raft_log.py",
        "            if self._on_committed(index, Term(term), command):\n                break\n",
        "            self._on_committed(index, Term(term), command)\n",
        (APPLIES,),
    ),
    Mutant(
        "ranges-applied-moves",
        "the applied index stays before an entry that was not applied",
        "quorum/replica.py",
        "        except (InvariantViolation, RowsChanged) as error:\n            self._applied = before\n",
        "        except (InvariantViolation, RowsChanged) as error:\n",
        (APPLIES,),
    ),
    Mutant(
        "ranges-digest-halts",
        "a digest that reads a changed row makes the image a bad one",
        "quorum/image_watch.py",
        "            self.differs(str(error))\n            return\n        if digest",
        "            raise\n        if digest",
        (SCRUBBED + "test_a_digest_is_not_made_of_a_row_that_changed",),
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
    Mutant(
        "ranges-no-client-connects",
        "ApiVersions is answered while the image is bad",
        "node/feature_server.py",
        "            return last\n        last = ",
        "            raise\n        last = ",
        ("tests/node/test_said_features.py::test_features_are_those_said_last_where_rows_changed",),
    ),
    Mutant(
        "ranges-read-on",
        "a start reads no row of an installation that did not end",
        SUMS,
        ", iter(())\n",
        ", rows\n",
        (TESTS + "test_a_start_reads_the_image_s_rows_and_few_of_an_installation_that_did_not_end",),
    ),
    Mutant(
        "ranges-of-the-generation-on-the-disk",
        "a list is of the generation that the node has in memory",
        "snapshots/verified_reader.py",
        "        self._generation = ranges.generation",
        "        pass",
        (TESTS + "test_a_verified_reader_finds_its_rows_whatever_meta_says_of_their_generation",),
    ),
)
