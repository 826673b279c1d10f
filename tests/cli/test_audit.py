"""``fencepost audit``: what it refuses before Spark starts, and its exit statuses, run as others run it."""

import json
import signal
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from fencepost.cli.audit import EXTRA_MISSING
from tests.harness.command import command, environment, fencepost, here

Capture = pytest.CaptureFixture[str]

REFUSED = [
    pytest.param(["ingest", "--tables", "t"], "nothing to audit", id="ingest-nothing"),
    pytest.param(["ingest", "/logs"], "--tables", id="ingest-to-nowhere"),
    pytest.param(["check"], "nothing to audit", id="check-nothing"),
    pytest.param(["report"], "nothing to audit", id="report-nothing"),
    pytest.param(["watch", "--tables", "t"], "nothing to audit", id="watch-needs-a-dir"),
    pytest.param(["query", "/logs"], "--producer-id or --transactional-id", id="query-nothing"),
    pytest.param(
        ["query", "/logs", "--producer-id", 1, "--transactional-id", "a"], "name one", id="query-two-things"
    ),
    pytest.param(["query", "/logs", "--transactional-id", "a", "--at", "1"], "--at needs", id="query-at"),
    pytest.param(["query", "/logs", "--producer-id", -1], "--producer-id", id="query-no-id"),
    pytest.param(["watch", "/logs", "--interval", 0], "--interval", id="watch-without-a-pause"),
]


@pytest.mark.parametrize(("words", "reason"), REFUSED)
def test_what_cannot_be_meant_is_refused(words: list[object], reason: str, capsys: Capture) -> None:
    said = here(capsys, "audit", *words)
    assert said.status == 2
    assert reason in said.stderr


@pytest.mark.parametrize("verb", ["ingest", "check", "report", "watch", "query"])
def test_without_the_extra_it_says_what_to_install(
    verb: str, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in [each for each in sys.modules if each.partition(".")[0] in {"audit", "pyspark"}]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "pyspark", None)
    more = {"ingest": ("--tables", "t"), "query": ("--producer-id", "1")}.get(verb, ())
    said = here(capsys, "audit", verb, "/logs", *more)
    assert said.status == 2
    assert EXTRA_MISSING in said.stderr


@pytest.mark.parametrize(
    ("fault", "status"),
    [
        pytest.param(ValueError("a bug"), 3, id="a-bug-is-no-finding"),
        pytest.param(OSError("disk full"), 3, id="the-disk"),
    ],
)
def test_what_goes_wrong_is_never_taken_for_findings(
    fault: Exception, status: int, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("pyspark")
    from fencepost.audit.jobs import check

    def fails(_names: object) -> None:
        raise fault

    monkeypatch.setattr(check, "require_names", fails)
    said = here(capsys, "audit", "check", "/logs")
    assert said.status == status
    assert str(fault) in said.stderr


needs_spark = pytest.mark.skipif(find_spec("pyspark") is None, reason="needs the extra audit")
ON_TWO = ("--master", "local[2]", "--memory", "1g")


@pytest.fixture(scope="module")
def logs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One clean partition and no control plane."""
    from tests.audit.faults import cluster

    whole = cluster.unpacked(tmp_path_factory.mktemp("cluster"))
    (segment,) = whole.rglob("payments-0/*.log")
    folder = tmp_path_factory.mktemp("logs") / "payments-0"
    segment.parent.rename(folder)
    return folder.parent


@pytest.mark.slow
@pytest.mark.row("card.8")
@needs_spark
def test_a_check_that_does_not_exist_costs_no_spark(logs: Path) -> None:
    said = fencepost("audit", "check", logs, "--check", "magic", *ON_TWO)
    assert said.status == 2
    assert "there is no check magic" in said.stderr


@pytest.mark.slow
@pytest.mark.row("card.8")
@needs_spark
def test_a_directory_that_is_not_there_is_not_clean(tmp_path: Path) -> None:
    nowhere = tmp_path / "nowhere"
    said = fencepost("audit", "ingest", nowhere, "--tables", tmp_path / "tables", *ON_TWO)
    assert said.status == 3
    assert said.stdout.startswith(f"not read: {nowhere}:0: ")


@pytest.mark.slow
@pytest.mark.row("card.8")
@needs_spark
def test_a_watch_tells_each_fault_once_as_it_appears(logs: Path, tmp_path: Path) -> None:
    (segment,) = logs.rglob("*.log")
    sound = segment.read_bytes()
    watched = tmp_path / "payments-0" / segment.name
    watched.parent.mkdir()
    watched.write_bytes(damaged(sound))
    words = command("audit", "watch", tmp_path, "--check", "integrity", "--format", "json", *ON_TWO)
    process = subprocess.Popen(words, stdout=subprocess.PIPE, text=True, env=environment())
    assert process.stdout is not None
    try:
        first = json.loads(process.stdout.readline())
        end = watched.stat().st_size
        with watched.open("ab") as file:
            file.write(damaged(sound))
        second = json.loads(process.stdout.readline())
        process.send_signal(signal.SIGINT)
        rest = process.stdout.read()
        status = process.wait()
    finally:
        process.kill()
        process.stdout.close()
        process.wait()
    assert (first["check"], first["rule"], first["path"], first["position"]) == (
        "integrity",
        "crc",
        str(watched),
        0,
    )
    assert (second["rule"], second["position"]) == ("crc", end)
    assert (rest, status) == ("", 1)


def damaged(sound: bytes) -> bytes:
    """The first batch is not what its checksum says."""
    content = bytearray(sound)
    content[70] ^= 1
    return bytes(content)
