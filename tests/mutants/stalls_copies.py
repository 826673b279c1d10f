"""What is broken on purpose where large requests are read, and where they are logged."""

from typing import Final

from tests.mutants.mutant import Mutant

VALIDATION: Final = "tests/broker/log/test_validation.py::"
OFFSETS: Final = "test_many_are_looked_up_after_the_turn_that_reads_them"
LIMITS: Final = "tests/wire/test_request_limits.py::test_requests_that_look_each_element_up_have_fewer"

STALLS_COPIES: Final = (
    Mutant(
        "copies-all-records",
        "large records stay in their frame: to copy 80 MB of them would stall the loop for 45 ms",
        "wire/cursor.py",
        "        return bytes(found) if size < VIEW_BYTES_MIN else found\n",
        "        return bytes(found)\n",
        ("tests/wire/test_k00.py::test_large_records_are_not_copied_out_of_their_frame[65536-False]",),
    ),
    Mutant(
        "appends-in-the-slice-of-checks",
        "a large append has a slice of the loop of its own",
        "broker/log/validation.py",
        "        yield None\n        budget.steps -= append_steps\n",
        "        pass\n",
        (VALIDATION + "test_a_large_append_is_alone_in_its_slice",),
    ),
    Mutant(
        "produces-to-any-number",
        "a Produce to 10,000 topics is not read to its end: that and the answer would take 16 ms each",
        "wire/k00_produce.py",
        ", elements_max=_REQUEST_ELEMENTS_MAX)",
        ")",
        (LIMITS,),
    ),
    Mutant(
        "creates-any-number-of-topics",
        "a CreateTopics of 10,000 topics is not read to its end: that and the refusal would take 55 ms",
        "wire/k19_create_topics.py",
        "    if count > _TOPICS_MAX:\n",
        "    if False:\n",
        (LIMITS,),
    ),
    Mutant(
        "deletes-any-number-of-topics",
        "a DeleteTopics of 10,000 topics is not read to its end: that and the refusal would take 75 ms",
        "wire/k20_delete_topics.py",
        ", elements_max=NAMED_ELEMENTS_MAX)",
        ")",
        (LIMITS,),
    ),
    Mutant(
        "looks-up-in-the-turn-that-reads",
        "many offsets are looked up after the turn of the loop that reads the request",
        "broker/offsets.py",
        "            if len(request.partitions) > TIMES_MAX:\n",
        "            if False:\n",
        ("tests/broker/test_offset_slices.py::" + OFFSETS,),
    ),
    Mutant(
        "takes-any-special-timestamp",
        "a special timestamp that no version has is refused, as by Kafka",
        "broker/offsets.py",
        " and query.timestamp_ms < request.special_lowest",
        " and False",
        ("tests/broker/test_fetch.py::test_offsets_are_found",),
    ),
    Mutant(
        "logs-each-deletion",
        "a client that deletes topics does not fill the log",
        "broker/partitions.py",
        '        self._limited_log.info("partition_deleted"',
        '        self._log.info("partition_deleted"',
        ("tests/broker/test_partitions.py::test_a_client_that_deletes_topics_does_not_fill_the_log",),
    ),
)
