"""Archives: what a disk changed is kept where the journal reaches no more, received snapshots are flushed."""

from typing import Final

from tests.mutants.mutant import Mutant

READING: Final = "tests/snapshots/test_archive_reading.py::TestReading::"
TESTS: Final = "tests/quorum/test_archive_damage.py::"
RECEIVED: Final = "tests/quorum/test_received_snapshots.py::"

ARCHIVES: Final = (
    Mutant(
        "archive-epochs-per-segment",
        "the first batch of a segment has no lower epoch than the one before it, which lies in another",
        "snapshots/segments.py",
        "scan_segment(segment, first, self._cleaned_end, epoch)",
        "scan_segment(segment, first, self._cleaned_end)",
        (READING + "test_an_epoch_that_changed_at_the_edge_of_a_segment_is_named",),
    ),
    Mutant(
        "archive-damage-cut",
        "a changed batch that the journal has no more is kept, with what lies behind it",
        "snapshots/archive.py",
        "            if end < self._flushed_end and not self._is_torn(number, position, end, error):\n",
        "            if False:\n",
        (TESTS + "test_a_changed_batch_before_the_mark_is_named_and_no_byte_is_cut",),
    ),
    Mutant(
        "archive-refilled-kept",
        "a changed batch that the journal has is cut and comes again",
        "snapshots/archive.py",
        "            if end < self._flushed_end and not self._is_torn(number, position, end, error):\n",
        "            if not self._is_torn(number, position, end, error):\n",
        (TESTS + "test_a_changed_batch_behind_the_mark_comes_again_from_the_journal",),
    ),
    Mutant(
        "archive-length-believed",
        "whole batches behind a length that grew prove that it is no torn tail",
        "snapshots/archive.py",
        "        return first_whole(self._segments[number].path.read_bytes(), position, end) is None\n",
        "        return True\n",
        (TESTS + "test_a_length_that_grew_is_no_torn_tail",),
    ),
    Mutant(
        "archive-gap-cut",
        "a segment behind one that is gone is kept",
        "snapshots/archive.py",
        "                if end < self._flushed_end:\n",
        "                if False:\n",
        (TESTS + "test_a_segment_that_is_gone_takes_no_other_with_it",),
    ),
    Mutant(
        "archive-of-a-lost-store-cut",
        "a node that lost its store cuts nothing of its archive but a torn tail",
        "quorum/archiver.py",
        "        is_new = raw is None and journal.last_index <= 1",
        "        is_new = False",
        (TESTS + "test_a_node_without_its_store_cuts_nothing_but_a_torn_tail_of_its_archive",),
    ),
    Mutant(
        "archive-end-before-the-mark",
        "an archive that lost its end before the mark goes on behind a hole",
        "quorum/archiver.py",
        "        self._jump(self._mark[1])\n",
        "",
        (TESTS + "test_an_archive_that_lost_its_end_before_the_mark_goes_on_behind_a_hole",),
    ),
    Mutant(
        "received-snapshot-not-flushed",
        "a received snapshot is on the disk before it has its name",
        "quorum/snapshot_receiver.py",
        "                flush(stream.fileno(), path)\n",
        "                pass\n",
        (RECEIVED + "test_a_received_snapshot_is_flushed_before_it_has_its_name",),
    ),
    Mutant(
        "received-refused-part-stays",
        "a transfer that is refused leaves nothing behind",
        "quorum/snapshot_receiver.py",
        "        self._manifest = None\n        self._drop_parts()\n",
        "        self._manifest = None\n",
        (RECEIVED + "test_a_transfer_that_is_refused_leaves_nothing_behind",),
    ),
    Mutant(
        "distrusted-snapshot-sent-on",
        "a node whose image is bad sends no more of a snapshot",
        "quorum/snapshotter.py",
        "        self._transfers.clear()\n        self._needed.clear()\n        self._last_index",
        "        self._needed.clear()\n        self._last_index",
        (RECEIVED + "test_a_node_whose_image_is_bad_sends_no_more_of_a_snapshot",),
    ),
    Mutant(
        "installed-and-not-said",
        "a follower says at once what it has installed",
        "quorum/snapshot_receiver.py",
        "            self._voter.answer(leader, Ack(self._voter.raft.term, matched + 1,",
        "            (Ack(self._voter.raft.term, matched + 1,",
        (RECEIVED + "test_a_follower_says_at_once_what_it_has_installed",),
    ),
    Mutant(
        "hurried-for-ever",
        "a candidate that lost its first election campaigns again",
        "quorum/raft_log.py",
        "            self._hurried = False\n            self._SyncObj",
        "            self._SyncObj",
        ("tests/quorum/test_raft_log.py::test_a_candidate_that_lost_campaigns_again",),
    ),
)
