"""The verdict of an audit: what each check found, what it could not decide, and what could not be read.

Finding     what may not be in a log that tells the truth. A check with none and nothing unknown has passed.
Unknown     what the logs that are kept cannot decide: neither a finding nor passed.
Not read    a torn or unreadable file: its contents are unknown to the audit, so nothing is called clean.
Bounds      counts are exact; the lists keep at most ``*_MAX`` of each.
"""

from dataclasses import dataclass
from typing import Any, Final, NamedTuple

FINDINGS_MAX: Final = 10_000  # listed per check: the Spark driver must hold them in memory
UNKNOWN_MAX: Final = 1_000  # listed per check
NOT_READ_MAX: Final = 1_000

PASSED: Final = "passed"
FINDINGS: Final = "findings"
UNKNOWN: Final = "unknown"
UNREADABLE: Final = "unreadable"
CLEAN: Final = "clean"

_EXIT: Final = {CLEAN: 0, FINDINGS: 1, UNREADABLE: 3, UNKNOWN: 3}


class Finding(NamedTuple):
    """A row of the checks' findings, in the order of its columns; null where one does not apply."""

    check: str
    rule: str
    severity: str
    node: int | None
    topic: str | None
    partition: int | None
    path: str | None
    position: int | None
    offset: int | None
    producer_id: int | None
    producer_epoch: int | None
    transactional_id: str | None
    at_ms: int | None
    subject: str
    detail: str
    id: str | None = None  # the same for the same finding in each run
    cause: str | None = (
        None  # ``id`` of the finding that explains it: it is listed under that one, and not counted
    )


class Unknown(NamedTuple):
    """A row of what a check could not decide, in the order of its columns."""

    check: str
    rule: str | None
    topic: str | None
    partition: int | None
    path: str | None
    first_offset: int | None
    end_offset: int | None
    detail: str


class Note(NamedTuple):
    """What is legitimate and worth a line: of one check and rule how many, and the first."""

    check: str
    rule: str
    many: int
    path: str | None
    position: int | None
    detail: str


class NotRead(NamedTuple):
    """A file, the byte from which on it was not read, and why."""

    path: str
    position: int
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Files:
    """What was read. ``omitted``: how many more could not be than the ``NOT_READ_MAX`` listed."""

    read: int
    byte_count: int
    not_read: tuple[NotRead, ...] = ()
    omitted: int = 0

    @property
    def is_partial(self) -> bool:
        """Whether the audit could not read all that it was pointed at; also true if it found no file."""
        return bool(self.not_read) or self.read == 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What one check says. The counts are exact, the lists at most ``*_MAX`` long.

    ``findings``       those that another one explains included; ``finding_count``: without them.
    """

    check: str
    findings: tuple[Finding, ...] = ()
    finding_count: int = 0
    unknown: tuple[Unknown, ...] = ()
    unknown_count: int = 0

    @property
    def result(self) -> str:
        """``passed``, ``findings`` or ``unknown``; findings outweigh what is unknown."""
        if self.finding_count:
            return FINDINGS
        return UNKNOWN if self.unknown_count else PASSED


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """What the audit says, all in all."""

    outcomes: tuple[Outcome, ...]
    files: Files
    notes: tuple[Note, ...] = ()

    @property
    def finding_count(self) -> int:
        """How many findings all checks have together."""
        return sum(each.finding_count for each in self.outcomes)

    @property
    def consequences(self) -> dict[str, list[Finding]]:
        """What findings explain, by the ``id`` of the one that does."""
        found: dict[str, list[Finding]] = {}
        for outcome in self.outcomes:
            for each in outcome.findings:
                if each.cause is not None:
                    found.setdefault(each.cause, []).append(each)
        return found

    @property
    def unknown_count(self) -> int:
        """How many unknowns all checks have together."""
        return sum(each.unknown_count for each in self.outcomes)

    @property
    def verdict(self) -> str:
        """``findings``, else ``unreadable``, else ``unknown``, else ``clean``."""
        if self.finding_count:
            return FINDINGS
        if self.files.is_partial:
            return UNREADABLE
        return UNKNOWN if self.unknown_count else CLEAN

    def exit_status(self, *, allow_unknown: bool = False) -> int:
        """0 clean, 1 findings, 3 something is missing, could not be read, or is unknown; allowed, unknown is
        0."""
        return 0 if allow_unknown and self.verdict == UNKNOWN else _EXIT[self.verdict]


def document(verdict: Verdict) -> dict[str, Any]:
    """The verdict as the JSON of ``--format json``."""
    return {
        "verdict": verdict.verdict,
        "checks": [
            {
                "check": each.check,
                "result": each.result,
                "findings": each.finding_count,
                "unknown": each.unknown_count,
            }
            for each in verdict.outcomes
        ],
        "findings": [finding._asdict() for each in verdict.outcomes for finding in each.findings],
        "unknown": [unknown._asdict() for each in verdict.outcomes for unknown in each.unknown],
        "notes": [each._asdict() for each in verdict.notes],
        "files": files_document(verdict.files),
    }


def files_document(files: Files) -> dict[str, Any]:
    """What was read and what could not be, as JSON."""
    return {
        "read": files.read,
        "bytes": files.byte_count,
        "not_read": [each._asdict() for each in files.not_read],
    }
