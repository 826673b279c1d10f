"""The verdict, its exit status, and its two forms."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fencepost.audit.report.text import finding_line, moment, unknown_line, verdict_lines
from fencepost.audit.report.verdict import Note, Outcome, Verdict, document
from fencepost.records.printable import printable
from tests.audit.report.verdicts import (
    HOSTILE,
    NONE,
    TORN,
    finding,
    found,
    undecided,
    unknown,
    verdict,
)
from tests.together import table

PASSED = Outcome(check="blocks")

CASES = [
    pytest.param(verdict(PASSED), "clean", 0, "audit: clean", id="passed"),
    pytest.param(
        verdict(PASSED, undecided(unknown())),
        "unknown",
        3,
        "audit: nothing found, 1 thing unknown",
        id="unknown-is-neither",
    ),
    pytest.param(verdict(found(finding())), "findings", 1, "audit: 1 finding", id="a-finding"),
    pytest.param(verdict(PASSED, files=TORN), "unreadable", 3, "audit: 1 file could not be read", id="torn"),
    pytest.param(verdict(PASSED, files=NONE), "unreadable", 3, "audit: no log was found", id="nothing-there"),
    pytest.param(
        verdict(found(finding(), finding()), files=TORN),
        "findings",
        1,
        "audit: 2 findings, 1 file could not be read",
        id="findings-outweigh-what-is-torn",
    ),
]


@table(("said", "word", "status", "last"), CASES)
def test_a_verdict_has_a_word_a_status_and_a_last_line(
    said: Verdict, word: str, status: int, last: str
) -> None:
    assert (said.verdict, said.exit_status()) == (word, status)
    assert list(verdict_lines(said))[-1] == last


@table(
    ("said", "status"),
    [
        pytest.param(verdict(PASSED, undecided(unknown())), 0, id="unknown-is-allowed"),
        pytest.param(verdict(PASSED, undecided(unknown()), files=TORN), 3, id="what-is-torn-is-not"),
        pytest.param(verdict(found(finding()), undecided(unknown())), 1, id="findings-are-not"),
    ],
)
def test_what_is_allowed_is_what_is_unknown_and_no_more(said: Verdict, status: int) -> None:
    assert said.exit_status(allow_unknown=True) == status


def test_the_text_of_a_verdict() -> None:
    said = verdict(PASSED, found(finding(), finding(rule="double")), undecided(unknown("ids")), files=TORN)
    assert list(verdict_lines(said)) == [
        "blocks   passed",
        "markers  2 findings",
        "ids      unknown (1)",
        "",
        "/logs/t-0/00000000000000000000.log:61: markers.missing: t-0: expected a commit marker, none came",
        "/logs/t-0/00000000000000000000.log:61: markers.double: t-0: expected a commit marker, none came",
        "",
        "unknown: ids: t-0: trimmed",
        "",
        "not read: /logs/t-0/0.log:100: torn",
        "3 files, 1.5 kB read",
        "audit: 2 findings, 1 file could not be read",
    ]


def test_what_a_finding_explains_is_listed_below_it_and_is_no_finding() -> None:
    cause = finding("integrity", "crc", id="a")
    effect = finding("sequences", "gap", id="b", cause="a", position=90)
    said = verdict(found(cause), Outcome(check="sequences", findings=(effect,)))
    lines = list(verdict_lines(said))
    assert lines[:2] == ["integrity  1 finding", "sequences  passed"]
    assert lines[3].startswith("/logs/t-0/00000000000000000000.log:61: integrity.crc: ")
    assert lines[4].startswith("    its consequence: /logs/t-0/00000000000000000000.log:90: sequences.gap: ")
    assert said.exit_status() == 1


def test_notes_are_printed_and_change_no_verdict() -> None:
    note = Note("markers", "repeated", 3, "/logs/t-0/0.log", 61, "the same marker again")
    said = Verdict(outcomes=(PASSED,), files=verdict(PASSED).files, notes=(note,))
    line = "note: markers.repeated: 3, the first: /logs/t-0/0.log:61: the same marker again"
    assert line in list(verdict_lines(said))
    assert document(said)["notes"][0]["many"] == 3
    assert said.exit_status() == 0


def test_lists_are_cut_and_counts_are_not() -> None:
    cut = Outcome(
        check="ids", findings=(finding("ids"),), finding_count=5, unknown=(unknown("ids"),), unknown_count=3
    )
    said = verdict(cut)
    text = list(verdict_lines(said))
    assert "ids  5 findings, 3 unknown" in text
    assert "... and 4 more ids findings" in text
    assert "... and 2 more ids unknowns" in text
    assert document(said)["checks"] == [{"check": "ids", "result": "findings", "findings": 5, "unknown": 3}]


def test_the_document_of_a_verdict() -> None:
    said = document(verdict(PASSED, found(finding(transactional_id=HOSTILE)), files=TORN))
    assert json.loads(json.dumps(said)) == said
    assert said["verdict"] == "findings"
    assert [each["result"] for each in said["checks"]] == ["passed", "findings"]
    assert said["findings"][0]["transactional_id"] == HOSTILE
    assert said["files"] == {
        "read": 3,
        "bytes": 1500,
        "not_read": [{"path": "/logs/t-0/0.log", "position": 100, "reason": "torn"}],
    }


@pytest.mark.parametrize(
    ("columns", "begin"),
    [
        pytest.param({}, "/logs/t-0/00000000000000000000.log:61: ", id="file-and-position"),
        pytest.param({"position": None}, "/logs/t-0/00000000000000000000.log: ", id="file"),
        pytest.param({"path": None, "topic": "t", "partition": 4}, "t-4: ", id="partition"),
        pytest.param({"path": None}, "-: ", id="nowhere"),
    ],
)
def test_a_finding_says_where(columns: dict[str, Any], begin: str) -> None:
    assert finding_line(finding(**columns)).startswith(begin + "markers.missing: ")


def test_an_unknown_says_which_offsets() -> None:
    said = unknown_line(unknown(rule="missing", first_offset=0, end_offset=17))
    assert said == "unknown: markers.missing: t-0 [0, 17): trimmed"


@given(st.text())
def test_no_text_reaches_the_terminal_that_it_would_obey(text: str) -> None:
    assert printable(text).isprintable()


def test_a_hostile_id_is_one_harmless_line() -> None:
    line = finding_line(finding(subject=HOSTILE + "\n", detail="a\rb"))
    assert line.isprintable()
    assert "\\x1b[2J" in line


@pytest.mark.parametrize(
    ("at_ms", "said"),
    [
        pytest.param(0, "1970-01-01T00:00:00.000Z", id="epoch"),
        pytest.param(1_763_704_800_123, "2025-11-21T06:00:00.123Z", id="milliseconds"),
        pytest.param(2**62, f"{2**62} ms", id="no-calendar-has-it"),
    ],
)
def test_moments_are_iso_8601(at_ms: int, said: str) -> None:
    assert moment(at_ms) == said
