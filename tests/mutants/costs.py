"""What is broken on purpose where a request is made cheaper."""

from typing import Final

from tests.mutants.mutant import Mutant

COSTS: Final = (
    Mutant(
        "rows-mixed-up",
        "what decisions of one entry read is remembered by its table and its key",
        "controller/view.py",
        "        at = (table, key)\n",
        "        at = (table, 0)\n",
        ("tests/controller/test_view.py::test_an_overlay_of_one_entry_reads_as_any_other",),
    ),
    Mutant(
        "remembered-without-its-partitions",
        "the bytes of a topic are remembered by its name and its partitions",
        "records/transaction_bytes.py",
        "        topics.append(_read_topic(buffer[at:end]))\n",
        "        topics.append(_read_topic(buffer[at : ids_at + 1] + bytes(4 * ids_size)))\n",
        ("tests/records/test_transaction_bytes.py::test_what_is_read_by_hand_is_what_is_read_generally",),
    ),
    Mutant(
        "wide-topics-remembered",
        "a topic of many partitions is not remembered: memory is bounded",
        "records/transaction_bytes.py",
        "if len(ids) <= CACHED_IDS_MAX else",
        "if ids else",
        ("tests/records/test_transaction_bytes.py::test_a_wide_topic_is_not_remembered[one-past]",),
    ),
    Mutant(
        "overlay-keeps-deletions-to-itself",
        "what an overlay deleted is deleted in the overlay below it",
        "controller/view.py",
        "                target._rows.setdefault(table, {}).update(rows)\n",
        "                kept = {key: row for key, row in rows.items() if row is not DELETED}\n"
        "                target._rows.setdefault(table, {}).update(kept)\n",
        ("tests/controller/test_view.py::test_nothing_reaches_the_image_before_it_is_written",),
    ),
    Mutant(
        "deleted-row-stays-in-the-cache",
        "a row that is deleted from the store is not read from its cache any more",
        "snapshots/image.py",
        "                    self._cache.pop((name, key), None)",
        "                    pass",
        ("tests/snapshots/test_store.py::test_a_deleted_row_is_gone_from_the_cache_too",),
    ),
    Mutant(
        "shown-once",
        "a metric that goes back to an earlier value shows it",
        "node/metrics.py",
        "            self._value = value\n            self._set(value)\n",
        "            self._set(value)\n",
        ("tests/node/test_metrics.py::test_what_changes_back_is_shown_as_it_is_now",),
    ),
)
