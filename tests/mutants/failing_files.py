"""What is broken on purpose where a file fails: which one it was, and that no other work ends with it."""

from typing import Final

from tests.mutants.mutant import Mutant

LINES: Final = "tests/settings/test_log_lines.py::"
READS: Final = "tests/broker/log/test_named_reads.py::"

FAILING_FILES: Final = (
    Mutant(
        "failing-log-lines-raise",
        "a line of the log that cannot be written stops nothing",
        "settings/log_lines.py",
        "            self._lost += 1\n",
        "            raise\n",
        (LINES + "test_a_reader_that_went_away_is_no_end",),
    ),
    Mutant(
        "failing-lost-log-lines-unsaid",
        "lines of the log that were lost are counted, and said",
        "settings/log_lines.py",
        "        if self._lost:\n",
        "        if False:\n",
        (LINES + "test_lines_that_found_a_full_disk_are_counted_in_the_next_one",),
    ),
    Mutant(
        "failing-half-a-log-line-goes-on",
        "what follows half a line of the log begins a line of its own",
        "settings/log_lines.py",
        "            self._torn = self._torn or written > 0\n",
        "            self._torn = False\n",
        (LINES + "test_what_follows_half_a_line_is_a_line_of_its_own",),
    ),
    Mutant(
        "failing-later-failure-of-a-store",
        "a store says why its first commit failed, whatever failed after it",
        "snapshots/store.py",
        "            if self._failure is not None:\n",
        "            if False:\n",
        ("tests/snapshots/test_failed_commit.py::test_a_commit_that_failed_is_what_each_use_raises",),
    ),
    Mutant(
        "failing-unread-file-unnamed",
        "a small file that opens and cannot be read is named",
        "snapshots/reads.py",
        "    with naming(path):\n        return path.read_bytes()\n",
        "    return path.read_bytes()\n",
        ("tests/snapshots/test_reads.py::test_a_file_that_opens_and_cannot_be_read_is_named[read_bytes]",),
    ),
    Mutant(
        "failing-unread-bytes-unnamed",
        "the segment, or the index, of which bytes cannot be read is named",
        "snapshots/reads.py",
        "        named(error, path)\n",
        "        pass\n",
        (READS + "test_batches", READS + "test_index_entries"),
    ),
)
