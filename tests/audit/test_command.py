"""``fencepost audit`` as others run it, in processes of their own; its exit statuses.

On Spark: ``spark/source/test_java.py``.
"""

import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.audit.faults import cluster
from tests.harness.command import Result, checked, command, environment, in_process

NO_SPARK = """
import subprocess, sys
sys.modules["pyspark"] = None
def refused(*arguments, **options):
    raise AssertionError(f"a process is started: {arguments}")
subprocess.Popen.__init__ = refused
from fencepost.cli.main import main
main(sys.argv[1:])
"""
"""A program in which pyspark cannot be imported, and no process can be started: there is no JVM."""


@pytest.fixture(scope="module")
def logs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One clean partition and no control plane."""
    whole = cluster.unpacked(tmp_path_factory.mktemp("cluster"))
    (segment,) = whole.rglob("payments-0/*.log")
    folder = tmp_path_factory.mktemp("logs") / "payments-0"
    segment.parent.rename(folder)
    return folder.parent


@pytest.mark.parametrize("engine", ["auto", "embedded"])
def test_a_small_audit_needs_no_spark_and_no_java(logs: Path, engine: str) -> None:
    words = [sys.executable, "-c", NO_SPARK, "audit", "check", str(logs), "--check", "integrity"]
    said = subprocess.run(
        [*words, "--engine", engine], capture_output=True, text=True, env=environment(), check=False
    )
    assert said.returncode == 0, said.stderr
    assert said.stdout.startswith("integrity  passed")
    assert not said.stderr


def test_a_check_that_does_not_exist_is_refused(logs: Path) -> None:
    said = in_process("audit", "check", logs, "--check", "magic")
    assert said.status == 2
    assert "there is no check magic" in said.stderr


def test_a_directory_that_is_not_there_is_not_clean(tmp_path: Path) -> None:
    nowhere = tmp_path / "nowhere"
    said = in_process("audit", "ingest", nowhere, "--tables", tmp_path / "tables")
    assert said.status == 3
    assert said.stdout.startswith(f"not read: {nowhere}:0: ")


@pytest.mark.parametrize(
    ("options", "status"),
    [
        pytest.param((), 3, id="what-is-unknown-is-not-clean"),
        pytest.param(("--allow-unknown",), 0, id="unless-it-is-allowed"),
    ],
)
def test_what_is_unknown_has_a_status(logs: Path, options: tuple[str, ...], status: int) -> None:
    said = in_process("audit", "check", logs, "--check", "blocks", *options)
    assert "there is no metadata log" in said.stdout
    assert said.status == status


def test_each_answer_is_a_document_of_the_schema(logs: Path, tmp_path: Path) -> None:
    """``in_process`` holds each against it."""
    whole, tables, page = cluster.unpacked(tmp_path / "cluster"), tmp_path / "tables", tmp_path / "page.html"
    for words, status in (
        (("ingest", whole, "--tables", tables), 0),
        (("query", "--tables", tables, "--producer-id", 5), 0),
        (("query", "--tables", tables, "--transactional-id", "codec-zstd"), 0),
        (("report", logs, "--output", page, "--check", "integrity"), 0),
    ):
        said = in_process("audit", *words, "--engine", "embedded", "--format", "json")
        assert said.status == status, said


@pytest.mark.slow
def test_a_watch_tells_each_fault_once_as_it_appears(logs: Path, tmp_path: Path) -> None:
    (segment,) = logs.rglob("*.log")
    sound = segment.read_bytes()
    watched = tmp_path / "payments-0" / segment.name
    watched.parent.mkdir()
    watched.write_bytes(damaged(sound))
    words = command("audit", "watch", tmp_path, "--check", "integrity", "--format", "json")
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
    for each in (first, second):
        checked(words, Result(0, json.dumps(each), ""))


def damaged(sound: bytes) -> bytes:
    """The first batch is not what its checksum says."""
    content = bytearray(sound)
    content[70] ^= 1
    return bytes(content)
