"""What is broken on purpose in what lies on the disk: flushes and their order, snapshots, verify, starts."""

from typing import Final

from tests.mutants.mutant import Mutant

FLUSHED: Final = "tests/snapshots/test_flushed.py::"
GENERATIONS: Final = "tests/snapshots/test_generations.py::"
REFUSALS: Final = "tests/quorum/test_snapshot_refusals.py::"
VERIFY: Final = "tests/cli/test_storage_verify.py::"
DESCRIBED: Final = "tests/cli/test_commands.py::"
LEARNER: Final = (
    "tests/quorum/test_snapshot_refusals.py::test_what_a_learner_held_under_an_earlier_leader_is_forgotten"
)
JOURNAL_BYTES: Final = "tests/quorum/test_journal.py::test_its_bytes_shrink_with_what_it_forgets_and_cuts"

SNAPSHOTS: Final = (
    Mutant(
        "snapshot-file-not-flushed",
        "the files of a snapshot are on the disk before it has its name",
        "snapshots/snapshot.py",
        "        stream.flush()\n        flush(stream.fileno(), path)\n",
        "        stream.flush()\n",
        (FLUSHED + "test_a_snapshot_is_flushed_before_it_has_its_name_and_its_name_after",),
    ),
    Mutant(
        "snapshot-folder-not-flushed",
        "the names of a snapshot's files are on the disk before it has its own",
        "snapshots/snapshot.py",
        "    sync_directory(part)\n    os.rename",
        "    os.rename",
        (FLUSHED + "test_a_snapshot_is_flushed_before_it_has_its_name_and_its_name_after",),
    ),
    Mutant(
        "snapshot-name-not-flushed",
        "a snapshot that counts is there after a crash",
        "snapshots/snapshot.py",
        "    os.rename(part, final)\n    sync_directory(final.parent)\n",
        "    os.rename(part, final)\n",
        (FLUSHED + "test_a_snapshot_is_flushed_before_it_has_its_name_and_its_name_after",),
    ),
    Mutant(
        "snapshot-of-half-a-generation",
        "rows of an installation that was killed are in no later image",
        "snapshots/store.py",
        "        return max(int(last), self.generation) + 1\n",
        "        return self.generation + 1\n",
        (GENERATIONS + "test_rows_of_an_installation_that_was_killed_are_not_in_the_next_one",),
    ),
    Mutant(
        "snapshot-flips-without-its-header",
        "an installed image and its header are one commit",
        "snapshots/store.py",
        "        self.rows_sum = self._filled_sum % MODULUS\n        self.image.save()\n",
        "        self.rows_sum = self._filled_sum % MODULUS\n",
        (GENERATIONS + "test_a_flip_takes_its_header_along_whatever_commits_it",),
    ),
    Mutant(
        "snapshot-unsealed-for-ever",
        "an image that an earlier version wrote is sealed by the next commit",
        "snapshots/store.py",
        "        self._must_seal = seal is None or not self.sums_hold\n",
        "        self._must_seal = False\n",
        (GENERATIONS + "test_an_image_without_a_seal_is_sealed_by_the_next_commit",),
    ),
    Mutant(
        "snapshot-of-another-cluster-installed",
        "a start installs no snapshot of another cluster",
        "quorum/snapshotter.py",
        "            if manifest.cluster_id != self._voter.config.cluster_id:\n",
        "            if False:\n",
        (REFUSALS + "test_a_snapshot_of_another_cluster_is_refused_at_the_start",),
    ),
    Mutant(
        "snapshot-of-another-cluster-received",
        "a follower takes no snapshot of another cluster",
        "quorum/snapshot_receiver.py",
        "        if manifest.cluster_id != self._voter.config.cluster_id or manifest.name != message.name:\n",
        "        if manifest.name != message.name:\n",
        (REFUSALS + "test_a_snapshot_of_another_cluster_is_refused_when_it_is_offered",),
    ),
    Mutant(
        "snapshot-of-a-bad-image-taken",
        "a node with a bad image takes no snapshot of it",
        "quorum/snapshotter.py",
        " and not self._receiver.installing and not voter.watch.is_bad\n",
        " and not self._receiver.installing\n",
        (REFUSALS + "test_no_snapshot_is_taken_of_a_bad_image",),
    ),
    Mutant(
        "snapshot-by-hand-has-an-old-name",
        "a snapshot by hand is named by the ends of all logs",
        "cli/snapshot.py",
        "        final = aside.with_name(directories.read_manifest(aside).full_name)\n",
        "        final = aside.with_name(directories.read_manifest(aside).name)\n",
        (DESCRIBED + "test_a_snapshot_is_of_now_though_only_another_log_has_moved",),
    ),
    Mutant(
        "snapshots-by-hand-unbounded",
        "of the snapshots by hand so many are kept as it is said",
        "cli/snapshot.py",
        "    gone = older[KEPT_MAX - 1 :]\n",
        "    gone = older[KEPT_MAX:]\n",
        (DESCRIBED + "test_snapshots_by_hand_have_a_bound_and_the_nodes_own_stay",),
    ),
    Mutant(
        "archive-hole-not-flushed",
        "a hole is named on the disk before anything follows it",
        "snapshots/flushes.py",
        "        file.flush()\n        flush(file.fileno(), path)\n",
        "        file.flush()\n",
        (FLUSHED + "test_a_hole_is_named_on_the_disk_before_anything_follows_it",),
    ),
    Mutant(
        "archive-hole-name-not-flushed",
        "a hole is still named after a crash",
        "snapshots/archive.py",
        " / HOLES_FILE)\n        sync_directory(self._directory)\n",
        " / HOLES_FILE)\n",
        (FLUSHED + "test_a_hole_is_named_on_the_disk_before_anything_follows_it",),
    ),
    Mutant(
        "archive-names-not-flushed",
        "a new segment's name is flushed with it",
        "snapshots/archive.py",
        "            if directory_dirty:\n",
        "            if False:\n",
        (FLUSHED + "test_a_new_segment_and_its_name_are_flushed",),
    ),
    Mutant(
        "archive-of-a-killed-process-not-flushed",
        "what a killed process wrote is flushed before it counts as safe",
        "snapshots/archive.py",
        "            flush(descriptor, segment.path)\n            file = _File",
        "            file = _File",
        (FLUSHED + "test_what_a_killed_process_wrote_is_flushed_before_it_counts_as_safe",),
    ),
    Mutant(
        "archive-deletion-not-flushed",
        "a deleted segment does not come back without its hole",
        "snapshots/archive.py",
        "            sync_directory(self._directory)  # a deleted segment must not come back",
        "            pass  # a deleted segment must not come back",
        (FLUSHED + "test_a_deleted_segment_does_not_come_back_without_its_hole",),
    ),
    Mutant(
        "archive-gap-not-named",
        "what an archive lacks at a start is a named hole",
        "quorum/archiver.py",
        "            if archive.end < end:\n",
        "            if False:\n",
        (REFUSALS + "test_what_an_archive_lacks_is_a_named_hole_after_a_start",),
    ),
    Mutant(
        "clean-end-comes-back",
        "logs that are open are not those of a clean end, after a crash of the machine, too",
        "snapshots/clean_shutdown.py",
        "    except FileNotFoundError:\n        return\n    sync_directory(directory)\n",
        "    except FileNotFoundError:\n        return\n",
        (FLUSHED + "test_a_clean_end_is_recorded_and_forgotten_on_the_disk",),
    ),
    Mutant(
        "bad-mark-outlives-its-image",
        "an image that is made again is not marked as bad",
        "quorum/opened_store.py",
        "            store.meta_delete(BAD)  # it is gone, and what follows is made of the journal\n",
        "            pass\n",
        (REFUSALS + "test_the_mark_of_a_bad_image_goes_with_it",),
    ),
    Mutant(
        "journal-bytes-only-grow",
        "the journal's bytes shrink with what it forgets",
        "quorum/journal.py",
        "            self.bytes -= len(command)\n        del self._entries[:count]\n",
        "        del self._entries[:count]\n",
        (JOURNAL_BYTES,),
    ),
    Mutant(
        "journal-bytes-of-cut-entries",
        "the journal's bytes shrink with what is cut off",
        "quorum/journal.py",
        "            self._delete(cut_index)\n            self.bytes -= len(command)\n",
        "            self._delete(cut_index)\n",
        (JOURNAL_BYTES,),
    ),
    Mutant(
        "learner-match-outlives-its-leadership",
        "what a learner held under an earlier leadership readmits it under no later one",
        "quorum/replica.py",
        "            self.firewall.learner_match.clear()\n",
        "            pass\n",
        (LEARNER,),
    ),
)

VERIFIED: Final = (
    Mutant(
        "verify-image-not-judged",
        "verify reads the image's rows against their sum",
        "cli/storage_verify.py",
        "        if verdict is Verdict.DAMAGED:\n",
        "        if False:\n",
        (VERIFY + "test_a_byte_that_changed_is_found_in_its_part",),
    ),
    Mutant(
        "verify-writes",
        "verify changes no byte",
        "cli/storage_verify.py",
        "        store.abandon()\n",
        "        store.close()\n",
        (VERIFY + "test_no_byte_is_changed_though_the_store_has_no_seal",),
    ),
    Mutant(
        "verify-always-sound",
        "verify ends with another status where something is damaged",
        "cli/storage_verify.py",
        "        sys.exit(FINDINGS)\n",
        "        pass\n",
        (VERIFY + "test_a_byte_that_changed_is_found_in_its_part",),
    ),
    Mutant(
        "verify-signal-unseen",
        "a process that dies of a broken page is a finding",
        "cli/storage_verify.py",
        "    if os.WIFSIGNALED(status):\n",
        "    if False:\n",
        (VERIFY + "test_a_process_that_dies_of_a_broken_page_is_a_finding",),
    ),
    Mutant(
        "verify-partitions-sound",
        "verify names what is damaged in a partition's log",
        "cli/storage_verify.py",
        "    if found.damage is not None:\n        raise",
        "    if False:\n        raise",
        (VERIFY + "test_a_byte_that_changed_is_found_in_its_part",),
    ),
    Mutant(
        "start-sentence-without-its-file",
        "a start that fails names the file",
        "cli/node.py",
        '    return f"{os.fsdecode(error.filename)} cannot be used: {error.strerror.lower()}"\n',
        "    return error.strerror\n",
        ("tests/cli/test_node_start.py::test_one_sentence",),
    ),
    Mutant(
        "start-store-error-without-its-path",
        "a start that the store ends names the store",
        "cli/node.py",
        '    return f"{store} cannot be read or written: {error}; {free}"\n',
        '    return f"{error}; {free}"\n',
        ("tests/cli/test_node_start.py::test_one_sentence",),
    ),
    Mutant(
        "start-progress-not-logged",
        "a start with a long journal logs how far it is",
        "quorum/start_progress.py",
        "            self._log.info(self._event, at=place, of=self._total)\n",
        "            pass\n",
        ("tests/quorum/test_start_progress.py::test_the_journal_says_how_far_it_is_read",),
    ),
    Mutant(
        "archives-sealed-before-they-begin-again",
        "killed while an archive begins again, it begins again at the next opening",
        "snapshots/archive.py",
        "        if self.lost_its_start:  # nothing is touched",
        "        if False:  # nothing is touched",
        ("tests/snapshots/test_archive_crash.py::test_killed_while_it_begins_again_it_begins_again",),
    ),
    Mutant(
        "archives-begin-nowhere",
        "an archive that lost the names of its first segments is made again from the journal",
        "quorum/archiver.py",
        "                if archive.lost_its_start:\n",
        "                if False:\n",
        ("tests/quorum/test_archive_damage.py::test_an_archive_whose_first_names_were_lost_begins_again",),
    ),
)

ON_DISK: Final = (*SNAPSHOTS, *VERIFIED)
