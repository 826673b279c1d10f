"""What is broken on purpose in the reading of a store's pages before LMDB opens it."""

from typing import Final

from tests.mutants.mutant import Mutant

NODES: Final = "snapshots/page_nodes.py"
TESTS: Final = "tests/snapshots/test_store_pages.py::"
EACH_BIT: Final = (TESTS + "test_each_bit_of_what_lmdb_goes_by_is_found",)
OF_NUMBERS: Final = (
    TESTS + "test_a_transaction_of_a_meta_page_that_changed_does_not_bring_the_store_before_back",
)
ARCHIVE_SUMS: Final = ("tests/cli/test_archive_repair.py::test_sums_that_changed_are_named_and_made_again",)
JOURNAL_SUMS: Final = (
    "tests/quorum/test_integrity.py::test_a_checksum_with_another_key_or_that_is_gone_is_a_lost_store",
)
SUMS: Final = "tests/snapshots/test_archive_sums.py::"
RECEIVED: Final = "tests/quorum/test_received_snapshots.py::"
DAMAGE: Final = "tests/quorum/test_archive_damage.py::"
NAMED: Final = ("tests/quorum/test_integrity.py::test_what_of_meta_changed_is_named",)

PAGES: Final = (
    Mutant(
        "pages-not-read",
        "no page that breaks LMDB's rules is opened by it",
        "snapshots/store.py",
        "            require_sound_pages(directory)\n",
        "            pass\n",
        (TESTS + "test_a_store_with_a_broken_page_is_not_opened",),
    ),
    Mutant(
        "pages-lost-room-is-damage",
        "pages that nothing reaches are no damage",
        "snapshots/store_pages.py",
        "if not any(map(each.__contains__, _PASSED_OVER))",
        "if each",
        (TESTS + "test_pages_that_nothing_reaches_are_lost_room_and_no_damage",),
    ),
    Mutant(
        "pages-shorter-value-is-damage",
        "a value that its transaction wrote longer before keeps its pages, and is no damage",
        "snapshots/store_pages.py",
        '    "header mp_pages",  # these two: see page_nodes.py\n',
        "",
        (TESTS + "test_a_value_that_a_transaction_wrote_longer_before_is_no_damage",),
    ),
    Mutant(
        "pages-overflow-not-counted",
        "a table's overflow pages are as many as its record says",
        NODES,
        "    if overflow_pages != tree.overflow_pages:\n",
        "    if False:\n",
        (TESTS + "test_another_number_of_pages_of_a_value_is_damage",),
    ),
    Mutant(
        "pages-nodes-anywhere",
        "the nodes of a page lie one behind the other",
        NODES,
        "            if pointer != at:\n",
        "            if False:\n",
        EACH_BIT,
    ),
    Mutant(
        "pages-nodes-end-anywhere",
        "the nodes of a page lie to its end",
        NODES,
        "        if at != pages.size:\n",
        "        if False:\n",
        EACH_BIT,
    ),
    Mutant(
        "pages-any-flag-of-a-table",
        "a table has no flag",
        NODES,
        "    if tree.flags:\n",
        "    if False:\n",
        EACH_BIT,
    ),
    Mutant(
        "pages-any-flag-of-a-node",
        "a node has no flag but those of a value that overflows and of a table's record",
        NODES,
        "            elif flags == OVERFLOWS:\n",
        "            elif flags & OVERFLOWS:\n",
        EACH_BIT,
    ),
    Mutant(
        "pages-half-a-pointer",
        "pointers take two bytes each",
        NODES,
        " or lower % 2:",
        ":",
        EACH_BIT,
    ),
    Mutant(
        "pages-transaction-of-the-newest",
        "the newest meta page is of the transaction that its free list names last",
        NODES,
        "newest if last not in (None, newest.transaction) else earlier",
        "earlier",
        OF_NUMBERS,
    ),
    Mutant(
        "pages-transaction-of-the-earlier",
        "the earlier meta page is of an earlier transaction, by what its free list names last, too",
        NODES,
        "before is not None and before > newest.transaction",
        "False",
        OF_NUMBERS,
    ),
    Mutant(
        "pages-earlier-free-list-believed",
        "the earlier meta page may lead anywhere",
        NODES,
        "is_list = key == _NUMBER.size and ",
        "is_list = True or ",
        (TESTS + "test_the_earlier_free_list_may_lead_to_any_page",),
    ),
    Mutant(
        "pages-journal-sums-uncompared",
        "each checksum of the journal is that of an entry, and only the last entries may have none",
        "quorum/journal.py",
        'txn.stat(sums)["entries"] != summed_entries',
        "False",
        JOURNAL_SUMS,
    ),
    Mutant(
        "pages-journal-sums-any-gap",
        "only the last entries may have no checksum",
        "quorum/journal.py",
        " or (unknown and unknown[0][0] != first_unknown):",
        ":",
        JOURNAL_SUMS,
    ),
    Mutant(
        "meta-put-right-unsaid",
        "a value of meta that is put right by the seal is named",
        "snapshots/store.py",
        "                    self.mended.append(name)\n",
        "",
        NAMED,
    ),
    Mutant(
        "meta-stray-names-unsaid",
        "a name of meta that the seal does not know is named",
        "snapshots/store.py",
        "            self.mended += sorted(meta.keys() - seal.meta.keys())",
        "            pass",
        NAMED,
    ),
    Mutant(
        "meta-broken-seals-unsaid",
        "a seal, or the copy of it, that is broken is named",
        "snapshots/store.py",
        "        self.mended += (name for name, found in seals.items()",
        "        self.mended += (name for name, found in ()",
        NAMED,
    ),
    Mutant(
        "meta-broken-ballot-unsaid",
        "a copy of term and vote that is broken is named",
        "quorum/journal.py",
        "            self._store.mended.append(BALLOT)\n",
        "            pass\n",
        NAMED,
    ),
    Mutant(
        "meta-ballot-unsaid",
        "a term or vote that is not as its copy is named",
        "quorum/journal.py",
        ' += () if by_earlier else ("raft.term, raft.vote",)',
        " += ()",
        NAMED,
    ),
    Mutant(
        "meta-snapshot-of-any-header",
        "a snapshot is made of the header and the applied index that were sealed",
        "snapshots/sums.py",
        '    if not seal.is_of(meta):\n        raise SealBroken("its header or',
        '    if False:\n        raise SealBroken("its header or',
        ("tests/snapshots/test_seal_copies.py::test_rows_are_copied_under_a_seal_alone",),
    ),
    Mutant(
        "archive-epochs-of-the-journal-unread",
        "an epoch in the archive that is not summed is the one that the journal says",
        "quorum/archiver.py",
        "                epoch_at=epochs[log].at,\n",
        "",
        (DAMAGE + "test_an_epoch_that_changed_behind_the_mark_comes_again_from_the_journal",),
    ),
    Mutant(
        "archive-refilled-only-where-each-lacks-some",
        "what the image has and the archive lacks is refilled",
        "quorum/archiver.py",
        "        lacks = any(",
        "        lacks = all(",
        (DAMAGE + "test_an_epoch_that_changed_behind_the_mark_comes_again_from_the_journal",),
    ),
    Mutant(
        "partition-sums-changed-unsaid",
        "sums of a partition's segment that changed are named by the scrub",
        "broker/log_scrub.py",
        "return None if torn is None else (SUMS_CHANGED, torn)",
        "return None",
        ("tests/broker/test_log_scrub.py::test_sums_that_changed_are_named_and_made_again",),
    ),
    Mutant(
        "partition-sums-changed-stay",
        "sums of a partition's segment that changed are saved again",
        "broker/log_scrub.py",
        "                if event == SUMS_CHANGED:\n",
        "                if False:\n",
        ("tests/broker/test_log_scrub.py::test_sums_that_changed_are_named_and_made_again",),
    ),
    Mutant(
        "archive-sums-from-the-first-flush-on",
        "a segment that was begun by a version that sums has a file of sums at once",
        "snapshots/archive.py",
        "            self._save_sum(active, NOT_SUMMED)  # else",
        "            pass  # else",
        (SUMS + "test_an_archive_that_was_killed_before_its_first_flush_is_summed_all_the_same",),
    ),
    Mutant(
        "installed-rows-not-read-again",
        "the rows of a snapshot are read again where they were put, before they are the image",
        "quorum/snapshot_receiver.py",
        "        if not are_there:\n",
        "        if False:\n",
        (RECEIVED + "test_rows_that_are_not_found_where_they_were_put_are_no_image",),
    ),
    Mutant(
        "archive-sums-changed-unsaid",
        "sums that changed are named by the scrub",
        "snapshots/archive_scrub.py",
        "        say(torn)\n",
        "        pass\n",
        ARCHIVE_SUMS,
    ),
    Mutant(
        "archive-sums-changed-unverified",
        "sums that changed are named by storage verify",
        "cli/storage_verify.py",
        "(no_start, torn) if each",
        "(no_start,) if each",
        ARCHIVE_SUMS,
    ),
)
