"""Whether an audit found what was planted: each fault once, by the right check, at its place; and no more."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tests.audit.faults.kinds import Seeded

Finding = Mapping[str, Any]
"""A finding as ``fencepost audit check --format json`` prints it."""


def matched(seeded: Sequence[Seeded], findings: Sequence[Finding]) -> list[tuple[Seeded, Finding | None]]:
    """Each fault with its finding, which belongs to no other fault."""
    left = list(findings)
    pairs: list[tuple[Seeded, Finding | None]] = []
    for fault in seeded:
        mine = next((each for each in left if _is_of(fault, each)), None)
        if mine is not None:
            left.remove(mine)
        pairs.append((fault, mine))
    return pairs


def complaints(seeded: Sequence[Seeded], findings: Sequence[Finding]) -> list[str]:
    """A sentence for each fault that was not found, and for each finding that is of none."""
    pairs = matched(seeded, findings)
    found = [id(finding) for _, finding in pairs if finding is not None]
    missed = [
        f"not found: {fault.kind} ({fault.variant}): {fault.planted.said}; expected {fault.planted.check} "
        f"{'/'.join(sorted(fault.planted.rules))} at {_places(fault)}"
        for fault, finding in pairs
        if finding is None
    ]
    return missed + [
        f"found, not planted: {each['check']}.{each['rule']} {each['path']}:{each['position']} "
        f"{each['subject']}: {each['detail']}"
        for each in findings
        if id(each) not in found
    ]


def _is_of(fault: Seeded, finding: Finding) -> bool:
    planted = fault.planted
    if finding["check"] != planted.check or finding["rule"] not in planted.rules or not finding["path"]:
        return False
    place = (Path(finding["path"]).resolve(), finding["position"])
    return place in [(path.resolve(), position) for path, position in planted.places()]


def _places(fault: Seeded) -> str:
    return ", ".join(f"{path}:{position}" for path, position in fault.planted.places()[:3])
