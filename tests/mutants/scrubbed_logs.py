"""What is broken on purpose in how batches from before a start are checked: when read, and by the scrub."""

from typing import Final

from tests.mutants.mutant import Mutant

READ: Final = "tests/broker/log/test_unchecked.py::test_no_answer_has_a_flipped_bit_of_a_full_segment"
IN_USE: Final = "tests/broker/log/test_unchecked.py::test_a_scrub_finds_what_changes_while_the_log_is_in_use"
ONCE: Final = "tests/broker/log/test_unchecked.py::test_what_was_compared_or_written_is_not_checked_again"
LARGE: Final = (
    "tests/broker/log/test_unchecked.py::test_more_than_a_start_compares_is_checked_when_it_is_read"
)
UNSUMMED: Final = (
    "tests/broker/log/test_unchecked.py::test_a_segment_that_was_not_summed_is_read_and_only_then_summed"
)
ANEW: Final = (
    "tests/broker/log/test_unchecked.py::test_sums_of_other_bytes_are_made_anew_if_each_batch_is_sound"
)
CLEANED: Final = "tests/broker/log/test_unchecked.py::test_in_a_cleaned_log_a_changed_offset_is_named"
BROKER: Final = "tests/broker/test_log_scrub.py::"
MEANWHILE: Final = BROKER + "test_what_was_replaced_or_deleted_meanwhile_is_no_finding"

SCRUBBED_LOGS: Final = (
    Mutant(
        "full-segments-served-unread",
        "a batch from before the start is checked when it is read",
        "broker/log/search.py",
        "            if position < segment.unchecked_end:\n                require_sound",
        "            if False:\n                require_sound",
        (READ, BROKER + "test_before_the_first_round_no_client_is_given_what_changed"),
    ),
    Mutant(
        "full-segments-searched-unread",
        "also when an offset is looked up by its time",
        "broker/log/search.py",
        "                if placed.position < segment.unchecked_end:\n",
        "                if False:\n",
        (READ, BROKER + "test_before_the_first_round_no_client_is_given_what_changed"),
    ),
    Mutant(
        "unchecked-offsets-believed",
        "the first batch that is read begins where the one before it ends",
        "broker/log/unchecked.py",
        "    at, expected, view = 0, _end_before(segment, position), memoryview(content)\n",
        "    at, expected, view = 0, checked_header(content).base_offset, memoryview(content)\n",
        (READ,),
    ),
    Mutant(
        "unchecked-epochs-believed",
        "the leader epoch of a batch that is read is that of the file of epochs",
        "broker/log/unchecked.py",
        "(epoch, magic) == (due, MAGIC)",
        "magic == MAGIC",
        (READ,),
    ),
    Mutant(
        "unchecked-without-end",
        "only so many bytes are checked between two turns of the loop",
        "broker/log/search.py",
        "                bytes_max = min(bytes_max, CHECKED_AT_ONCE_BYTES)\n",
        "                pass\n",
        ("tests/broker/log/test_unchecked.py::test_only_so_many_bytes_are_checked_at_once",),
    ),
    Mutant(
        "unchecked-epochs-of-the-first",
        "where a leader epoch ends what is read is of the next one",
        "broker/log/unchecked.py",
        "expected < due_end and (epoch, magic) == (due, MAGIC)",
        "expected and (epoch, magic) == (due, MAGIC)",
        ("tests/broker/log/test_unchecked.py::test_behind_the_end_of_an_epoch_no_batch_is_of_it",),
    ),
    Mutant(
        "unchecked-for-ever",
        "what a start compared with its sum is not checked when it is read",
        "broker/log/unchecked.py",
        "        segment.unchecked_end = 0 if end <= summed <= COMPARED_BYTES_MAX else end\n",
        "        segment.unchecked_end = end\n",
        (ONCE,),
    ),
    Mutant(
        "unchecked-as-compared",
        "what is too much for a start to compare is checked when it is read",
        "broker/log/unchecked.py",
        "0 if end <= summed <= COMPARED_BYTES_MAX else end",
        "0",
        (LARGE,),
    ),
    Mutant(
        "scrub-of-batches-only",
        "a scrub compares indexes",
        "broker/log/scrub.py",
        "        if suffix is not None:\n",
        "        if False:\n",
        (IN_USE,),
    ),
    Mutant(
        "scrub-of-the-end-only",
        "a scrub compares what is summed, however often it was compared",
        "broker/log/scrub.py",
        "        if is_summed and is_as_summed(path, sums.batches, pace):\n",
        "        is_checked = not part.segment.unchecked_end\n"
        "        if is_summed and (is_checked or is_as_summed(path, sums.batches, pace)):\n",
        (IN_USE, BROKER + "test_what_changes_in_use_is_found_by_the_next_round"),
    ),
    Mutant(
        "scrub-of-a-segment-that-shrank",
        "a segment that shrank where a batch ends is damage",
        "broker/log/scrub.py",
        "        while position < part.size:\n",
        "        while position < segment.size:\n",
        (IN_USE,),
    ),
    Mutant(
        "unread-batches-summed",
        "what no start has read is not summed before it is read",
        "broker/log/durability.py",
        "if each.is_summed and each.path",
        "if each.path",
        (UNSUMMED,),
    ),
    Mutant(
        "unsummed-segments-believed",
        "a segment that is not summed is read by the scrub",
        "broker/log/scrub.py",
        "        is_summed = sums.batches.size >= part.read_end\n",
        "        is_summed = True\n",
        (UNSUMMED,),
    ),
    Mutant(
        "stale-sums-stay",
        "sums of other bytes are made anew",
        "broker/log/scrub.py",
        "            self._durability.replaced(path)\n        return found\n",
        "            pass\n        return found\n",
        (ANEW,),
    ),
    Mutant(
        "cleaned-segments-summed-anew",
        "in a cleaned log the sum alone says that an offset changed",
        "broker/log/scrub.py",
        "        if is_summed and is_cleaned:\n",
        "        if False:\n",
        (CLEANED,),
    ),
    Mutant(
        "repair-of-full-segments-without-epochs",
        "a repair finds what the scrub finds by the file of epochs",
        "broker/log/repair.py",
        "        position, end, error = _read(segment, end, known)\n",
        "        position, end, error = _read(segment, end, known._replace(epochs=None))\n",
        (
            "tests/broker/log/test_segment_sums.py::test_bytes_that_no_batch_checks_are_named_by_a_look_at_all",
        ),
    ),
    Mutant(
        "scrub-of-what-was-replaced",
        "what was found of a segment that is gone, or being replaced, is no finding",
        "broker/log_scrub.py",
        "            if part() is not None:  # else it is another file by now\n",
        "            if True:\n",
        (MEANWHILE,),
    ),
    Mutant(
        "scrub-of-closed-logs",
        "a log that is closed does not wait for its scrub",
        "broker/log_scrub.py",
        "            if not partition.is_open:\n                raise ScrubStopped\n",
        "",
        (BROKER + "test_a_log_that_is_closed_does_not_wait_for_its_scrub",),
    ),
    Mutant(
        "scrub-before-the-logs-are-open",
        "the first round of the scrub is over all logs that are there at a start",
        "broker/log_scrub.py",
        "            is_open = self._partitions.recovered\n",
        "            is_open = True\n",
        (BROKER + "test_the_first_round_begins_when_the_logs_are_open",),
    ),
    Mutant(
        "scrub-at-full-speed",
        "a scrub reads at most so many bytes in a second",
        "snapshots/scrub_pace.py",
        "max(self._read / BYTES_PER_S, PAUSE * used)",
        "PAUSE * used",
        (BROKER + "test_the_pace_is_by_bytes_and_by_cpu",),
    ),
)
