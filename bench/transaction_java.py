"""The producers of Kafka's Java client that load a cluster: a JDK's launcher runs TransactionLoad.java.

Lines     of words divided by tabs; ``error`` and what the library says answers any that fails:
          ``open BOOTSTRAP TOPIC PRODUCERS MESSAGES MESSAGE_BYTES PARTITIONS ABORTS``: ``opened``, when each
          producer can begin; ``write RAMP_NS WINDOW_NS``: ``written`` and a word for each producer, its
          committed transactions and its latencies in the window, as ``1,2/900,800``; ``close``: ``closed``.
One       Java process for all loads of this process: its compiler does its work in the first of them.
"""

import atexit
import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Sequence
from importlib.resources import as_file, files
from pathlib import Path
from typing import Final

from fencepost.bench.transaction_records import Load, LoadFailed, Written

SOURCE: Final = "TransactionLoad.java"  # beside this file
QUIET: Final = "-Dorg.slf4j.simpleLogger.defaultLogLevel=error"
END_SECONDS_MAX: Final = 5.0
SAID_MAX: Final = 500  # characters of what Java writes to stderr

_processes: dict[str, "Java"] = {}  # by class path


def why_not(classpath: str | None) -> str:
    """Why Java cannot be run with these jars; empty if it can be tried."""
    if classpath is None:
        return "--client java needs --java-classpath: Kafka's client jars, such as '/opt/kafka/libs/*'"
    for entry in classpath.split(os.pathsep):
        path = Path(entry)
        if path.name == "*" and not any(path.parent.glob("*.jar")):
            return f"--java-classpath: there is no jar in {path.parent}"
        if path.name != "*" and not path.exists():
            return f"--java-classpath: there is no {path}"
    if shutil.which("java") is None:
        return "--client java: there is no program 'java' in PATH; a JDK of version 17 or newer is needed"
    return ""


class Java:
    """The process. Make it with ``java``."""

    def __init__(self, classpath: str) -> None:
        self._stderr = tempfile.TemporaryFile()  # noqa: SIM115  (as long as the process)
        with as_file(files("fencepost.bench") / SOURCE) as source:
            self._popen = subprocess.Popen(
                ["java", QUIET, "-cp", classpath, str(source)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=self._stderr,
                text=True,
            )
            self.pid = self._popen.pid
            self._answer("version")  # it has been compiled

    @property
    def is_running(self) -> bool:
        """It has not ended."""
        return self._popen.poll() is None

    def ask(self, expected: str, *words: object) -> list[str]:
        """The words of the answer after ``expected``. Raises LoadFailed."""
        stdin = self._popen.stdin
        try:
            if stdin is not None:
                stdin.write("\t".join(map(str, words)) + "\n")
                stdin.flush()
        except BrokenPipeError:
            pass  # the missing answer says how it ended
        return self._answer(expected)

    def _answer(self, expected: str) -> list[str]:
        line = "" if self._popen.stdout is None else self._popen.stdout.readline()
        word, *rest = line.rstrip("\n").split("\t")
        if not line:
            status = self._popen.wait()
            self._stderr.seek(0)
            said = " ".join(self._stderr.read().decode("utf-8", "replace").split())
            self.end()
            raise LoadFailed(f"java ended with status {status}: {said[:SAID_MAX]}")
        if word != expected:
            raise LoadFailed(f"java: {' '.join(rest)}")
        return rest

    def end(self) -> None:
        """Close its stdin, and wait; kill it if it does not end. May be called again."""
        for pipe in (self._popen.stdin, self._popen.stdout, self._stderr):
            if pipe is not None:
                pipe.close()
        try:
            self._popen.wait(END_SECONDS_MAX)
        except subprocess.TimeoutExpired:
            self._popen.kill()
            self._popen.wait()


def java(classpath: str) -> Java:
    """The process that runs, or a new one; it ends with this one. Raises LoadFailed."""
    current = _processes.get(classpath)
    if current is None or not current.is_running:
        current = _processes[classpath] = Java(classpath)
        atexit.register(current.end)
    return current


class JavaWriters:
    """See ``Writers``."""

    def __init__(self, load: Load, partitions: int) -> None:
        self._load = load
        self._partitions = partitions
        self._java = java(load.java_classpath)
        self.pids: Sequence[int] = (os.getpid(), self._java.pid)

    def open(self) -> None:
        """See Writers."""
        load = self._load
        numbers = (load.producers, load.messages, load.message_bytes, self._partitions)
        aborts = str(load.hides_aborted).lower()
        self._java.ask("opened", "open", load.bootstrap, load.topic, *numbers, aborts)

    def write(self, begin_ns: int, end_ns: int) -> list[Written]:
        """See Writers."""
        now_ns = time.monotonic_ns()
        written = self._java.ask("written", "write", begin_ns - now_ns, end_ns - begin_ns)
        return [Written(*(_numbers(text) for text in each.split("/"))) for each in written]

    def close(self) -> None:
        """See Writers."""
        if self._java.is_running:
            self._java.ask("closed", "close")


def _numbers(text: str) -> list[int]:
    return [int(each) for each in text.split(",") if each]
