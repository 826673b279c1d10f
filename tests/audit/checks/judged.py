"""The cases of the checks, all at once: a run of every check over the logs of all stories."""

from collections import defaultdict
from typing import TYPE_CHECKING, Any

from fencepost.audit.jobs.check import judge
from tests.audit.checks.cases import CASES
from tests.audit.checks.rows import IDS, Story

if TYPE_CHECKING:
    from fencepost.audit.jobs.relations import Relations

Rules = dict[int | None, list[str]]
NAMES = list(CASES)
_LOGS = ("__cluster_metadata", "__transaction_state", "__consumer_offsets")


def stories(*, apart: bool) -> list[Story]:
    """Those that are kept ``apart`` or not, and one that gives all their ids out."""
    told = []
    for number, (tell, _, alone) in enumerate(CASES.values()):
        if alone == apart:
            story = Story(number)
            tell(story)
            told.append(story)
    ids = Story(len(CASES))
    ids.block((len(CASES) + 1) * IDS)
    return [*told, ids]


def rules_of(made: "Relations") -> Rules:
    """Of each story, "check.rule" of its findings; after a "?" of what is unknown."""
    found = defaultdict(list)
    for outcome in judge(made, (), lambda _: None).outcomes:
        for finding in outcome.findings:
            if finding.cause is None:
                found[_number(finding)].append(f"{finding.check}.{finding.rule}")
        for unknown in outcome.unknown:
            found[_number(unknown)].append(f"?{unknown.check}.{unknown.rule}")
    return {number: sorted(rules) for number, rules in found.items()}


def expected_of(number: int) -> list[str]:
    """What a case is to be found."""
    _, expected, _ = CASES[NAMES[number]]
    return sorted(expected)


def _number(row: Any) -> int | None:
    """The story that a row of a verdict is about."""
    if row.topic in _LOGS:
        return int(row.partition)
    if row.topic is not None:
        return int(row.topic[1:])
    if getattr(row, "transactional_id", None) is not None:
        return int(row.transactional_id[1:].partition("-")[0])
    return None
