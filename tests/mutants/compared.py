"""What is broken on purpose in how nodes compare their images, and in what a bad one leaves undone."""

from typing import Final

from tests.mutants.mutant import Mutant

TESTS: Final = "tests/quorum/test_image_watch.py::"
WATCH: Final = "quorum/image_watch.py"
REPORTS: Final = "quorum/reports.py"
FOLLOWER: Final = TESTS + "test_a_follower_that_differs_stops_and_comes_back_by_a_snapshot"
SCRUBBED: Final = "tests/quorum/test_scrubbed_images.py::"
ROWS: Final = "tests/snapshots/test_scrub.py"
COVERED: Final = TESTS + "test_a_divergence_that_a_later_entry_covers_up_is_found"
IN_ORDER: Final = "tests/quorum/test_reports.py::test_the_last_report_is_that_of_the_highest_version"
CONFIRMED: Final = "::test_confirmed_is_who_agrees_with_a_majority_at_the_last_version_that_has_one"
STORMS: Final = (
    "tests/simulation/test_change_storms.py::test_images_that_change_in_running_nodes_give_no_wrong_answer"
)
LEADER: Final = TESTS + "test_a_leader_that_differs_steps_down_and_answers_nothing_of_its_image"

COMPARED: Final = (
    Mutant(
        "compared-majority-ignored",
        "who differs from a majority stops",
        REPORTS,
        "        return own is not None and self.majority_at(version) not in (None, own)\n",
        "        return False\n",
        (FOLLOWER, LEADER),
    ),
    Mutant(
        "compared-two-of-three-are-no-majority",
        "without a majority no one stops",
        REPORTS,
        "        self._majority = len(voters) // 2 + 1\n",
        "        self._majority = 1\n",
        (TESTS + "test_without_a_majority_no_one_stops_and_it_is_logged",),
    ),
    Mutant(
        "compared-split-not-logged",
        "that digests differ without a majority is logged",
        WATCH,
        '            self._limited.error("images_differ", version=version, digests=digests, next=REMEDY)\n',
        "            pass\n",
        (TESTS + "test_without_a_majority_no_one_stops_and_it_is_logged",),
    ),
    Mutant(
        "compared-rows-not-read-again",
        "a digest is of the rows as the image has them",
        "snapshots/digests.py",
        "                now = None if value is DELETED else image.get(table, key)\n",
        "                now = None if value is DELETED else value\n",
        (FOLLOWER,),
    ),
    Mutant(
        "compared-bad-leader-answers",
        "what is in flight at a leader with a bad image stays unknown",
        WATCH,
        "        self._proposer.give_up()\n",
        "",
        (TESTS + "test_what_waits_at_a_leader_that_differs_is_unknown",),
    ),
    Mutant(
        "compared-bad-leader-stays",
        "a leader with a bad image steps down",
        WATCH,
        "        self._raft.resign(0.0)\n",
        "",
        (LEADER,),
    ),
    Mutant(
        "compared-bad-node-campaigns",
        "a node with a bad image does not campaign",
        "quorum/replica.py",
        "        return not self.watch.is_bad and self.electorate.may_vote\n",
        "        return self.electorate.may_vote\n",
        (TESTS + "test_a_node_with_a_bad_image_votes_and_does_not_campaign",),
    ),
    Mutant(
        "compared-bad-image-applied-to",
        "nothing is applied to a bad image",
        WATCH,
        "        self.must_stop = self._raft.is_frozen = True\n",
        "        self.must_stop = True\n",
        (FOLLOWER,),
    ),
    Mutant(
        "compared-bad-image-forgotten",
        "a bad image stays bad over a restart",
        WATCH,
        "        self._store.meta_put(BAD, msgspec.msgpack.encode(mark))\n",
        "",
        (TESTS + "test_a_bad_image_stays_bad_over_a_restart",),
    ),
    Mutant(
        "compared-mark-kept",
        "an image that was restored is sound at the next start, too",
        WATCH,
        "            self._store.meta_delete(name)\n",
        "            pass\n",
        (TESTS + "test_a_bad_image_stays_bad_over_a_restart",),
    ),
    Mutant(
        "compared-own-snapshots-believed",
        "snapshots of a bad image are set aside",
        "quorum/snapshotter.py",
        "            if manifest.version > version:\n",
        "            if manifest.version < 0:\n",
        (TESTS + "test_snapshots_of_a_bad_image_are_set_aside",),
    ),
    Mutant(
        "compared-any-snapshot-taken",
        "the snapshot that heals is of a node that a majority confirmed",
        WATCH,
        "        return confirmed_at is not None and confirmed_at >= self._mark.version\n",
        "        return True\n",
        (TESTS + "test_a_snapshot_of_a_node_that_no_majority_confirms_is_not_taken",),
    ),
    Mutant(
        "compared-doubtful-node-acknowledges",
        "a node to which a record does not apply acknowledges nothing",
        WATCH,
        "        return Behind(message.term, 0) if isinstance(message, AppendEntries) else message\n",
        "        return message\n",
        (TESTS + "test_a_node_to_which_a_record_does_not_apply_ends_and_comes_back_by_a_snapshot",),
    ),
    Mutant(
        "compared-doubt-without-end",
        "a record that applies by now ends the doubt",
        WATCH,
        "not self._mark.may_ack and self._applies_now():\n",
        "not self._mark.may_ack and False:\n",
        (TESTS + "test_a_record_that_applies_by_now_ends_the_doubt",),
    ),
    Mutant(
        "compared-last-digest-needs-everyone",
        "who agreed with a majority at the last version that has one is confirmed",
        REPORTS,
        "            if agreed is not None:\n                return version if agreed == digest else None\n",
        "            return version if agreed == digest else None\n",
        ("tests/quorum/test_reports.py" + CONFIRMED,),
    ),
    Mutant(
        "compared-last-report-alone",
        "an ack has the reports since the ack before",
        WATCH,
        "        earlier = self._earlier(peer, report) if report is not None else []\n",
        "        earlier = []\n",
        (COVERED,),
    ),
    Mutant(
        "compared-earlier-reports-passed-over",
        "the reports of an ack are all heard",
        WATCH,
        "                for each in (*message.earlier, report):\n",
        "                for each in (report,):\n",
        (COVERED,),
    ),
    Mutant(
        "compared-last-reports-passed-on",
        "a follower gets each report that the leader has heard",
        WATCH,
        "        left = [each for each in unsent if each not in newest]\n",
        "        left = []\n",
        (TESTS + "test_the_leader_passes_on_all_that_a_follower_reported",),
    ),
    Mutant(
        "compared-lost-reports-stay-lost",
        "reports are repeated on a new connection",
        WATCH,
        "        self._said.pop(peer, None)\n",
        "",
        (TESTS + "test_a_report_that_was_lost_with_its_connection_comes_again",),
    ),
    Mutant(
        "compared-late-report-is-the-last",
        "the last report is that of the highest version",
        REPORTS,
        "        if is_late:\n",
        "        if False:\n",
        (IN_ORDER,),
    ),
    Mutant(
        "compared-reports-of-no-image",
        "a node that applies entries again has not reported the later ones",
        REPORTS,
        "        if version in of_node:\n",
        "        if False:\n",
        (
            "tests/quorum/test_reports.py::test_a_node_that_applies_entries_again_has_not_reported_the_later_ones",
        ),
    ),
    Mutant(
        "compared-too-many-reports",
        "a message has at most so many reports as its reader takes",
        WATCH,
        "reports=[*left, *newest][-REPORTS_MAX:])\n",
        "reports=[*left, *newest])\n",
        (TESTS + "test_reports_in_one_message_are_bounded",),
    ),
    Mutant(
        "scrub-never-begins",
        "rows that change in a running node's store are found",
        WATCH,
        "        if not self.is_bad and not self._store.scrub_rows(SCRUB_ROWS):\n",
        "        if False:\n",
        (SCRUBBED + "test_a_row_that_changes_in_the_store_is_found_by_the_scrub",),
    ),
    Mutant(
        "scrub-forgets-what-is-written-behind-it",
        "a row that is written behind the scrub's cursor changes the scrub's sum",
        "snapshots/image.py",
        "                    passed += difference\n",
        "                    pass\n",
        (ROWS + "::test_rows_that_are_written_during_a_pass_are_no_damage", STORMS),
    ),
    Mutant(
        "scrub-goes-on-in-another-image",
        "an image of another generation is scrubbed from its first row",
        "snapshots/scrub.py",
        "        if self.cursor[:GENERATION_BYTES] != prefix:\n",
        "        if False:\n",
        (ROWS + "::test_an_image_of_another_generation_is_scrubbed_from_its_first_row",),
    ),
    Mutant(
        "scrub-copies-unsealed-rows",
        "a snapshot is of rows that have their checksum",
        "quorum/snapshotter.py",
        "                require_sealed(reader)\n",
        "",
        (SCRUBBED + "test_a_snapshot_is_not_made_of_rows_that_changed",),
    ),
    Mutant(
        "compared-operators-word-ignored",
        "the snapshot is of the node that the operator trusts, and of no other one",
        WATCH,
        "            return peer == self._trusted\n",
        "            pass\n",
        (
            TESTS + "test_an_operator_says_whose_image_is_right",
            TESTS + "test_the_operators_word_is_of_one_node_only",
        ),
    ),
)
