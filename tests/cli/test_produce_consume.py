"""``produce`` and ``consume`` against librdkafka's mock cluster: lines in, records out, and each refusal.

The mock cluster hides nothing from a read_committed consumer; what is aborted is tested on real nodes.
"""

import io
import json
import sys
from collections.abc import Callable
from typing import Any

import pytest

from fencepost.cli.produce import PROPERTIES, Line, parse_line
from fencepost.cluster.console import Failed
from tests.harness.command import Result, here
from tests.together import table

Capture = pytest.CaptureFixture[str]
Run = Callable[..., Result]


@pytest.fixture
def run(mock_cluster: str, capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Runs a command against the mock cluster, with this on its stdin."""

    def command(*words: object, stdin: bytes = b"") -> Result:
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin)))
        return here(capsys, *words, "--bootstrap-server", mock_cluster)

    return command


def test_lines_are_records(run: Run) -> None:
    said = run("produce", "--topic", "plain", "--partition", 1, stdin=b"one\ntwo\r\nthree")
    assert (said.status, said.stdout) == (0, "3 records to plain\n")
    said = run("consume", "--topic", "plain", "--from-beginning", "--max-messages", 3)
    assert (said.status, said.stdout) == (0, "one\ntwo\nthree\n")
    assert said.stderr == "Processed a total of 3 messages\n"


def test_keys_and_headers_come_and_go(run: Run) -> None:
    parse = ("parse.key=true", "key.separator=|", "parse.headers=true", "null.marker=NIL")
    words = [word for each in parse for word in ("--property", each)]
    run("produce", "--topic", "keyed", "--partition", 0, *words, stdin=b"a:1,b:NIL\tk|v\nc:\tNIL|NIL\n")
    wanted = [f"print.{part}=true" for part in ("partition", "offset", "headers", "key")]
    words = [word for each in (*wanted, "key.separator=;") for word in ("--property", each)]
    said = run("consume", "--topic", "keyed", "--from-beginning", "--max-messages", 2, *words)
    assert said.stdout == "Partition:0;Offset:0;a:1,b:null;k;v\nPartition:0;Offset:1;c:;null;null\n"


def test_json_is_one_document_per_line(run: Run) -> None:
    said = run("produce", "--topic", "documents", "--partition", 0, "--format", "json", stdin=b"\xff\nx\n")
    assert json.loads(said.stdout) == {"topic": "documents", "records": 2, "transaction": None}
    said = run("consume", "--topic", "documents", "--offset", "earliest", "--partition", 0,
               "--max-messages", 2, "--format", "json")  # fmt: skip
    documents = [json.loads(line) for line in said.stdout.splitlines()]
    assert [(each["offset"], each["value"]) for each in documents] == [(0, {"base64": "/w=="}), (1, "x")]
    assert set(documents[0]) == {"topic", "partition", "offset", "timestamp_ms", "headers", "key", "value"}


@pytest.mark.parametrize(("flag", "fate"), [((), "committed"), (("--abort",), "aborted")])
def test_a_transaction_ends_as_it_was_asked_to(run: Run, flag: tuple[str, ...], fate: str) -> None:
    words = ("produce", "--topic", f"tx-{fate}", "--transactional-id", f"id-{fate}", "--format", "json")
    said = run(*words, *flag, stdin=b"1\n2\n")
    assert json.loads(said.stdout)["transaction"] == fate
    assert said.status == 0


def test_a_consumer_ends_when_nothing_comes(run: Run) -> None:
    run("produce", "--topic", "quiet", stdin=b"1\n")
    said = run("consume", "--topic", "quiet", "--timeout-ms", 300)
    assert (said.status, said.stdout, said.stderr) == (0, "", "Processed a total of 0 messages\n")


def test_an_offset_is_where_it_begins(run: Run) -> None:
    run("produce", "--topic", "offsets", "--partition", 2, stdin=b"0\n1\n2\n")
    words = ("consume", "--topic", "offsets", "--partition", 2, "--offset", 2)
    assert run(*words, "--max-messages", 1).stdout == "2\n"


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        pytest.param(
            ("produce", "--topic", "t", "--abort"), "needs --transactional-id", id="abort-of-nothing"
        ),
        pytest.param(("produce", "--topic", "t", "--property", "x=1"), "x not known", id="unknown-property"),
        pytest.param(("produce", "--topic", "t", "--property", "x"), "expected KEY=VALUE", id="no-pair"),
        pytest.param(
            ("produce", "--topic", "t", "--producer-property", "no.such=1"), "no.such", id="unknown-setting"
        ),
        pytest.param(("produce", "--topic", "t", "--partition", 99), "no partition 99", id="no-partition"),
        pytest.param(("consume", "--topic", "t", "--offset", "3"), "needs --partition", id="offset-of-all"),
        pytest.param(
            ("consume", "--topic", "t", "--partition", 0, "--offset", "x"), "earliest", id="no-offset"
        ),
        pytest.param(("consume", "--topic", "t", "--partition", 99), "no partition 99", id="nothing-there"),
    ],
)
def test_what_cannot_be_meant_is_wrong_usage(run: Run, words: tuple[Any, ...], complaint: str) -> None:
    run("produce", "--topic", "t", stdin=b"")
    said = run(*words)
    assert (said.status, complaint in said.stderr) == (2, True), said.stderr


@pytest.mark.parametrize("verb", ["produce", "consume"])
def test_a_cluster_that_is_not_there_is_status_3(
    verb: str, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fencepost.cluster.librdkafka.METADATA_SECONDS", 0.2)
    said = here(capsys, verb, "--topic", "t", "--bootstrap-server", "127.0.0.1:1")
    assert (said.status, "127.0.0.1:1" in said.stderr) == (3, True), said.stderr


@table(
    ("text", "properties", "expected"),
    [
        pytest.param(b"a\tb", {}, Line(b"a\tb"), id="a-line-is-a-value"),
        pytest.param(b"a\tb\tc", {"parse.key": "true"}, Line(b"b\tc", b"a"), id="a-key-ends-at-the-first"),
        pytest.param(b"a", {"parse.key": "true", "ignore.error": "true"}, Line(b"a"), id="no-key-ignored"),
        pytest.param(b"a", {"parse.key": "true"}, Failed, id="no-key"),
        pytest.param(b"a", {"parse.headers": "true"}, Failed, id="no-headers"),
        pytest.param(b"a\tb", {"parse.headers": "true"}, Failed, id="a-header-without-a-value"),
        pytest.param(b"", {"null.marker": ""}, Line(b""), id="empty-is-not-null"),
        pytest.param(b"-", {"null.marker": "-"}, Line(None), id="null"),
    ],
)
def test_a_line_is_read_as_kafkas_tool_reads_it(
    text: bytes, properties: dict[str, str], expected: Line | type[Failed]
) -> None:
    if isinstance(expected, Line):
        assert parse_line(text, 1, PROPERTIES | properties) == expected
    else:
        with pytest.raises(expected, match="line 7"):
            parse_line(text, 7, PROPERTIES | properties)
