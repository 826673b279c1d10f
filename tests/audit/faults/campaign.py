"""Cases by chance: what is planted in which logs, and whether an audit says just that."""

import shutil
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from random import Random
from typing import Any, Final

from tests.audit.faults import harmless, judge
from tests.audit.faults.fault import NoPlace
from tests.audit.faults.kinds import ALL, BY_CHANCE, Seeded, seed

DEEP: Final = {"noise", "codec set", "record's offset"}
SHARE_MIN: Final = 0.9  # of the faults that are planted alone
AT_ONCE_MAX: Final = 8  # of kinds, each in a place of its own: the fixtures have no more room


class Verdict(Enum):
    """How an audit named one fault."""

    NAMED = "found, and named"
    UNNAMED = "without its producer"
    SEVERAL = "found more than once"
    OTHERWISE = "named as another"
    MISSED = "missed"


@dataclass(frozen=True, slots=True)
class Case:
    """Either faults (kind, variant), or one harmless change."""

    seed: int
    source: str
    faults: tuple[tuple[str, str], ...] = ()
    harmless: str | None = None


@dataclass(frozen=True, slots=True)
class Planted:
    """What a case came to."""

    seeded: Sequence[Seeded]
    said: Sequence[str]
    names: Sequence[str]

    @property
    def is_deep(self) -> bool:
        """Whether only an audit that opens the records (``--deep``) can find it."""
        return any(each.kind in DEEP for each in self.seeded)


@dataclass(slots=True)
class Tally:
    """What a campaign has come to.

    wrong   the seeds of several faults, or of what is harmless, of which an audit said anything else.
    """

    alone: Counter[Verdict] = field(default_factory=Counter)
    others: int = 0
    wrong: list[int] = field(default_factory=list)
    no_place: int = 0

    def add(self, number: int, planted: Planted, verdict: Verdict, complaints: Sequence[str]) -> None:
        if len(planted.seeded) == 1:
            self.alone[verdict] += 1
            return
        self.others += 1
        if complaints:
            self.wrong.append(number)

    @property
    def share(self) -> float:
        """Of the faults that were alone: those that were named; 1.0 if there were none."""
        total = self.alone.total()
        return self.alone[Verdict.NAMED] / total if total else 1.0

    @property
    def is_right(self) -> bool:
        """Whether the audits said what they have to; a campaign that planted nothing shows nothing."""
        return self.share >= SHARE_MIN and not self.wrong and self.alone.total() + self.others > 0


def variants(kind: str) -> Sequence[str]:
    return [*ALL[kind]]


def by_chance(number: int, source: str) -> Case:
    """One of four is harmless, one has many faults, two have one."""
    random = Random(f"{number} {source}")
    shape = number % 4
    if shape == 0:
        return Case(number, source, harmless=random.choice([*harmless.HARMLESS]))
    kinds = random.sample(BY_CHANCE, random.randint(3, AT_ONCE_MAX) if shape == 1 else 1)
    return Case(number, source, tuple((kind, random.choice(variants(kind))) for kind in kinds))


def any_case(number: int, source: str) -> Case:
    """One of eight is harmless, one has many faults of the first kinds, six have one of any kind."""
    random = Random(f"{number} {source}")
    if number % 8 in (0, 1):
        return by_chance(number, source)
    kind = random.choice([*ALL])
    return Case(number, source, ((kind, random.choice(variants(kind))),))


def plant(case: Case, source: Path, copy: Path) -> Planted | None:
    """In a copy; None if these logs have no place for it (the copy is gone then)."""
    random = Random(case.seed)
    try:
        if case.harmless is not None:
            said = harmless.change(source, copy, case.harmless, random)
            return Planted((), (f"{case.harmless}: {said}",), (case.harmless,))
        seeded = seed(source, copy, case.faults, random)
    except NoPlace:
        seeded = []
    if not seeded:
        remove(copy)
        return None
    names = [f"{each.kind}, {each.variant}" for each in seeded]
    sentences = [f"{name}: {each.planted.said}" for name, each in zip(names, seeded, strict=True)]
    return Planted(seeded, sentences, names)


def complaints(
    planted: Planted,
    findings: Sequence[Mapping[str, Any]],
    unknown: Sequence[Mapping[str, Any]] = (),
) -> list[str]:
    """Empty: each fault is found once, and nothing else is."""
    return judge.complaints(planted.seeded, findings, unknown)


def judged(
    planted: Planted, findings: Sequence[Mapping[str, Any]], unknown: Sequence[Mapping[str, Any]]
) -> tuple[Verdict, list[str]]:
    """Of a fault that was planted alone; of others what is said counts."""
    said = complaints(planted, findings, unknown)
    if not said:
        is_named = all(judge.names_producer(each, findings) for each in planted.seeded)
        return (Verdict.NAMED, []) if is_named else (Verdict.UNNAMED, ["the producer is not named"])
    if not findings:
        return Verdict.MISSED, said
    is_found = not any(each.startswith("not found") for each in said)
    return (Verdict.SEVERAL if is_found else Verdict.OTHERWISE), said


def remove(copy: Path) -> None:
    shutil.rmtree(copy, ignore_errors=True)
