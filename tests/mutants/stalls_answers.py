"""What is broken on purpose where large answers are described, encoded and decoded in slices."""

from typing import Final

from tests.mutants.mutant import Mutant

TOPICS: Final = "tests/coordinator/test_topic_descriptions.py::"
LIMITS: Final = "tests/wire/test_request_limits.py::test_requests_that_look_each_element_up_have_fewer"
REQUESTS: Final = "tests/broker/test_topic_requests.py::"
FORWARDED: Final = REQUESTS + "test_what_the_controller_would_refuse_for_its_length_is_not_forwarded"
TIMERS: Final = "tests/coordinator/test_transaction_timers.py::"
OFFSETS: Final = "tests/coordinator/test_offset_server.py::"
SLICES: Final = "tests/broker/test_topic_slices.py::"
STEPS: Final = "tests/wire/test_steps.py::"

STALLS_ANSWERS: Final = (
    Mutant(
        "topics-described-in-one-go",
        "all topics are described in slices of the loop",
        "coordinator/topic_descriptions.py",
        "            if rows >= DESCRIBED_ROWS_MAX:\n                last = name\n                break\n",
        "",
        (TOPICS + "test_a_slice_describes_so_many_rows_and_the_topic_that_passes_them[all]",),
    ),
    Mutant(
        "named-topics-described-in-one-go",
        "topics that a request names are described in slices of the loop",
        "coordinator/topic_descriptions.py",
        "        if rows >= DESCRIBED_ROWS_MAX:\n            yield\n",
        "        if rows < 0:\n            yield\n",
        (TOPICS + "test_a_slice_describes_so_many_rows_and_the_topic_that_passes_them[by-name]",),
    ),
    Mutant(
        "topics-described-from-where-they-were",
        "a slice begins behind the last name, whatever was made or deleted before it",
        "coordinator/topic_descriptions.py",
        "        for name, topic in view.scan(TOPICS, last):\n",
        "        for name, topic in list(view.scan(TOPICS))[len(found) :]:\n",
        (TOPICS + "test_a_topic_that_is_there_throughout_is_there_once_and_whole[seed-0]",),
    ),
    Mutant(
        "topics-unproved",
        "what is said of topics is proved by an entry after it",
        "coordinator/topic_descriptions.py",
        "        self._submit(decide, reply, closing=reply)\n",
        "        reply(decide(self._image(), 0).response, 0)\n",
        (
            TOPICS + "test_what_was_kept_is_proved_too",
            TOPICS + "test_a_slice_describes_so_many_rows_and_the_topic_that_passes_them[all]",
        ),
    ),
    Mutant(
        "topics-of-another-leadership",
        "topics that were read before leadership moved are not answered",
        "coordinator/topic_descriptions.py",
        "            if view.header.controller_epoch != epoch:\n",
        "            if False:\n",
        (
            TOPICS + "test_what_was_read_before_leadership_moved_is_not_answered[all]",
            TOPICS + "test_what_was_read_before_leadership_moved_is_not_answered[some]",
        ),
    ),
    Mutant(
        "topics-of-before-the-request",
        "a request that comes while topics are described gets what is described after it came",
        "coordinator/topic_descriptions.py",
        "            if (epoch, version) == (self._epoch, self._version):",
        "            if epoch == self._epoch:",
        (TOPICS + "test_requests_that_come_meanwhile_share_what_is_said_after_them[changed]",),
    ),
    Mutant(
        "topics-named-twice",
        "a topic that a request names many times is described once",
        "coordinator/topic_server.py",
        "        queries = tuple(dict.fromkeys(request.topics))\n",
        "        queries = request.topics\n",
        (TOPICS + "test_a_topic_that_is_named_many_times_is_described_once",),
    ),
    Mutant(
        "reply-in-one-step",
        "a large reply is encoded in steps of the loop",
        "wire/k03_metadata.py",
        "            yield\n        _write_topic",
        "        if rows < 0:\n            yield\n        _write_topic",
        (STEPS + "test_steps_pause_after_so_many_rows_and_make_the_same[so-many-before-the-last-13]",),
    ),
    Mutant(
        "response-in-one-step",
        "a large response is decoded in steps of the loop",
        "wire/k03_metadata.py",
        "        if rows >= ROWS_AT_ONCE_MAX:\n            rows = 0\n"
        "            yield\n        topics.append",
        "        if rows < 0:\n            yield\n        topics.append",
        (STEPS + "test_steps_pause_after_so_many_rows_and_make_the_same[so-many-before-the-last-13]",),
    ),
    Mutant(
        "response-overtaken",
        "what comes behind a response that is being decoded waits for it",
        "wire/connection.py",
        "            while self._decoding is None:\n",
        "            while True:\n",
        (STEPS + "test_what_comes_behind_a_large_response_waits_for_it",),
    ),
    Mutant(
        "response-uncounted",
        "what it takes to decode a response is counted",
        "wire/connection.py",
        '                stalls.end(f"{name} response", begun)\n',
        "",
        (STEPS + "test_a_response_without_steps_is_counted",),
    ),
    Mutant(
        "response-steps-uncounted",
        "every step of a response is counted",
        "wire/connection.py",
        '        self._stalls.end(f"{call.api.name} response", begun)\n',
        "",
        (STEPS + "test_each_step_of_a_response_is_counted",),
    ),
    Mutant(
        "forwards-any-number-of-topics",
        "a broker does not forward what the controller refuses for its length: to write it takes 70 ms",
        "broker/topic_requests.py",
        "            require_count(request)\n            self._spawn(self._forward",
        "            self._spawn(self._forward",
        (FORWARDED + "[create]", FORWARDED + "[delete]"),
    ),
    Mutant(
        "settings-in-one-request",
        "a broker reads the settings of many topics some at a time: a thousand at once take 50 ms",
        "broker/topic_requests.py",
        "                some = DescribeConfigs(forwarded[start : start + CONFIGS_MAX])\n",
        "                some = DescribeConfigs(() if start else forwarded)\n",
        (REQUESTS + "test_settings_of_many_topics_are_read_some_at_a_time",),
    ),
    Mutant(
        "settings-of-any-number",
        "a DescribeConfigs of 20,000 topics is not read to its end, which would take 50 ms",
        "wire/k32_describe_configs.py",
        ", elements_max=LOOKED_UP_ELEMENTS_MAX)",
        ")",
        (LIMITS,),
    ),
    Mutant(
        "transactions-described-of-any-number",
        "a DescribeTransactions of 19,000 ids is not read to its end: that and the refusal would take 50 ms",
        "wire/k65_describe_transactions.py",
        ", elements_max=2 * LOOKED_UP_ELEMENTS_MAX)",
        ")",
        (LIMITS,),
    ),
    Mutant(
        "topics-of-a-transaction-without-end",
        "an AddPartitionsToTxn of 10,000 topics is not read to its end",
        "wire/k24_add_partitions_to_txn.py",
        "    if count > _TOPICS_MAX:\n",
        "    if False:\n",
        (LIMITS,),
    ),
    Mutant(
        "topics-taken-at-once",
        "a broker takes all topics a thousand at a time",
        "broker/topics.py",
        "            if count % TOPICS_AT_ONCE_MAX == 0:\n                await asyncio.sleep(0)\n",
        "",
        (SLICES + "test_the_loop_is_free_while_topics_are_taken_and_hosted",),
    ),
    Mutant(
        "look-up-lost",
        "what is looked up while all topics are taken stays",
        "broker/topics.py",
        "        for topic in merged:\n            self._merge(topic)\n",
        "",
        (SLICES + "test_what_is_looked_up_while_all_topics_are_taken_stays",),
    ),
    Mutant(
        "hosted-at-once",
        "all topics are compared with what is hosted a thousand partitions at a time",
        "broker/partitions.py",
        "            if rows >= PARTITIONS_AT_ONCE_MAX:\n                rows = 0\n"
        "                await asyncio.sleep(0)\n",
        "",
        (SLICES + "test_the_loop_is_free_while_topics_are_taken_and_hosted",),
    ),
    Mutant(
        "retired-at-once",
        "partitions are looked at for deletion a thousand at a time",
        "broker/partitions.py",
        "            if count % PARTITIONS_AT_ONCE_MAX == 0:\n                await asyncio.sleep(0)\n",
        "",
        (SLICES + "test_the_loop_is_free_while_partitions_are_looked_at_for_deletion",),
    ),
    Mutant(
        "configures-by-looking-at-all",
        "the settings of a topic are given to its logs without a look at all others",
        "broker/partitions.py",
        "        for partition in self._by_id.get(topic_id, _NONE_HERE).values():\n",
        "        for partition in [each for each in self if each.topic_id == topic_id]:\n",
        (SLICES + "test_settings_of_a_topic_are_given_to_its_own_logs_alone",),
    ),
    Mutant(
        "imports-left-on-the-loop",
        "what describes messages is imported before a node serves",
        "node/main.py",
        "    load_newest()  # or the first request of each key would import it\n",
        "",
        ("tests/node/test_start.py::test_messages_are_loaded_before_a_part_starts",),
    ),
    Mutant(
        "imports-requests-only",
        "the newest version of each message is loaded, of responses, too",
        "wire/registry.py",
        "        message.load(api.versions[-1])\n",
        '        if message._kind == "request":\n            message.load(api.versions[-1])\n',
        ("tests/node/test_start.py::test_messages_are_loaded_before_a_part_starts",),
    ),
    Mutant(
        "a-key-without-its-worst-request",
        "the bench has the largest request of each API key",
        "bench/stalls_keys.py",
        "        20066: ListSetAside(),\n",
        "",
        ("tests/cli/test_bench_stalls.py::test_every_api_has_a_request_that_is_as_large_as_it_may_be",),
    ),
    Mutant(
        "markers-of-timeouts-in-one-go",
        "the markers of wide transactions that time out together are sent in slices",
        "coordinator/transaction_timers.py",
        "            if looked_at >= LOOKED_AT_MAX:\n",
        "            if False:\n",
        (TIMERS + "test_markers_of_wide_transactions_that_time_out_together_are_sent_in_slices",),
    ),
    Mutant(
        "groups-deleted-one-by-one",
        "the groups of one DeleteGroups are decided a hundred at a time, and refused so",
        "coordinator/groups/offset_server.py",
        "DELETED_AT_ONCE_MAX: Final = 100",
        "DELETED_AT_ONCE_MAX: Final = 1",
        (
            OFFSETS + "test_groups_are_not_deleted_by_a_node_that_does_not_lead[5000]",
            OFFSETS + "test_decisions_on_groups_that_are_deleted_share_entries",
        ),
    ),
)
