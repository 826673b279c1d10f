"""What is broken on purpose where work must not hold the event loop, and where it is measured."""

from typing import Final

from tests.mutants.mutant import Mutant

STALLS: Final = "tests/wire/test_stalls.py::"

CHECKS: Final = "tests/broker/test_checks.py::"
ABORTED: Final = "tests/broker/log/test_aborted.py::"
DESCRIBE: Final = "tests/controller/transactions/test_describe.py::"
VALIDATION: Final = "tests/broker/log/test_validation.py::"

LOOP: Final = (
    # -- records ---------------------------------------------------------------------------------------------
    Mutant(
        "slice-bound",
        "a walk over records ends when its steps are taken",
        "records/record_walk.py",
        "        while delta < count and steps > 0:",
        "        while delta < count:",
        (
            VALIDATION + "test_a_walk_in_slices_is_the_walk",
            CHECKS + "test_a_slice_at_most_is_walked_between_two_turns[100,000 records]",
        ),
    ),
    Mutant(
        "headers-are-free",
        "the headers of a record are counted as it is",
        "records/record_walk.py",
        "                steps -= headers\n",
        "",
        (CHECKS + "test_a_slice_at_most_is_walked_between_two_turns[records of 1,024 headers]",),
    ),
    Mutant(
        "slices-of-all",
        "the checks of all connections share one slice",
        "broker/checks.py",
        "                budget.steps = check.budget.steps\n                if is_over:",
        "                if is_over:",
        (CHECKS + "test_connections_share_the_slice",),
    ),
    Mutant(
        "partitions-without-slices",
        "a request begins its partitions in slices",
        "broker/produce.py",
        "            budget.steps -= APPEND_STEPS\n",
        "",
        (CHECKS + "test_the_partitions_of_a_request_are_appended_to_in_slices",),
    ),
    Mutant(
        "overtaking",
        "what is small waits behind what is parked for its partition",
        "broker/produce.py",
        "            and self._checks.is_free(partition)\n",
        "",
        (CHECKS + "test_nothing_overtakes_what_is_parked_for_its_partition",),
    ),
    Mutant(
        "bomb-unbounded",
        "of a zstd or lz4 frame no more is unpacked than may come out",
        "records/compression.py",
        "            if size == bytes_max:\n                raise _too_large(name, bytes_max) from error\n"
        "            size = min(size * 8, bytes_max)",
        "            size *= 8",
        (CHECKS + "test_a_bomb_is_refused_and_the_next_batch_taken[zstd]",),
    ),
    Mutant(
        "opened-without-bound",
        "so many opened batches are in memory and no more",
        "broker/checks.py",
        "        if self._free:\n            self._free -= 1\n",
        "        if True:\n",
        (CHECKS + "test_so_many_opened_batches_are_in_memory_and_no_more",),
    ),
    # -- aborted transactions --------------------------------------------------------------------------------
    Mutant(
        "aborted-up-to-stable",
        "a fetch lists the aborted transactions of the bytes it returns, no others",
        "broker/log/partition_log.py",
        "        return self._places.with_aborted(records, offset, end)",
        "        return self._places.with_aborted(records, offset, self.last_stable_offset)",
        (ABORTED + "test_a_list_is_of_the_bytes_returned[32]",),
    ),
    Mutant(
        "aborted-list-unbounded",
        "a list is no longer than what it is for",
        "broker/log/search.py",
        "            records, end, producers = producers_of(records)\n",
        "            pass\n",
        (ABORTED + "test_a_list_is_no_longer_than_what_it_is_for",),
    ),
    Mutant(
        "aborted-blocks-read",
        "entries that begin behind what is read are passed by, though an old transaction is open",
        "broker/log/aborted.py",
        "            if self._firsts[block] < upper:",
        "            if True:",
        (
            ABORTED + "test_a_reader_that_catches_up_costs_as_much_as_it_reads"
            "[one segment-while an old one is open]",
        ),
    ),
    Mutant(
        "aborted-cut-short",
        "the entry after whose marker all is stable is looked at, too",
        "broker/log/aborted.py",
        "self.count_below(_STABLE, upper) + 1, self.count",
        "self.count_below(_STABLE, upper), self.count",
        (ABORTED + "test_a_consumer_delivers_what_was_committed_and_nothing_else[as-it-is-seed-0]",),
    ),
    Mutant(
        "described-without-bound",
        "one answer of DescribeTransactions holds so many partitions and no more",
        "controller/transactions/describe.py",
        "        if partitions >= DESCRIBED_PARTITIONS_MAX:",
        "        if False:",
        (DESCRIBE + "test_the_partitions_of_one_answer_are_bounded[one that reaches it alone]",),
    ),
    # -- the measure -----------------------------------------------------------------------------------------
    Mutant(
        "stall-hidden",
        "what serves a request is measured under the request's name",
        "wire/server_connection.py",
        "                stalls.end(self._work, begun)\n",
        "",
        (
            STALLS + "test_a_request_counts_with_its_decoding_and_its_reply",
            STALLS + "test_a_refusal_counts",
        ),
    ),
    Mutant(
        "stall-of-replies-hidden",
        "a reply that comes later is measured, too",
        "wire/server_reply.py",
        "        connection.stalls.end(self._api.name, begun)\n",
        "",
        (STALLS + "test_a_reply_that_comes_later_counts",),
    ),
    Mutant(
        "stall-inside-hides",
        "work that holds other work is measured from its own beginning",
        "wire/stalls.py",
        "            self._record(work, min(elapsed_s, self._cpu_s - begun[1]), now_s)",
        "            before_s = begun[1] if now_s - self._read_at_s > 1 else self._cpu_s\n"
        "            self._record(work, min(elapsed_s, self._cpu_s - before_s), now_s)",
        (STALLS + "test_work_inside_other_work_is_counted_for_both",),
    ),
    Mutant(
        "flush-is-a-stall",
        "the flush of the store is taken out",
        "wire/stalls.py",
        "        self._stalls.flushed(self._begun_s, ended_s)\n",
        "",
        (STALLS + "test_a_flush_is_taken_out_and_has_its_own_maximum",),
    ),
)
