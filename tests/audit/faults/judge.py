"""Whether an audit found what was planted: each fault once, by the right check, at its place; and no more.

Consequences    a finding whose ``cause`` is another's ``id`` is listed below that one: it counts for none.
Unknown         of a fault that no reader could decide there is no finding, and a line among what is unknown
                that names its partition or directory.
"""

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


def complaints(
    seeded: Sequence[Seeded], findings: Sequence[Finding], unknown: Sequence[Finding] = ()
) -> list[str]:
    """A sentence for each fault that was not found, and for each finding that is of none."""
    undecided = [each for each in seeded if each.planted.unknown]
    seeded = [each for each in seeded if not each.planted.unknown]
    findings = [each for each in findings if not each.get("cause")]
    unsaid = [
        f"not said to be unknown: {each.kind} ({each.variant}): {each.planted.said}"
        for each in undecided
        if not any(_names(each, line) for line in unknown)
    ]
    pairs = matched(seeded, findings)
    found = [id(finding) for _, finding in pairs if finding is not None]
    missed = [
        f"not found: {fault.kind} ({fault.variant}): {fault.planted.said}; expected {fault.planted.check} "
        f"{'/'.join(sorted(fault.planted.rules))} at {_places(fault)}"
        for fault, finding in pairs
        if finding is None
    ]
    return (
        unsaid
        + missed
        + [
            f"found, not planted: {each['check']}.{each['rule']} {each['path']}:{each['position']} "
            f"{each['subject']}: {each['detail']}"
            for each in findings
            if id(each) not in found
        ]
    )


def names_producer(fault: Seeded, findings: Sequence[Finding]) -> bool:
    """Whether the finding of the fault says which producer is concerned, if one is."""
    wanted = fault.planted.producer_id
    mine = [each for each in findings if _is_of(fault, each)]
    return (
        wanted < 0 or fault.planted.unknown != "" or any(each.get("producer_id") == wanted for each in mine)
    )


def _is_of(fault: Seeded, finding: Finding) -> bool:
    planted = fault.planted
    name = f"{finding['check']}.{finding['rule']}"
    is_check = finding["check"] == planted.check and finding["rule"] in planted.rules
    if not (is_check or name in planted.rules) or not finding["path"]:
        return False
    path = Path(finding["path"]).resolve()
    if any(path == each.resolve() or path.is_relative_to(each.resolve()) for each in planted.files):
        return True
    return (path, finding["position"]) in [(each.resolve(), at) for each, at in planted.places()]


def _names(fault: Seeded, line: Finding) -> bool:
    """Whether a line about what is unknown names the directory, or its topic and partition."""
    folders = [each.name for each in fault.planted.files]
    return any(
        folder in f"{line.get('path')} {line.get('subject')} {line.get('detail')} "
        f"{line.get('topic')}-{line.get('partition')}"
        for folder in folders
    )


def _places(fault: Seeded) -> str:
    return ", ".join(f"{path}:{position}" for path, position in fault.planted.places()[:3])
