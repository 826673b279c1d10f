"""The runners of the libraries' own tests: what they make of a test runner's words, above all of failures."""

import json
import sys
import xml.etree.ElementTree as ET
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.clients.players import NotHere
from tests.clients.suites import SUITES, franz_go, librdkafka, pytest_files
from tests.clients.suites.suite import FAILED, NOT_RUN, PASSED, Ran
from tests.together import table

ROW = "\x1b[32m| {:<40} | {:>10} | {:>7.3f}s \x1b[0m|{}\x1b[0m"
PART_PASSED = "[0103_transactions / 1.0s] [ do_test_empty_txn:1015: commit: PASS (0.93s) ]"


def rdkafka(name: str, state: str, why: str = "") -> str:
    return ROW.format(name, state, 1.5, why)


LIBRDKAFKA = [
    pytest.param("0056", "", rdkafka("0056_group", "PASSED"), [(PASSED, "0056_group")], id="passed"),
    pytest.param("0056", "", rdkafka("0056_group", "FAILED"), [(FAILED, "0056_group")], id="failed"),
    pytest.param(
        "0053",
        "",
        "\n".join((rdkafka("0053_stats", "SKIPPED", " no RapidJSON"), rdkafka("<MAIN>", "PASSED"))),
        [(NOT_RUN, "0053_stats")],
        id="skips-itself",
    ),
    pytest.param(
        "0076",
        "",
        "\n".join((rdkafka("0076_retry", "PASSED"), rdkafka("0076_retry_mock", "SKIPPED", librdkafka.LOCAL))),
        [(PASSED, "0076_retry")],
        id="a-test-without-a-broker-is-left-out",
    ),
    pytest.param(
        "0052", "", 'Test "0052_x" failed at test.c:1\nAborted', [(FAILED, "0052")], id="no-summary"
    ),
    pytest.param("0052", "", "", [(FAILED, "0052")], id="silent-death"),
    pytest.param(
        "0103",
        "do_test_empty_txn",
        f"{PART_PASSED}\n{rdkafka('0103_transactions', 'PASSED')}",
        [(PASSED, "0103_transactions do_test_empty_txn")],
        id="a-part",
    ),
    pytest.param(
        "0103",
        "do_test_empty",
        f"{PART_PASSED}\n{rdkafka('0103_transactions', 'PASSED')}",
        [(FAILED, "0103 do_test_empty")],
        id="a-part-that-there-is-not",
    ),
]


@table(("number", "part", "said", "expected"), LIBRDKAFKA)
def test_librdkafkas_summary(number: str, part: str, said: str, expected: list[tuple[str, str]]) -> None:
    assert [(ran.result, ran.name) for ran in librdkafka.summary(number, part, said)] == expected


def events(*events: tuple[str, str, str]) -> str:
    lines = [json.dumps({"Action": action, "Test": test, "Output": said}) for action, test, said in events]
    return f"print({chr(10).join(lines)!r})"


def franz(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, program: str) -> list[Ran]:
    """What is made of a program's events."""
    monkeypatch.setattr(franz_go, "TEST2JSON", (sys.executable, "-c", program))
    return [*franz_go.ran(Path("unused"), ("TestTxnEtl",), {}, tmp_path / "log")]


def test_franz_gos_events_are_results_with_their_reasons(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = events(
        ("output", "TestTxnEtl/range", "    helpers_test.go:978: saw double offset\n"),
        ("output", "TestTxnEtl/range", "    helpers_test.go:921: deleting group x\n"),
        ("fail", "TestTxnEtl/range", ""),
        ("output", "TestTxnEtl/848", "    helpers_test.go:800: no KIP-848\n"),
        ("skip", "TestTxnEtl/848", ""),
        ("pass", "TestTxnEtl", ""),
    )
    assert [each[:3] for each in franz(tmp_path, monkeypatch, program)] == [
        ("TestTxnEtl/range", FAILED, "saw double offset"),
        ("TestTxnEtl/848", NOT_RUN, "no KIP-848"),
        ("TestTxnEtl", PASSED, ""),
    ]


def test_a_test_of_franz_go_that_does_not_end_has_failed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (only,) = franz(tmp_path, monkeypatch, "raise SystemExit(2)")
    assert only[:2] == ("TestTxnEtl", FAILED)
    assert "status 2" in only.said


@pytest.mark.parametrize(
    ("inside", "expected"),
    [
        ("", (PASSED, "")),
        ('<failure message="E: lost"/>', (FAILED, "E: lost")),
        ('<error message="E: fixture"/>', (FAILED, "E: fixture")),
        ('<skipped message="old"/>', (NOT_RUN, "old")),
    ],
)
def test_pytests_report_of_a_librarys_tests(inside: str, expected: tuple[str, str]) -> None:
    case = ET.fromstring(f'<testcase name="t" time="0.5">{inside}</testcase>')  # noqa: S314  (its own)
    ran = pytest_files.of(case)
    assert (ran.result, ran.said) == expected


@pytest.mark.parametrize("name", ["franz-go", "librdkafka", "aiokafka"])
def test_a_suite_whose_tools_are_missing_is_not_run(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))

    def run() -> Iterator[Ran]:
        yield from SUITES[name].run("127.0.0.1:1", tmp_path)

    with pytest.raises(NotHere, match="not found"):
        next(run())
