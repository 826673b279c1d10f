"""A cluster's control over its socket: what each verb of ``fencepost fault`` does, and each refusal."""

import signal
import stat
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from fencepost.cli.documents.catalogue import DOCUMENTS
from fencepost.testing.cluster_failed import ClusterFailed
from fencepost.testing.control import SOCKET, VARIABLE, Control, request
from fencepost.testing.faults import Faults
from fencepost.testing.proxy_process import Process
from tests.harness.command import Result, contents, here
from tests.testing.here import asked_here

Capture = pytest.CaptureFixture[str]


class Stub:
    """Notes what it is to do."""

    node_ids = (1, 2)

    def __init__(self) -> None:
        process = Process()
        self.armory = process.proxy.armory
        self.faults = Faults(asked_here(process))
        self.done: list[tuple[Any, ...]] = []
        self.directory, self.bootstrap = Path(), ""

    def status(self, node: int) -> str:
        return "dead" if ("kill", node) in self.done else "running"

    def __getattr__(self, name: str) -> Any:
        return lambda *words: self.done.append((name, *words))


@pytest.fixture
def stub() -> Stub:
    return Stub()


@pytest.fixture
def path(stub: Stub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    held: Any = stub
    monkeypatch.setenv(VARIABLE, str(tmp_path / SOCKET))
    with Control(held, tmp_path / SOCKET) as control:
        yield control.path
    assert not (tmp_path / SOCKET).exists()


def fault(capsys: Capture, *words: object) -> Result:
    return here(capsys, "fault", *words, "--format", "json")


def test_only_its_owner_may_use_it(path: Path) -> None:
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_a_fault_is_armed_listed_waited_for_and_cleared(path: Path, stub: Stub, capsys: Capture) -> None:
    words = ("fail", "EndTxn", "NOT_COORDINATOR", "--match", "transactional_id=app", "--times", 2)
    (armed,) = contents(fault(capsys, *words).stdout)
    assert armed == {
        "number": 1,
        "action": "fail",
        "api": "EndTxn",
        "match": {"transactional_id": "app"},
        "times": 2,
        "fired": 0,
        "is_armed": True,
        "text": "fail(EndTxn, 16, transactional_id='app'), fired 0 times",
    }
    (by_number,) = stub.armory.of_key(26)
    assert (by_number.action, by_number.code, by_number.match) == ("fail", 16, {"transactional_id": "app"})
    late = fault(capsys, "wait", 1, "--timeout", 0)
    assert (late.status, "after 0 s not 1 times" in late.stderr) == (1, True)
    stub.armory.fire(by_number)
    assert contents(fault(capsys, "wait", 1).stdout)[0]["fired"] == 1
    for words_of in (("delay", "Fetch", 20.5), ("drop-answer", "Produce"), ("fail", "Produce", 16)):
        assert fault(capsys, *words_of).status == 0
    assert [each["action"] for each in contents(fault(capsys, "list").stdout)] == [
        *("fail", "delay", "drop_answer", "fail")
    ]
    assert [each["number"] for each in contents(fault(capsys, "clear", 3).stdout)] == [3]
    assert here(capsys, "fault", "clear").stdout.splitlines() == [
        "1  fail(EndTxn, 16, transactional_id='app'), fired 1 times, over",
        "2  delay(Fetch, 20.5 ms), fired 0 times, over",
        "4  fail(Produce, 16), fired 0 times, over",
    ]
    assert stub.faults.clear() == []


@pytest.mark.parametrize(
    ("words", "done"),
    [
        (("kill", "leader"), ("kill", "leader")),
        (("kill", 2), ("kill", 2)),
        (("pause", "follower"), ("pause", "follower")),
        (("isolate", 1), ("isolate", 1)),
        (("start",), ("start",)),
        (("start", 1, 2), ("start", 1, 2)),
        (("resume", 2), ("resume", 2)),
        (("cut", 1, 2), ("cut", 1, 2)),
        (("heal",), ("heal",)),
        (("advance-clock", 90), ("advance_clock", 90.0)),
    ],
    ids=str,
)
def test_what_happens_to_nodes(
    path: Path, stub: Stub, capsys: Capture, words: tuple[object, ...], done: tuple[object, ...]
) -> None:
    nodes = contents(fault(capsys, *words).stdout)["nodes"]
    assert stub.done == [done]
    assert [each["status"] for each in nodes] == ["running", "dead" if done == ("kill", 2) else "running"]


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (("drop-answer", "EndTransaction"), "no API is named 'EndTransaction'"),
        (("fail", "EndTxn", "NO_SUCH"), "no error is named 'NO_SUCH'"),
        (("fail", "EndTxn", 0), "no error of Kafka has the number 0"),
        (("delay", "EndTxn", "nan"), "ms: expected a number"),
        (("disconnect", "EndTxn", "--match", "color=red"), "match has no color"),
        (("wait", 7), "no fault has number 7; armed were none"),
    ],
    ids=["api", "error", "no-error", "no-time", "match", "number"],
)
def test_what_is_refused(path: Path, capsys: Capture, words: tuple[object, ...], complaint: str) -> None:
    refused = fault(capsys, *words)
    assert (refused.status, complaint in refused.stderr) == (1, True), refused.stderr


def test_without_a_command_it_says_where_the_cluster_is_until_ctrl_c(
    stub: Stub, tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    stub.directory, stub.bootstrap = tmp_path / "cluster", "127.0.0.1:9092"

    def end(_seconds: float) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("fencepost.cli.fault.Cluster", lambda *_, **__: nullcontext(stub))
    monkeypatch.setattr("fencepost.cli.fault.time", SimpleNamespace(sleep=end))
    before = [signal.getsignal(each) for each in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)]
    try:
        said = here(capsys, "fault", "run", "--format", "json")
    finally:
        for each, handler in zip((signal.SIGINT, signal.SIGTERM, signal.SIGHUP), before, strict=True):
            signal.signal(each, handler)
    assert said.status == 130
    document = msgspec.json.decode(said.stdout, type=DOCUMENTS["fault run"], strict=True)
    assert (document.bootstrap, document.socket) == (stub.bootstrap, str(tmp_path / SOCKET))


def test_without_a_cluster_it_says_what_to_do(tmp_path: Path, capsys: Capture) -> None:
    gone = here(capsys, "fault", "list", "--socket", tmp_path / "gone")
    assert (gone.status, "does 'fencepost fault run' run?" in gone.stderr) == (3, True)


def test_bytes_that_are_no_request_get_a_sentence(path: Path) -> None:
    with pytest.raises(ClusterFailed, match="this is no request"):
        request(path, "burn")
    with pytest.raises(ClusterFailed, match="this is no request"):
        request(path, "nodes", do="burn")
    with pytest.raises(ClusterFailed, match="this is no request"):
        request(path, "arm", color="red")
