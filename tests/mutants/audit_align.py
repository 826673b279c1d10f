"""What is broken on purpose in how markers are held against decisions where logs were compacted."""

from typing import Final

from tests.mutants.mutant import Mutant

MARKERS: Final = "tests/audit/walks/test_markers.py::test_what_is_found_of_markers"
WITHOUT_A_HOLE: Final = MARKERS + "[a-marker-is-missing-without-a-hole-sizes0]"
NOTHING_WILL_END: Final = MARKERS + "[data-that-nothing-will-end-where-both-logs-were-compacted-sizes0]"
ENDS_BEFORE: Final = MARKERS + "[a-copy-that-ends-before-a-marker-and-the-transaction-behind-it-sizes0]"
BEHIND: Final = MARKERS + "[a-leaders-clock-that-is-behind-sizes0]"
MISSING_BEHIND: Final = MARKERS + "[a-marker-is-missing-under-a-clock-that-is-behind-sizes0]"
EMPTY_BEHIND: Final = MARKERS + "[commits-without-data-of-a-client-whose-clock-is-behind-sizes0]"
CAUSES: Final = "tests/audit/walks/test_causes.py::"
STABLE: Final = CAUSES + "test_what_is_open_explains_the_stable_offsets_of_aborts_behind_it"

AUDIT_ALIGN: Final = (
    Mutant(
        "times-say-little-where-decisions-are-gone",
        "markers older than their decisions are pairs one off where a coordinator's log is not whole",
        "audit/walks/align.py",
        '    if not sides.is_whole or any(turn["flags"] & FLAG_HOLE for turn in sides.turns):\n',
        '    if any(turn["flags"] & FLAG_HOLE for turn in sides.turns):\n',
        (WITHOUT_A_HOLE,),
    ),
    Mutant(
        "clocks-that-differ-are-pairs-one-off",
        "markers that are all older than their decisions by as much are of another clock",
        "audit/walks/clocks.py",
        "        steps = min((plain, steps, *ways), key=lambda way: _rank(sides, way))\n",
        "",
        (BEHIND,),
    ),
    Mutant(
        "clocks-that-differ-hide-a-missing-marker",
        "pairs that are one off do not agree on by how much clocks differ",
        "audit/walks/clocks.py",
        "        steps = min((plain, steps, *ways), key=lambda way: _rank(sides, way))\n",
        "        steps = plain\n",
        (MISSING_BEHIND, WITHOUT_A_HOLE),
    ),
    Mutant(
        "a-clients-clock-makes-markers-early",
        "data of a client whose clock is behind is not of the transaction before",
        "audit/walks/judge.py",
        'following["data_ms"] - ms) for ms in (0, self._clocks.data_ms)):\n',
        'following["data_ms"] - ms) for ms in (0,)):\n',
        (EMPTY_BEHIND,),
    ),
    Mutant(
        "open-data-may-be-of-before",
        "data that is open is of no transaction that a compacted coordinator's log no longer has",
        "audit/walks/align.py",
        '    if not sides.is_whole and turn["control_type"] is not None and _is_before(sides, at, turn):\n',
        "    if not sides.is_whole and _is_before(sides, at, turn):\n",
        (NOTHING_WILL_END,),
    ),
    Mutant(
        "open-data-reaches-nothing",
        "behind open data no marker is one that compaction took",
        "audit/walks/align.py",
        '    reached = 0 if before is None else (before["marker_offset"] or before["data_last"] or 0)\n',
        '    reached = 0 if before is None else (before["marker_offset"] or 0)\n',
        (NOTHING_WILL_END,),
    ),
    Mutant(
        "open-data-of-a-decision-before-it",
        "data that was written after a decision is not what that one ended",
        "audit/walks/align.py",
        '        is_later = (turn["written_ms"] or 0) > (outcome["prepared_ms"] or _NEVER_MS)\n',
        "        is_later = False\n",
        (NOTHING_WILL_END,),
    ),
    Mutant(
        "open-data-of-the-open-transaction",
        "open data that its client wrote before the open transaction began is of the one before",
        "audit/walks/align.py",
        "        return _BEFORE_IT if is_older else 0\n",
        "        return 0\n",
        (ENDS_BEFORE,),
    ),
    Mutant(
        "what-is-open-holds-nothing-back",
        "stable offsets of aborts behind open data follow from it",
        "audit/walks/causes.py",
        '    _Rule(("hanging.orphan",), ("integrity.index",), _holds_back),\n',
        "",
        (STABLE,),
    ),
    Mutant(
        "what-is-open-holds-back-what-was-before",
        "an abort before open data has its own stable offset",
        "audit/walks/causes.py",
        'and bool((row["offset"] or -1) > cause["offset"])\n',
        "\n",
        (STABLE,),
    ),
    Mutant(
        "each-unread-copy-by-itself",
        "what no copy can read at one offset is one finding",
        "audit/walks/alike.py",
        "    _by_offset(findings)\n",
        "",
        (CAUSES + "test_what_no_copy_can_read_at_one_offset_is_one_finding",),
    ),
    Mutant(
        "all-unread-bytes-as-one",
        "bytes that cannot be read at two offsets are two findings",
        "audit/walks/alike.py",
        '(row["topic"], row["partition"], row["offset"])',
        '(row["topic"], row["partition"])',
        (CAUSES + "test_what_no_copy_can_read_at_one_offset_is_one_finding",),
    ),
    Mutant(
        "leader-epochs-behind-a-hole-by-themselves",
        "a batch whose offset is too high is where no leader epoch is said to begin",
        "audit/walks/causes.py",
        '    _Rule(("offsets.hole",), ("integrity.leader_epochs",), _behind_hole),\n',
        "",
        (CAUSES + "test_a_batch_too_far_ahead_is_where_its_leader_epoch_does_not_begin",),
    ),
)
