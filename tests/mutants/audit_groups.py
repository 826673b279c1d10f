"""What is broken on purpose in the audit's check of groups: each of its rules, and what it excuses."""

from typing import Final

from tests.mutants.mutant import SPARK_TESTS, Mutant

CHECK: Final = "audit/checks/groups.py"
CASES: Final = SPARK_TESTS + "checks/test_cases.py::test_one_fault_is_one_finding"
TESTS: Final = (SPARK_TESTS + "checks/test_alone.py::test_groups",)

AUDIT_GROUPS: Final = (
    Mutant(
        "audit-aborted-offset-in-silence",
        "an offset of an aborted transaction that took effect is a finding",
        CHECK,
        "    rows = markers.wrong_markers(inputs).where(markers.FREES_OFFSETS)\n",
        '    rows = markers.wrong_markers(inputs).where(f"NOT ({markers.FREES_OFFSETS})")\n',
        TESTS,
    ),
    Mutant(
        "audit-offset-goes-back-in-silence",
        "a transaction that commits less than one of an earlier generation is a finding",
        CHECK,
        '        .when(went_back & in_transactions & next_generation, "went_back")\n',
        "",
        TESTS,
    ),
    Mutant(
        "audit-two-owners-in-silence",
        "a second member that commits a partition in one generation is a finding",
        CHECK,
        '    other = F.col("member_id") != F.col("first_claim.member_id")\n',
        '    other = F.col("member_id") != F.col("member_id")\n',
        TESTS,
    ),
    Mutant(
        "audit-stale-generation-in-silence",
        "a generation that is not the group's is a finding",
        CHECK,
        '(F.col("generation") != F.col("group_generation"))',
        '(F.col("generation") > F.col("group_generation"))',
        TESTS,
    ),
    Mutant(
        "audit-successor-is-an-owner",
        "a static member's successor is the same owner",
        CHECK,
        '    joined = rows.alias("row").join(pairs.alias("pair"), [same, *where], "left_anti")\n',
        '    joined = rows.alias("row")\n',
        TESTS,
    ),
    Mutant(
        "audit-reset-is-unclear",
        "a commit while the group has no members may go back",
        CHECK,
        "        & has_members\n",
        "",
        (CASES + "[an-administrator-resets-a-group-without-members]",),
    ),
    Mutant(
        "audit-seek-in-silence",
        "a member that goes back in its generation is said to be unclear",
        CHECK,
        "        unclear.append(_sought(left))\n",
        "",
        (CASES + "[an-application-seeks-back]",),
    ),
    Mutant(
        "audit-nameless-commits-in-silence",
        "commits that do not say of which member they are are said to be unclear",
        CHECK,
        "[_without_member(inputs.commits)]\n",
        "[nothing(inputs.files, UNKNOWN)]\n",
        (CASES + "[a-log-that-does-not-say-which-member-committed]",),
    ),
    Mutant(
        "audit-topic-made-again-is-a-fault",
        "offsets begin anew in a topic that was made again",
        CHECK,
        '    rows = suspects.join(F.broadcast(created), of_other & again, "left_anti")\n',
        "    rows = suspects\n",
        TESTS,
    ),
    Mutant(
        "audit-lost-marker-goes-back",
        "an offset that goes back for the lack of a marker is the marker's finding alone",
        CHECK,
        '    lost = inputs.missing_markers.where(F.col("topic") == CONSUMER_OFFSETS)\n',
        '    lost = inputs.missing_markers.where(F.col("topic") != CONSUMER_OFFSETS)\n',
        (CASES + "[a-missing-marker-is-no-offset-that-goes-back]",),
    ),
)
