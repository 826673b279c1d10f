"""What is broken on purpose in the audit's check of groups: each of its rules, and what it excuses."""

from typing import Final

from tests.mutants.mutant import Mutant

CHECK: Final = "audit/checks/groups.py"
WALK: Final = "audit/walks/commits.py"
CASES: Final = "tests/audit/checks/test_cases.py::test_one_fault_is_one_finding"

AUDIT_GROUPS: Final = (
    Mutant(
        "audit-aborted-offset-in-silence",
        "an offset of an aborted transaction that took effect is a finding",
        CHECK,
        "WHERE m.rule = 'wrong_outcome' AND s.outcome = 'committed'",
        "WHERE m.rule = 'wrong_outcome' AND s.outcome = 'aborted'",
        (CASES + "[an-offset-of-an-aborted-transaction-took-effect]",),
    ),
    Mutant(
        "audit-offset-goes-back-in-silence",
        "a transaction that commits less than one of an earlier generation is a finding",
        WALK,
        'return "went_back" if in_transactions and is_next else "seek"',
        'return "seek"',
        (CASES + "[an-offset-goes-back-from-one-generation-to-the-next]",),
    ),
    Mutant(
        "audit-older-record-wins",
        "of two commits the record that was written later wins, whichever took effect first",
        WALK,
        'if is_last and row["offset"] > place.newest:',
        "if is_last:",
        (CASES + "[a-plain-commit-overtakes-an-older-one-in-a-transaction]",),
    ),
    Mutant(
        "audit-two-owners-in-silence",
        "a second member that commits a partition in one generation is a finding",
        WALK,
        'if claim.is_disputed or first["member_id"] == second["member_id"] or',
        "if",
        (CASES + "[a-member-has-several-producers]",),
    ),
    Mutant(
        "audit-stale-generation-in-silence",
        "a generation that is not the group's is a finding",
        WALK,
        'row["generation"] != group.generation:',
        'row["generation"] > group.generation:',
        (CASES + "[a-producer-presents-the-generation-before]",),
    ),
    Mutant(
        "audit-successor-is-an-owner",
        "a static member's successor is the same owner",
        WALK,
        'return mine is not None and mine == instances.get(second["member_id"])',
        "return False",
        (CASES + "[a-static-member-is-replaced-in-its-generation]",),
    ),
    Mutant(
        "audit-reset-is-unclear",
        "a commit while the group has no members may go back",
        WALK,
        'if row["group_state"] is None or row["group_state"] == "Empty":',
        'if row["group_state"] is None:',
        (CASES + "[an-administrator-resets-a-group-without-members]",),
    ),
    Mutant(
        "audit-compares-across-a-break",
        "rows between which something cannot be read are not compared",
        WALK,
        "        self._offsets.clear()\n",
        "",
        (CASES + "[across-bytes-that-cannot-be-read-nothing-is-compared]",),
    ),
    Mutant(
        "audit-seek-in-silence",
        "a member that goes back in its generation is said to be unclear",
        CHECK,
        "FROM unexplained WHERE rule = 'seek'",
        "FROM unexplained WHERE rule = 'sought'",
        (CASES + "[an-application-seeks-back]",),
    ),
    Mutant(
        "audit-nameless-commits-in-silence",
        "commits that do not say of which member they are are said to be unclear",
        CHECK,
        "AND coalesce(generation, -1) = -1",
        "AND coalesce(generation, -1) = -2",
        (CASES + "[a-log-that-does-not-say-which-member-committed]",),
    ),
    Mutant(
        "audit-topic-made-again-is-a-fault",
        "offsets begin anew in a topic that was made again",
        CHECK,
        "t.event = 'created' AND t.name = s.commit_topic",
        "t.event = 'created' AND t.name = s.group_id",
        (CASES + "[offsets-begin-anew-in-a-topic-that-was-made-again]",),
    ),
    Mutant(
        "audit-lost-marker-goes-back",
        "an offset that goes back for the lack of a marker is the marker's finding alone",
        CHECK,
        "(m.rule = 'missing' AND",
        "(m.rule = 'lost' AND",
        (CASES + "[a-missing-marker-is-no-offset-that-goes-back]",),
    ),
    Mutant(
        "audit-groups-read-on-behind-an-end",
        "behind the end of one copy others may be cleaned of a marker: nothing is compared across it",
        CHECK,
        " | FLAG_AFTER_CUT | FLAG_AFTER_END\n",
        " | FLAG_AFTER_CUT\n",
        (CASES + "[an-aborted-offset-whose-marker-the-longer-copy-is-cleaned-of]",),
    ),
    Mutant(
        "audit-only-producers-pass-an-end",
        "the first batch behind the end of one copy is marked, whether a producer wrote it or not",
        "audit/walks/copies.py",
        "(places, np.arange(rows.num_rows), self._ahead, flags)",
        "(places, of_producers, self._ahead, flags)",
        (CASES + "[an-offset-that-was-forgotten-where-the-longer-copy-is-cleaned]",),
    ),
)
