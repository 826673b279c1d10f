"""``produce`` and ``consume`` on a real node: lines in, records out, and each refusal."""

import io
import json
import shlex
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from fencepost.cli import consume
from fencepost.cli.produce import PROPERTIES, Line, _read, parse_line
from fencepost.cluster.console import Failed
from tests.harness.command import Result, command, contents, environment, here
from tests.harness.nodes import Nodes, running
from tests.together import table

Capture = pytest.CaptureFixture[str]
Run = Callable[..., Result]
NOWHERE = "127.0.0.1:1"


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Nodes]:
    """One node, for all tests of this file."""
    with running(tmp_path_factory.mktemp("lines") / "cluster", "num.partitions=3", count=1) as nodes:
        yield nodes


@pytest.fixture
def run_at(capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Runs a command against a cluster, with this on its stdin."""

    def run(bootstrap: str, *words: object, stdin: bytes = b"") -> Result:
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin)))
        return here(capsys, *words, "--bootstrap-server", bootstrap)

    return run


@pytest.fixture
def run(node: Nodes, run_at: Run) -> Run:
    """Runs a command against the node."""
    return lambda *words, stdin=b"": run_at(node.bootstrap, *words, stdin=stdin)


@pytest.mark.slow
def test_lines_are_records(run: Run) -> None:
    said = run("produce", "--topic", "plain", "--partition", 1, stdin=b"one\ntwo\r\nthree")
    assert (said.status, said.stdout) == (0, "3 records to plain\n"), said.stderr
    said = run("consume", "--topic", "plain", "--from-beginning", "--max-messages", 3)
    assert (said.status, said.stdout) == (0, "one\ntwo\nthree\n")
    assert said.stderr == "Processed a total of 3 messages\n"


@pytest.mark.slow
def test_a_reader_that_leaves_ends_it_with_0_and_it_commits_what_was_read(run: Run, node: Nodes) -> None:
    run("produce", "--topic", "headed", "--partition", 0, stdin=b"one\ntwo\n")
    words = ("consume", "--topic", "headed", "--from-beginning", "--bootstrap-server", node.bootstrap)
    with subprocess.Popen(command(*words), stdout=subprocess.PIPE, env=environment()) as consuming:
        assert consuming.stdout is not None
        assert consuming.stdout.readline() == b"one\n", "it is there at once, also in a pipe"
        consuming.stdout.close()
        assert consuming.wait(60) == 0


@pytest.mark.slow
def test_what_was_counted_is_said_of_text_that_was_read_to_its_end(run: Run, node: Nodes) -> None:
    run(
        "produce",
        "--topic",
        "counted",
        "--partition",
        0,
        stdin=b"".join(b"%d\n" % each for each in range(9999)),
    )
    words = ["consume", "--topic", "counted", "--from-beginning", "--bootstrap-server", node.bootstrap]
    left = shlex.join(command(*words)) + " | head -n 1"
    done = subprocess.run(["sh", "-c", left], capture_output=True, text=True, check=True, env=environment())
    assert (done.stdout, done.stderr) == ("0\n", ""), "its reader has seen how many it took"
    failed = run("consume", "--topic", "counted", "--partition", 9, "--format", "json")
    assert json.loads(failed.stderr)["error"]["exit_status"] == 2, "one document, and nothing beside it"


@pytest.mark.slow
def test_without_a_standard_input_there_is_nothing_to_produce(node: Nodes) -> None:
    line = shlex.join(command("produce", "--topic", "none", "--bootstrap-server", node.bootstrap)) + " <&-"
    done = subprocess.run(
        ["sh", "-c", line], capture_output=True, text=True, check=False, env=environment(), timeout=60
    )
    assert (done.returncode, done.stdout) == (0, "0 records to none\n"), done.stderr


@pytest.mark.slow
def test_keys_and_headers_come_and_go(run: Run) -> None:
    parse = ("parse.key=true", "key.separator=|", "parse.headers=true", "null.marker=NIL")
    words = [word for each in parse for word in ("--property", each)]
    run("produce", "--topic", "keyed", "--partition", 0, *words, stdin=b"a:1,b:NIL\tk|v\nc:\tNIL|NIL\n")
    wanted = [f"print.{part}=true" for part in ("partition", "offset", "headers", "key")]
    words = [word for each in (*wanted, "key.separator=;") for word in ("--property", each)]
    said = run("consume", "--topic", "keyed", "--from-beginning", "--max-messages", 2, *words)
    assert said.stdout == "Partition:0;Offset:0;a:1,b:null;k;v\nPartition:0;Offset:1;c:;null;null\n"


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["CreateTime", "LogAppendTime"])
def test_a_timestamp_says_whose_it_is(run: Run, kind: str) -> None:
    topic = f"times-{kind}"
    run("topics", "create", "--topic", topic, "--config", f"message.timestamp.type={kind}")
    run("produce", "--topic", topic, stdin=b"x\n")
    words = ("--property", "print.timestamp=true", "--property", "key.separator=;")
    said = run("consume", "--topic", topic, "--from-beginning", "--max-messages", 1, *words)
    assert said.stdout.startswith(f"{kind}:17"), said
    assert said.stdout.endswith(";x\n")


@pytest.mark.slow
def test_json_is_one_document_per_line(run: Run) -> None:
    said = run("produce", "--topic", "documents", "--partition", 0, "--format", "json", stdin=b"\xff\nx\n")
    assert contents(said.stdout) == {"topic": "documents", "records": 2, "transaction": None}
    said = run("consume", "--topic", "documents", "--offset", "earliest", "--partition", 0,
               "--max-messages", 2, "--format", "json")  # fmt: skip
    documents = [json.loads(line) for line in said.stdout.splitlines()]
    assert [(each["offset"], each["value"]) for each in documents] == [(0, {"base64": "/w=="}), (1, "x")]
    names = {"topic", "partition", "offset", "timestamp_ms", "headers", "key", "value"}
    assert set(documents[0]) == names | {"schema_version"}


@pytest.mark.slow
@pytest.mark.parametrize(("flag", "fate"), [((), "committed"), (("--abort",), "aborted")])
def test_a_transaction_ends_as_it_was_asked_to(run: Run, flag: tuple[str, ...], fate: str) -> None:
    words = ("produce", "--topic", f"tx-{fate}", "--transactional-id", f"id-{fate}", "--format", "json")
    said = run(*words, *flag, stdin=b"1\n2\n")
    assert contents(said.stdout)["transaction"] == fate
    assert said.status == 0


@pytest.mark.slow
def test_what_is_aborted_is_hidden_from_read_committed(run: Run) -> None:
    for number, flag in enumerate(((), ("--abort",), ())):
        run("produce", "--topic", "hidden", "--partition", 0, "--transactional-id", "h", *flag,
            stdin=b"%d\n" % number)  # fmt: skip
    words = ("consume", "--topic", "hidden", "--from-beginning", "--timeout-ms", 1000)
    assert run(*words, "--isolation-level", "read_committed").stdout == "0\n2\n"
    assert run(*words).stdout == "0\n1\n2\n"


@pytest.mark.slow
def test_a_consumer_ends_when_nothing_comes(run: Run) -> None:
    run("produce", "--topic", "quiet", stdin=b"1\n")
    said = run("consume", "--topic", "quiet", "--timeout-ms", 300)
    assert (said.status, said.stdout, said.stderr) == (0, "", "Processed a total of 0 messages\n")


@pytest.mark.slow
def test_an_offset_is_where_it_begins(run: Run) -> None:
    run("produce", "--topic", "offsets", "--partition", 2, stdin=b"0\n1\n2\n")
    words = ("consume", "--topic", "offsets", "--partition", 2, "--offset", 2)
    assert run(*words, "--max-messages", 1).stdout == "2\n"


@pytest.mark.slow
def test_a_line_is_written_before_the_next_one_comes_and_an_interrupt_aborts(node: Nodes, run: Run) -> None:
    """What an operator types is there at once; Ctrl-C ends the transaction, and the command."""
    words = ("produce", "--topic", "typed", "--transactional-id", "typed", "--bootstrap-server")
    with subprocess.Popen(
        command(*words, node.bootstrap), stdin=subprocess.PIPE, stderr=subprocess.PIPE, env=environment()
    ) as typing:
        assert typing.stdin is not None
        typing.stdin.write(b"1\n")
        typing.stdin.flush()
        consume = ("consume", "--topic", "typed", "--from-beginning")
        while not run(*consume, "--max-messages", 1, "--timeout-ms", 200).stdout:
            assert typing.poll() is None
        typing.send_signal(signal.SIGINT)
        assert typing.wait(30) == 130
    said = run(*consume, "--isolation-level", "read_committed", "--timeout-ms", 300)
    assert said.stdout == ""
    (row,) = contents(run("transactions", "list", "--format", "json").stdout)[-1:]
    assert row["transaction_state"] != "Ongoing", row


@pytest.mark.slow
def test_what_comes_before_a_refused_line_is_written(run: Run) -> None:
    large = b"x" * 2_000_000
    said = run("produce", "--topic", "refused", stdin=b"1\n2\n" + large + b"\n3\n")
    assert (said.status, "2 records were produced, 1 not" in said.stderr) == (1, True), said
    words = ("--topic", "refused", "--property", "parse.key=true")
    said = run("produce", *words, stdin=b"k\t4\nno key\n")
    assert (said.status, "line 2: no key separator" in said.stderr) == (1, True), said
    read = run("consume", "--topic", "refused", "--from-beginning", "--max-messages", 3, "--timeout-ms", 2000)
    assert sorted(read.stdout.split()) == ["1", "2", "4"]


@pytest.mark.slow
def test_what_was_printed_is_committed_and_no_more(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of the four records that come at once, two are printed."""
    run("produce", "--topic", "printed", "--partition", 0, stdin=b"1\n2\n3\n4\n")
    write = consume._write
    printed: list[Any] = []

    def breaks(stdout: Any, record: Any, *how: Any) -> None:
        if len(printed) == 2:
            raise Failed("no more")
        printed.append(record.value)
        write(stdout, record, *how)

    words = ("consume", "--topic", "printed", "--group", "readers", "--from-beginning", "--max-messages")
    with monkeypatch.context() as patched:
        patched.setattr(consume, "_write", breaks)
        said = run(*words, 4)
    assert (said.status, said.stdout) == (1, "1\n2\n")
    assert run(*words, 2).stdout == "3\n4\n"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("words", "status", "complaint"),
    [
        (("produce", "--topic", "plain", "--partition", 99), 2, "no partition 99"),
        (("consume", "--topic", "plain", "--partition", 99), 2, "no partition 99"),
        (("consume", "--topic", "nowhere"), 1, "fencepost topics create --topic nowhere"),
        (("consume", "--topic", "nowhere", "--group", "g"), 1, "there is no topic nowhere"),
    ],
    ids=str,
)
def test_what_the_cluster_does_not_have(
    run: Run, words: tuple[Any, ...], status: int, complaint: str
) -> None:
    run("produce", "--topic", "plain", stdin=b"")
    said = run(*words)
    assert (said.status, complaint in said.stderr) == (status, True), said.stderr


PRODUCE = ("produce", "--topic", "t")
CONSUME = ("consume", "--topic", "t")


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        ((*PRODUCE, "--abort"), "needs --transactional-id"),
        ((*PRODUCE, "--property", "x=1"), "x not known"),
        ((*PRODUCE, "--property", "x"), "expected KEY=VALUE"),
        ((*PRODUCE, "--producer-property", "no.such=1"), "no.such is no setting"),
        ((*PRODUCE, "--producer-property", "linger.ms=soon"), "linger.ms: expected a number"),
        ((*PRODUCE, "--producer-property", "acks=2"), "acks: expected all or -1"),
        ((*PRODUCE, "--producer-property", "enable.idempotence=false"), "enable.idempotence: expected true"),
        ((*PRODUCE, "--producer-property", "batch.size=0"), "batch_size"),
        ((*CONSUME, "--consumer-property", "auto.offset.reset=nearest"), "nearest"),
        ((*CONSUME, "--consumer-property", "acks=all"), "acks is no setting"),
        ((*CONSUME, "--offset", "3"), "needs --partition"),
        ((*CONSUME, "--partition", 0, "--offset", "x"), "earliest"),
        ((*CONSUME, "--group", "g", "--partition", 0), "--group goes without --partition"),
        ((*CONSUME, "--group", "g", "--partition", 0, "--offset", 1), "--group goes without --partition"),
    ],
    ids=str,
)
def test_what_cannot_be_meant_is_wrong_usage(run_at: Run, words: tuple[Any, ...], complaint: str) -> None:
    said = run_at(NOWHERE, *words)
    assert (said.status, complaint in said.stderr) == (2, True), said.stderr


@pytest.mark.parametrize("verb", ["produce", "consume"])
def test_a_cluster_that_is_not_there_is_status_3(
    verb: str, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fencepost.cluster.kafka_clients.CALL_SECONDS", 0.2)
    said = here(capsys, verb, "--topic", "t", "--bootstrap-server", NOWHERE)
    assert (said.status, NOWHERE in said.stderr) == (3, True), said.stderr


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


def test_lines_may_come_in_pieces() -> None:
    class Pieces:
        def __init__(self, *pieces: bytes) -> None:
            self._pieces = list(pieces)

        def read(self, _size: int) -> bytes:
            return self._pieces.pop(0) if self._pieces else b""

    given: list[list[bytes] | None] = []
    _read(Pieces(b"a\n", b"b", b"c", b"\n\nd\ne", b"f\n", b"g"), given.append)
    assert given == [[b"a"], [b"bc", b"", b"d"], [b"ef"], [b"g"], None]
