"""H5 to H8 and H11 to H15 of docs/raft-hazards.md. The mutants of the other hazards are in the catalogue."""

from typing import Final

from tests.mutants.mutant import Mutant

FIREWALL: Final = "tests/quorum/test_firewall.py::"
JOURNAL: Final = "tests/quorum/test_journal.py::"
PROPOSER: Final = "tests/quorum/test_proposer.py::"
RAFT_LOG: Final = "tests/quorum/test_raft_log.py::"
SNAPSHOTS: Final = "tests/quorum/test_snapshots.py::"

HAZARDS: Final = (
    Mutant(
        "old-snapshot-installed",
        "a snapshot that is older than the image is not installed (H5)",
        "quorum/snapshot_receiver.py",
        "        if not self._voter.watch.lacks(manifest.raft_index):\n            self._answer(",
        "        if False:\n            self._answer(",
        (SNAPSHOTS + "test_h5_a_snapshot_older_than_the_image_is_not_installed",),
    ),
    Mutant(
        "snapshot-clears-the-journal",
        "an installed snapshot keeps the entries after it that it agrees with (H5)",
        "quorum/journal.py",
        "        if self.term_at(index) == term if self._entries else False:",
        "        if False:",
        (JOURNAL + "test_a_snapshot_keeps_the_suffix_that_it_agrees_with",),
    ),
    Mutant(
        "snapshot-unverified",
        "a received snapshot is used when every byte of it is verified (H6)",
        "quorum/snapshot_receiver.py",
        "        snapshot.verify(part)\n        snapshot.publish(part, final)\n        self.install(final)",
        "        snapshot.publish(part, final)\n        self._voter.answer(\n"
        "            self._from or self._voter.config.node_id,\n"
        "            Ack(self._voter.raft.term, manifest.raft_index + 1, reset=False, success=True),\n"
        "        )\n"
        "        self.install(final)",
        (SNAPSHOTS + "test_h6_a_flipped_byte_on_the_way_is_refused_and_nothing_is_acknowledged",),
    ),
    Mutant(
        "core-compacts",
        "the Raft core's own dump and compaction are switched off (H7)",
        "quorum/raft_log.py",
        "    def _SyncObj__tryLogCompaction(self) -> None:",
        "    def _switched_off(self) -> None:",
        (RAFT_LOG + "test_h7_nothing_is_dumped_or_compacted_by_it",),
    ),
    Mutant(
        "compaction-in-two-transactions",
        "compaction is in one transaction with what it deletes (H8)",
        "quorum/journal.py",
        "        for command, index, _ in self._entries[:count]:\n",
        "        self._store.txn.drop(self._store.journal_db, delete=False)\n"
        "        self._store.dirty = True\n"
        "        self._store.commit()\n"
        "        for command, index, term in self._entries[count:]:\n"
        "            self._put(command, index, term)\n"
        "        for command, index, _ in self._entries[:count]:\n",
        (JOURNAL + "test_h8_a_kill_in_a_compaction_leaves_the_journal_of_the_last_flush",),
    ),
    Mutant(
        "forwarding",
        "a command that pysyncobj would forward to the leader is our bug (H11)",
        "quorum/firewall.py",
        '        raise InvariantViolation(f"pysyncobj sent {kind!r}: forwarding ',
        '        return None and InvariantViolation(f"pysyncobj sent {kind!r}: forwarding ',
        (FIREWALL + "test_what_was_switched_off_halts_if_it_is_sent_after_all[forwarding]",),
    ),
    Mutant(
        "core-queue-runs",
        "what comes into pysyncobj's own queue of commands is neither appended nor forwarded (H11)",
        "quorum/raft_log.py",
        "    def _checkCommandsToApply(self) -> None:  # noqa: N802\n",
        "    def _unused(self) -> None:\n",
        (PROPOSER + "test_h11_what_comes_into_the_cores_own_queue_is_never_appended_nor_forwarded",),
    ),
    Mutant(
        "apply-swallows",
        "an exception while an entry is applied reaches the driver (H12)",
        "quorum/raft_log.py",
        "            if self._on_committed(index, Term(term), command):\n                break\n",
        "            try:\n                self._on_committed(index, Term(term), command)\n"
        "            except Exception:\n                return True\n",
        (
            PROPOSER
            + "test_h12_an_exception_while_an_entry_is_applied_reaches_the_driver_and_is_not_tried_again",
        ),
    ),
    Mutant(
        "membership-entries",
        "entries that change the members or the code version are refused (H13)",
        "quorum/messages.py",
        'if command[:1] not in (b"\\x00", b"\\x01"):',
        'if command[:1] not in (b"\\x00", b"\\x01", b"\\x02", b"\\x03"):',
        ("tests/quorum/test_messages.py::test_anything_else_is_corrupt",),
    ),
    Mutant(
        "pickle",
        "no byte reaches pickle (H14)",
        "quorum/raft_log.py",
        "    core.pickle = _NoPickle()\n",
        "",
        (RAFT_LOG + "test_h14_pickle_is_out_of_reach",),
    ),
    Mutant(
        "large-entry-in-chunks",
        "the largest entry fits into one message (H15)",
        "quorum/raft_log.py",
        "            appendEntriesBatchSizeBytes=4 * 1024 * 1024,",
        "            appendEntriesBatchSizeBytes=2 * 1024 * 1024,",
        (RAFT_LOG + "test_h15_the_largest_entry_reaches_a_follower_whole",),
    ),
    Mutant(
        "chunks-leave",
        "an entry in chunks never leaves (H15)",
        "quorum/firewall.py",
        '        invariant("transmission" not in message, "pysyncobj split an entry into chunks")\n',
        "",
        (FIREWALL + "test_what_was_switched_off_halts_if_it_is_sent_after_all[chunked-entry]",),
    ),
)
