"""``fencepost audit`` as others run it: in processes of their own, each with its Spark; its exit statuses."""

import json
import signal
import subprocess
from importlib.util import find_spec
from pathlib import Path

import pytest

from tests.audit.faults import cluster
from tests.harness.command import command, environment, fencepost

needs_spark = pytest.mark.skipif(find_spec("pyspark") is None, reason="needs the extra audit")
ON_TWO = ("--master", "local[2]", "--memory", "1g")


@pytest.fixture(scope="module")
def logs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One clean partition and no control plane."""
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
