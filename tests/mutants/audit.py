"""What is broken on purpose in the audit: its decoder and its checks."""

from typing import Final

from tests.mutants.mutant import Mutant

DECODE: Final = "tests/audit/decode/"
ENDS: Final = DECODE + "test_walk.py::test_every_way_that_a_file_ends_or_is_wrong"
TREE: Final = DECODE + "test_tables.py::test_a_tree_of_every_kind_of_file"
CONTROL: Final = DECODE + "test_tables.py::test_control_batches"
CHECKPOINTS: Final = DECODE + "test_snapshots.py::"
PLAN: Final = DECODE + "test_plan.py::"
ORDER: Final = "tests/audit/checks/test_order.py::test_the_greatest_value_so_far"

AUDIT: Final = (
    # -- the decoder -----------------------------------------------------------------------------------------
    Mutant(
        "wrong-checksum-is-sound",
        "a batch whose checksum is wrong is a fault, and says nothing",
        "audit/decode/chunks.py",
        '            is_sound = computed == headers["crc"]\n',
        "            is_sound = np.ones(len(positions), np.bool_)\n",
        (
            ENDS + "[flipped-in-the-header-one-window]",
            DECODE + "test_agrees_with_kio.py::test_a_byte_that_kio_refuses_is_a_fault",
            DECODE + "test_states_and_commits.py::test_a_batch_whose_checksum_is_wrong_says_nothing",
        ),
    ),
    Mutant(
        "checksum-of-a-neighbour",
        "of batches that are alike each has its own checksum",
        "audit/decode/checksums.py",
        "        computed ^= _CONTRIBUTIONS[length - 1 - column][differing[:, column]]\n",
        "        computed ^= _CONTRIBUTIONS[length - 1 - column][differing[0, column]]\n",
        (DECODE + "test_checksums.py::test_groups_of_one_length_and_the_rest",),
    ),
    Mutant(
        "no-batch-in-silence",
        "bytes that are no batch are a row",
        "audit/decode/chunks.py",
        "                if span.position < limit:\n",
        "                if False:\n",
        (
            ENDS + "[zeros-in-the-middle-small-windows]",
            ENDS + "[noise-alone-one-window]",
            CHECKPOINTS + "test_a_checkpoint_that_is_not_whole_has_faults",
        ),
    ),
    Mutant(
        "torn-is-the-end",
        "a file that ends in a batch is torn",
        "audit/decode/walk.py",
        '        return Stop(position, "torn", reason)\n',
        '        return Stop(position, "end")\n',
        (
            ENDS + "[torn-by-one-byte-one-window]",
            CHECKPOINTS + "test_a_checkpoint_that_is_not_whole_has_faults",
            TREE,
        ),
    ),
    Mutant(
        "torn-hides-what-follows",
        "a length that points past the end of the file hides no batch behind it",
        "audit/decode/walk.py",
        "    following = _next_sound(opened, position + 1, bounds)\n",
        "    following = None if torn else _next_sound(opened, position + 1, bounds)\n",
        (ENDS + "[a-length-past-the-end-is-not-torn-one-window]",),
    ),
    Mutant(
        "marker-version-ignored",
        "a marker's version is what its header says",
        "audit/decode/control.py",
        "    said.has_version[known] = True\n",
        "    said.has_version[known] = False\n",
        (CONTROL + "[fencepost's]",),
    ),
    Mutant(
        "control-record-in-silence",
        "a control batch whose record cannot be read is a fault",
        "audit/decode/tables.py",
        "            yield from _control_faults(where, rows)\n",
        "",
        (CONTROL + "[no key]", CONTROL + "[half a value]"),
    ),
    Mutant(
        "emptied-marker-a-fault",
        "what the log cleaner leaves of a marker, a header without a record, is no fault",
        "audit/decode/tables.py",
        "np.flatnonzero(is_unreadable & ~is_emptied)",
        "np.flatnonzero(is_unreadable)",
        (DECODE + "test_tables.py::test_a_marker_that_the_log_cleaner_emptied_is_no_fault",),
    ),
    Mutant(
        "unreadable-record-skipped",
        "a sound batch that cannot be opened is a fault",
        "audit/decode/rows.py",
        "            faults.add(position, header.base_offset, kind, str(error))\n",
        "",
        (DECODE + "test_states_and_commits.py::test_a_sound_batch_that_cannot_be_opened_is_one_fault",),
    ),
    Mutant(
        "block-of-a-snapshot-dropped",
        "the block of a snapshot is a row: of a log that was cut in front it is all that is known",
        "audit/decode/metadata.py",
        "    said.blocks.add(*at, record.broker_id,",
        '    if at.source == "log":\n        said.blocks.add(*at, record.broker_id,',
        (
            CHECKPOINTS + "test_a_checkpoint",
            TREE,
            DECODE + "test_tables.py::test_a_real_kafka_is_read_whole",
        ),
    ),
    Mutant(
        "batch-missing-from-a-snapshot",
        "a snapshot that lacks a batch is a fault",
        "audit/decode/snapshots.py",
        "        if expected is not None and base != expected:\n",
        "        if False:\n",
        (CHECKPOINTS + "test_a_checkpoint_that_is_not_whole_has_faults",),
    ),
    Mutant(
        "holes-in-silence",
        "the holes that a log says it has are rows of files",
        "audit/decode/plan.py",
        "        if any(each.name == _HOLES for each in entries):\n",
        "        if False:\n",
        (PLAN + "test_holes_are_files_of_their_own", TREE),
    ),
    Mutant(
        "link-to-nothing-in-silence",
        "what could be a log and cannot be looked at is a row with a fault",
        "audit/decode/plan.py",
        "            if each.fault is not None:\n",
        "            if False:\n",
        (PLAN + "test_links_are_followed_once_and_one_to_nothing_is_a_fault",),
    ),
    # -- checks ----------------------------------------------------------------------------------------------
    Mutant(
        "buckets-forget-each-other",
        "a bucket takes over the greatest value of those before it",
        "audit/checks/ordered.py",
        "{past}), c.taken_over\n",
        "{past}), NULL\n",
        (ORDER + "[buckets-of-4]",),
    ),
    Mutant(
        "unknown-ends-well",
        "what is unknown is not clean",
        "audit/report/verdict.py",
        "UNREADABLE: 3, UNKNOWN: 3}",
        "UNREADABLE: 3, UNKNOWN: 0}",
        ("tests/audit/report/test_verdict.py::test_a_verdict_has_a_word_a_status_and_a_last_line",),
    ),
    Mutant(
        "unread-is-allowed",
        "--allow-unknown allows nothing but what is unknown",
        "audit/report/verdict.py",
        "allow_unknown and self.verdict == UNKNOWN else",
        "allow_unknown and self.verdict != FINDINGS else",
        ("tests/audit/report/test_verdict.py::test_what_is_allowed_is_what_is_unknown_and_no_more",),
    ),
    Mutant(
        "spark-for-the-small",
        "a small audit needs no Spark where no master is named",
        "audit/jobs/choice.py",
        "_log_bytes(roots, tables_dir) < EMBEDDED_BYTES_MAX",
        "_log_bytes(roots, tables_dir) < 0",
        ("tests/audit/jobs/test_choice.py::test_the_engine_is_that_of_the_size_where_none_is_named[small]",),
    ),
)
