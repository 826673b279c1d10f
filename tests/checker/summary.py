"""How much a run was: counted from its history."""

from collections import Counter, defaultdict
from collections.abc import Iterable
from itertools import pairwise

from tests.checker.evidence import Event

PLURALS = {
    "node_killed": "nodes killed",
    "application_killed": "applications killed",
    "application_terminated": "applications that left",
    "application_paused": "applications paused",
    "application_doubled": "applications doubled",
    "application_failed": "applications that could not go on",
}


def summary_of(events: Iterable[Event]) -> list[str]:
    """Lines for a person."""
    history = list(events)
    counts = Counter(each["event"] for each in history)
    ends = [each for each in history if each["event"] == "transaction_ended"]
    outcomes = Counter(str(each["outcome"]) for each in ends)
    commits = [each["at"] for each in ends if each["outcome"] == "committed"]
    by_group: dict[object, list[float]] = defaultdict(list)
    for each in ends:
        if each["outcome"] == "committed":
            by_group[each.get("group")].append(each["at"])
    kills = [each["at"] for each in history if each["event"] == "node_killed"]
    generations = {
        (each["group"], each["generation"]) for each in history if each["event"] == "partitions_assigned"
    }
    records = sum(len(each["inputs"]) for each in history if each["event"] == "inputs_acknowledged")
    lines = [
        f"{counts['transaction_began']} transactions: "
        + ", ".join(f"{count} {outcome}" for outcome, count in sorted(outcomes.items())),
        f"{records} inputs acknowledged, {counts['offsets_fetched']} fetches of the groups' offsets",
        ", ".join(f"{counts[event]} {plural}" for event, plural in PLURALS.items()),
        f"{len(generations)} generations of groups, {counts['partitions_assigned']} assignments",
    ]
    hung = Counter(f"{each['call']} ({each['verdict']})" for each in history if each["event"] == "call_hung")
    if hung:
        lines.append(
            "calls that hung: " + ", ".join(f"{count} {what}" for what, count in sorted(hung.items()))
        )
    if len(commits) > 1:
        of_group = max(_longest_gap(each) for each in by_group.values())
        lines.append(
            f"longest time without a commit {_longest_gap(commits):.1f} s, of one group {of_group:.1f} s"
        )
    if len(kills) > 1:
        between = [
            sum(before < each <= after for each in commits) for before, after in pairwise(sorted(kills))
        ]
        gaps = [after - before for before, after in pairwise(sorted(kills))]
        lines.append(
            f"commits between two kills of nodes: {min(between)} at least, median "
            f"{sorted(between)[len(between) // 2]}; "
            f"a kill every {sum(gaps) / len(gaps):.1f} s, {max(gaps):.1f} s at most"
        )
    return lines


def _longest_gap(times: list[float]) -> float:
    return max((after - before for before, after in pairwise(times)), default=0.0)
