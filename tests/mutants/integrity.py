"""What is broken on purpose in the checksums over a node's store."""

from typing import Final

from tests.mutants.mutant import Mutant

LEVELS: Final = "tests/snapshots/test_seal_levels.py::"
TESTS: Final = "tests/quorum/test_integrity.py::"
VALUES: Final = TESTS + "test_a_flipped_byte_of_a_value_is_never_believed"
OF_BROKER: Final = "tests/broker/test_partitions.py::"
CLEAN_END: Final = OF_BROKER + "test_a_clean_end_is_recorded_until_logs_are_opened_again"
OF_VOTER: Final = "tests/quorum/test_clean_shutdown.py::"
SUMS: Final = "tests/snapshots/test_sums.py::"
STORMS: Final = "tests/simulation/test_flip_storms.py::test_damaged_stores_give_no_wrong_answer"

OLDER: Final = "tests/quorum/test_older_store.py::"
GENERATIONS: Final = "tests/snapshots/test_generations.py::"
COPIES: Final = "tests/snapshots/test_seal_copies.py::"
HOLES: Final = "tests/snapshots/test_archive_holes.py::"
OLDER_SNAPSHOT: Final = (
    "tests/quorum/test_lost_image.py::test_a_snapshot_older_than_the_journal_takes_nothing_of_it"
)

INTEGRITY: Final = (
    Mutant(
        "integrity-a-gap-believed",
        "a journal that lacks an entry is a lost store",
        "quorum/journal.py",
        "            if self._entries and index != self._entries[-1][1] + 1:\n",
        "            if False:\n",
        ("tests/quorum/test_journal.py::test_a_gap_on_disk_halts_the_start",),
    ),
    Mutant(
        "integrity-older-store-believed",
        "a store that is older than its archive is a lost store",
        "quorum/older_store.py",
        "        if end > max(possible[log], noted.get(int(log), 0)):\n",
        "        if False:\n",
        (OLDER + "test_an_older_copy_of_the_store_is_a_lost_store",),
    ),
    Mutant(
        "integrity-archive-of-another-store-counts",
        "a new store notes where an old archive ended",
        "quorum/older_store.py",
        "    meta.meta_put(AHEAD, msgspec.msgpack.encode({int(log): end for log, end in ends.items()}))\n",
        "    msgspec.msgpack.encode(ends)\n",
        (OLDER + "test_a_new_store_beside_an_old_archive_notes_where_that_ended",),
    ),
    Mutant(
        "integrity-a-hole-is-a-batch",
        "the end of a hole says nothing of the store",
        "quorum/older_store.py",
        "    return holes[-1].first if holes and holes[-1].end == archive.end else archive.end\n",
        "    return archive.end\n",
        (OLDER + "test_a_new_store_beside_an_old_archive_notes_where_that_ended",),
    ),
    Mutant(
        "integrity-journal-is-no-excuse",
        "what the journal has may be in the archive",
        "quorum/older_store.py",
        "                possible[log] += batch_of.end - batch_of.base_offset\n",
        "                possible[log] += 0\n",
        (OLDER + "test_an_archive_ahead_of_the_image_but_not_of_the_journal_is_a_crash",),
    ),
    Mutant(
        "integrity-sealed-value-of-another-name",
        "a sealed value in the place of another's is none",
        "snapshots/sums.py",
        "    except msgspec.DecodeError:\n        return None\n",
        "    except ZeroDivisionError:\n        return None\n",
        ("tests/snapshots/test_sums.py::test_the_sealed_value_of_another_name_says_nothing",),
    ),
    Mutant(
        "integrity-bad-holes-file-stops-the-node",
        "a holes.json that cannot be read is made again of the segments",
        "snapshots/archive_recovery.py",
        "            gaps = gaps_between(tuple(self.segments))[-HOLES_MAX:]\n",
        "            gaps = ()\n",
        (HOLES + "test_a_bad_holes_file_is_named_and_made_again",),
    ),
    Mutant(
        "clean-shutdown-outlives-its-logs",
        "logs that are open are not those of a clean end",
        "snapshots/clean_shutdown.py",
        "        (directory / CLEAN_SHUTDOWN_FILE).unlink()\n",
        "        (directory / CLEAN_SHUTDOWN_FILE).stat()\n",
        (CLEAN_END, OF_VOTER + "test_the_archive_of_a_voter_that_ended_cleanly_says_so_until_it_starts"),
    ),
    Mutant(
        "clean-shutdown-with-a-lost-log",
        "a log that was lost is not one that was closed",
        "broker/partitions.py",
        "        unclean = {lost.path.parent for lost in self._offline.values() if lost.path is not None}\n",
        "        unclean: set[Path] = set()\n",
        (CLEAN_END,),
    ),
    Mutant(
        "clean-shutdown-unflushed",
        "a log that could not be flushed did not end cleanly",
        "broker/partitions.py",
        "                    unclean.add(partition.log.directory.parent)\n",
        "                    pass\n",
        (OF_BROKER + "test_no_end_is_recorded_where_a_log_was_not_flushed",),
    ),
    Mutant(
        "integrity-image-believed",
        "an image whose rows do not have the sealed sum is forgotten",
        "quorum/opened_store.py",
        "    elif verdict is Verdict.DAMAGED:\n",
        "    elif verdict is None:\n",
        (VALUES + "[image]", TESTS + "test_swapped_rows_are_never_believed", STORMS),
    ),
    Mutant(
        "integrity-keys-not-hashed",
        "a row's key is under the sum",
        "snapshots/sums.py",
        '    content = b"".join((_LENGTHS[len(key)], key[GENERATION_BYTES:], value))\n',
        "    content = value\n",
        (SUMS + "test_the_sum_is_that_of_the_rows_whatever_was_written",),
    ),
    Mutant(
        "integrity-keys-not-read",
        "a start sums the rows as they were summed when they were written",
        "snapshots/sums.py",
        "hasher.update(lengths[len(key)] + key[at:] + value)",
        "hasher.update(lengths[len(key)] + value)",
        (SUMS + "test_the_sum_is_that_of_the_rows_whatever_was_written",),
    ),
    Mutant(
        "integrity-another-generation-believed",
        "which generation the image is, the seal says",
        "quorum/opened_store.py",
        "    verdict = store.verify_image()  # the seal says which rows are the image's\n"
        "    if store.forget_lost_image():\n",
        "    is_lost = store.forget_lost_image()\n    verdict = store.verify_image()\n    if is_lost:\n",
        (TESTS + "test_a_generation_that_changed_is_put_right_by_the_seal[40]",),
    ),
    Mutant(
        "integrity-any-number-is-a-generation",
        "a generation that no image can have is none",
        "snapshots/rows.py",
        "        return 0 if raw is None else msgspec.msgpack.decode(raw, type=Generation)\n",
        "        return 0 if raw is None else msgspec.msgpack.decode(raw, type=int)\n",
        (TESTS + "test_without_a_seal_an_image_of_another_generation_is_made_again[ff]",),
    ),
    Mutant(
        "integrity-meta-not-restored",
        "what of meta differs from the seal is put right",
        "snapshots/store.py",
        "        if seal is not None and seal.is_of(meta):\n",
        "        if seal is None and meta is None:\n",
        (VALUES + "[meta]",),
    ),
    Mutant(
        "seal-of-what-is-there",
        "a commit seals what was written, not what the disk made of it",
        "snapshots/store.py",
        "Seal(dict(sorted(self._sealed.items())), self.rows_sum)",
        "Seal(self._meta(), self.rows_sum)",
        (
            "tests/snapshots/test_seal_copies.py::test_what_changes_on_the_disk_while_a_node_runs_is_not_sealed",
        ),
    ),
    Mutant(
        "integrity-seal-copy-not-read",
        "a seal with a flipped bit costs nothing: its copy counts",
        "snapshots/sums.py",
        "    seal = read_seal(copy)\n",
        "    seal = None\n",
        (COPIES + "test_both_are_written_again_where_one_has_a_flipped_bit",),
    ),
    Mutant(
        "integrity-broken-seal-is-none",
        "an image whose seal cannot be read is not one that was never sealed",
        "snapshots/sums.py",
        '        raise SealBroken("its seal cannot be read, and there is no copy of that")\n',
        "        return None\n",
        (
            COPIES + "test_a_flipped_bit_of_a_seal_is_no_excuse",
            COPIES + "test_a_broken_seal_that_never_had_a_copy_is_damage",
            COPIES + "test_rows_are_copied_under_a_seal_alone",
        ),
    ),
    Mutant(
        "integrity-seal-copy-of-another-image",
        "a copy that an earlier version left behind is no seal of what it wrote",
        "snapshots/sums.py",
        "    if seal is None or not seal.is_of(meta):\n        raise",
        "    if seal is None:\n        raise",
        (COPIES + "test_a_copy_that_an_earlier_version_left_behind_is_no_seal_of_another_image",),
    ),
    Mutant(
        "integrity-one-seal-stays-broken",
        "a start writes both seals again where one is not as the other",
        "snapshots/store.py",
        "        self._must_seal = seal is None or raw != copy or not self.sums_hold\n",
        "        self._must_seal = seal is None or not self.sums_hold\n",
        (COPIES + "test_both_are_written_again_where_one_has_a_flipped_bit",),
    ),
    Mutant(
        "integrity-ballot-not-read",
        "term and vote are those of their copy",
        "snapshots/sums.py",
        "    return (term, vote) if goes_on else kept\n",
        "    return term, vote\n",
        ("tests/snapshots/test_sums.py::test_term_and_vote_are_those_of_the_copy",),
    ),
    Mutant(
        "integrity-entries-believed",
        "a journal entry with a wrong checksum is a lost store",
        "quorum/journal.py",
        " or known not in (None, summed):\n",
        ":\n",
        (VALUES + "[journal]", STORMS),
    ),
    Mutant(
        "integrity-cut-tail-believed",
        "a journal that ends before its last checksum lost an entry",
        "quorum/journal.py",
        'txn.stat(sums)["entries"] != summed_entries',
        'txn.stat(sums)["entries"] < summed_entries',
        (TESTS + "test_an_entry_that_is_gone_is_a_lost_store",),
    ),
    Mutant(
        "integrity-earlier-version-is-damage",
        "what an earlier version wrote is taken as it is",
        "snapshots/sums.py",
        "    return unsealed if _is_newer(seal.meta, now.meta) else Verdict.DAMAGED\n",
        "    return Verdict.DAMAGED\n",
        ("tests/snapshots/test_sums.py::test_what_is_judged",),
    ),
    Mutant(
        "integrity-seal-gone-at-its-level",
        "at a level whose versions all seal a store without a seal is damaged",
        "snapshots/store.py",
        "must_be_sealed=must_be_sealed)",
        "must_be_sealed=False)",
        (LEVELS + "test_a_seal_that_is_gone_is_damage_from_its_level_on",),
    ),
    Mutant(
        "integrity-unsealed-rows-copied",
        "at such a level no snapshot is made of rows without a seal",
        "snapshots/sums.py",
        "    if seal is None and is_always_sealed(reader):\n",
        "    if False:\n",
        (LEVELS + "test_no_snapshot_is_made_without_a_seal_from_its_level_on",),
    ),
    Mutant(
        "integrity-level-row-believed",
        "a level's row that does not decode was written by no version",
        "snapshots/sums.py",
        "        return True  # no version wrote such a row\n",
        "        return False\n",
        (LEVELS + "test_a_level_that_makes_no_sense_is_damage",),
    ),
    Mutant(
        "integrity-old-row-stays-in-the-sum",
        "a row that is overwritten leaves the sum",
        "snapshots/image.py",
        "                    difference -= row_hash(at, bytes(before))\n",
        "                    pass\n",
        ("tests/snapshots/test_sums.py::test_the_sum_is_that_of_the_rows_whatever_was_written",),
    ),
    Mutant(
        "integrity-installed-rows-not-summed",
        "a snapshot's rows are under the sum of the image that they become",
        "snapshots/store.py",
        "            self._filled_sum += hashed\n",
        "            pass\n",
        ("tests/snapshots/test_sums.py::test_the_sum_of_an_installed_image_is_that_of_its_rows",),
    ),
    Mutant(
        "integrity-latest-ids-read-again",
        "the latest producer ids stay in memory, whatever became of their row",
        "snapshots/image.py",
        "            if oldest[0] == PRODUCER_IDS.name:",
        "            if False:",
        ("tests/snapshots/test_store.py::test_the_latest_producer_ids_are_not_read_again",),
    ),
    Mutant(
        "integrity-rows-of-another-generation",
        "rows of another generation are no rows of the image",
        "snapshots/store.py",
        "cursor.set_range(own) and bytes(cursor.key()).startswith(own)",
        "cursor.set_range(own)",
        (
            "tests/snapshots/test_store.py::test_an_image_without_a_row_of_its_generation_is_lost",
            GENERATIONS + "test_an_installed_image_whose_generation_was_not_written_is_lost",
        ),
    ),
    Mutant(
        "integrity-older-snapshot-takes-the-journal",
        "a start installs no snapshot that the journal does not follow",
        "quorum/snapshotter.py",
        "                if manifest.raft_index < self._voter.journal.first_index:\n",
        "                if False:\n",
        (OLDER_SNAPSHOT,),
    ),
    Mutant(
        "integrity-journal-goes-with-an-older-snapshot",
        "no snapshot from before the journal takes its place",
        "quorum/journal.py",
        '        invariant(index >= first, "a snapshot older',
        '        invariant(index >= 0, "a snapshot older',
        (OLDER_SNAPSHOT,),
    ),
    Mutant(
        "integrity-first-store-believed",
        "a store as it was before its first entry is no new one",
        "quorum/archiver.py",
        "        if is_empty and not is_noted(store):\n",
        "        if is_empty:\n",
        (OLDER + "test_the_store_as_it_was_before_its_first_entry_is_a_lost_store",),
    ),
    Mutant(
        "integrity-earlier-mark-believed",
        "a mark of the archive that the journal does not reach back to is another one than was written",
        "quorum/older_store.py",
        "    if mark[0] < journal.first_index:",
        "    if False:",
        (OLDER + "test_a_store_with_an_earlier_mark_of_its_archive_is_a_lost_store",),
    ),
)
