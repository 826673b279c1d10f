"""The Java client of ``bench transactions``, without a JDK: what it needs, and the lines that it answers."""

import os
from pathlib import Path

import pytest
from msgspec import structs

from fencepost.bench.process import child
from fencepost.bench.transaction_java import Java, JavaWriters, java, why_not
from fencepost.bench.transaction_load import JAVA, Loaded, Mock
from fencepost.bench.transaction_records import Load, LoadFailed, Written
from fencepost.bench.transactions import LOAD_MODULE
from fencepost.cluster.console import Failed


@pytest.fixture
def program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A program in PATH in the place of ``java``; tests write it."""
    file = tmp_path / "java"
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    return file


def write(program: Path, script: str) -> None:
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)


def load() -> Load:
    return Load(
        client=JAVA, bootstrap="127.0.0.1:9092", topic="t", producers=2, messages=3, message_bytes=100,
        warm_up_s=0.0, seconds=1.0, hides_aborted=True, java_classpath="jars/*",
    )  # fmt: skip


def test_what_is_written_comes_back_by_producer(program: Path, tmp_path: Path) -> None:
    write(program, """\
printf 'version\\t4.1.1\\n'
read -r line; printf '%s\\n' "$line" > "$0.opened"; echo opened
read -r line; printf '%s\\n' "$line" > "$0.wrote"; printf 'written\\t0,1,3/900,800\\t/\\n'
read -r line; echo closed
""")  # fmt: skip
    writers = JavaWriters(load(), 4)
    writers.open()
    assert (tmp_path / "java.opened").read_text().split() == [
        "open", "127.0.0.1:9092", "t", "2", "3", "100", "4", "true",
    ]  # fmt: skip
    assert writers.write(2**62, 2**62 + 5_000) == [Written([0, 1, 3], [900, 800]), Written([], [])]
    verb, ramp_ns, window_ns = (tmp_path / "java.wrote").read_text().split()
    assert (verb, window_ns) == ("write", "5000")
    assert 2**61 < int(ramp_ns) < 2**62
    writers.close()
    assert writers.pids[0] == os.getpid()
    assert len(set(writers.pids)) == 2
    java(load().java_classpath).end()


def test_what_the_library_says_fails_the_load(program: Path) -> None:
    write(program, """\
printf 'version\\t4.1.1\\n'
read -r line; printf 'error\\tTimeoutException: no metadata\\n'
read -r line
""")  # fmt: skip
    process = Java("jars/*")
    with pytest.raises(LoadFailed, match="java: TimeoutException: no metadata"):
        process.ask("opened", "open")
    process.end()


def test_a_java_that_ends_says_why(program: Path) -> None:
    write(program, "echo 'error: no compiler' >&2; exit 3")
    with pytest.raises(LoadFailed, match="java ended with status 3: error: no compiler"):
        Java("jars/*")


def test_a_java_that_ends_in_the_window_says_why_and_another_one_follows(program: Path) -> None:
    write(program, """\
printf 'version\\t4.1.1\\n'
read -r line; echo opened
read -r line; echo 'out of memory' >&2; exit 9
""")  # fmt: skip
    writers = JavaWriters(load(), 4)
    writers.open()
    with pytest.raises(LoadFailed, match="java ended with status 9: out of memory"):
        writers.write(0, 1)
    writers.close()
    write(program, "printf 'version\\t4.1.1\\n'; read -r line; echo opened; read -r line")
    again = JavaWriters(load(), 4)
    again.open()
    assert again.pids[1] != writers.pids[1]
    java(load().java_classpath).end()


def test_a_load_that_fails_does_not_end_its_process(program: Path, mock_cluster: str) -> None:
    write(program, "exit 3")
    with child("load", LOAD_MODULE) as loading:
        with pytest.raises(Failed, match="load: java ended with status 3"):
            loading.ask(structs.replace(load(), bootstrap=mock_cluster, topic="failing"), Loaded)
        assert loading.ask(Mock(1), str)


def test_what_java_needs_is_named_before_anything_starts(
    program: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(program, "exit 1")
    assert "needs --java-classpath" in why_not(None)
    assert why_not(f"{tmp_path}/*") == f"--java-classpath: there is no jar in {tmp_path}"
    assert why_not(f"{tmp_path}/no.jar") == f"--java-classpath: there is no {tmp_path}/no.jar"
    (tmp_path / "kafka-clients.jar").touch()
    assert why_not(f"{tmp_path}/*:{tmp_path}/kafka-clients.jar") == ""
    monkeypatch.setenv("PATH", str(tmp_path / "nothing"))
    assert "no program 'java' in PATH" in why_not(f"{tmp_path}/*")
