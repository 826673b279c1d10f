"""Verdicts for tests: each part with the defaults that a test does not speak of."""

from typing import Any

from fencepost.audit.report.verdict import Files, Finding, NotRead, Outcome, Unknown, Verdict

HOSTILE = "</script><script>alert('1')</script>\"&\x1b[2J"
"""A transactional id that a browser or a terminal would obey."""


def finding(check: str = "markers", rule: str = "missing", **columns: Any) -> Finding:
    """A finding at position 61 of a file; other columns are null."""
    given: dict[str, Any] = dict.fromkeys(Finding._fields) | {
        "check": check,
        "rule": rule,
        "severity": "error",
        "path": "/logs/t-0/00000000000000000000.log",
        "position": 61,
        "subject": "t-0",
        "detail": "expected a commit marker, none came",
    }
    return Finding(**(given | columns))


def unknown(check: str = "markers", **columns: Any) -> Unknown:
    """What a check could not say about t-0."""
    given: dict[str, Any] = dict.fromkeys(Unknown._fields) | {
        "check": check,
        "topic": "t",
        "partition": 0,
        "detail": "trimmed",
    }
    return Unknown(**(given | columns))


def found(*findings: Finding) -> Outcome:
    """A check that found these."""
    return Outcome(check=findings[0].check, findings=findings, finding_count=len(findings))


def undecided(*unknowns: Unknown) -> Outcome:
    """A check that could not decide these."""
    return Outcome(check=unknowns[0].check, unknown=unknowns, unknown_count=len(unknowns))


READ = Files(read=3, byte_count=1_500)
TORN = Files(read=3, byte_count=1_500, not_read=(NotRead("/logs/t-0/0.log", 100, "torn"),))
NONE = Files(read=0, byte_count=0)


def verdict(*outcomes: Outcome, files: Files = READ) -> Verdict:
    """Over three files."""
    return Verdict(outcomes=outcomes, files=files)
