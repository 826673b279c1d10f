"""A player is a process that does with one client library what it is told, a line at a time.

Line     a verb and its words, by tabs:  make NAME KEY=VALUE.. (a producer, initialized if transactional),
         begin NAME, send NAME TOPIC VALUE.. (to partition 0; returns when all are acknowledged), commit NAME,
         abort NAME, close NAME, read TOPIC COUNT ISOLATION (COUNT values of partition 0 at most). Java alone:
         hasty NAME TOPIC VALUE (a send whose failure is said before the library has dealt with it), metric
         NAME METRIC (a producer's).
Answer   a line: ``ok`` and the values, or ``error`` and what the library says. The first is ``ok VERSION``.
Fetched  kafkajs by npm and Kafka's Java client by Maven, into .clients (ignored by git), once.
"""

import contextlib
import queue
import shutil
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[2]
FETCHED: Final = ROOT / ".clients"
HERE: Final = Path(__file__).parent
CALL_SECONDS_MAX: Final = 60.0  # a call that takes longer hangs
FETCH_SECONDS_MAX: Final = 300.0


class NotHere(Exception):
    """This machine has not what the client needs."""


class CallFailed(Exception):
    """What the library said."""


class Hangs(Exception):
    """A call did not return."""


class Player:
    """One client library in a process of its own; what it writes to stderr is in ``log``."""

    def __init__(self, name: str, command: list[str], folder: Path, log: Path) -> None:
        self.name = name
        self.log = log
        with log.open("wb") as stderr:
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=stderr,
                cwd=folder,
                text=True,
            )
        self._answers: queue.SimpleQueue[str] = queue.SimpleQueue()
        self._listener = threading.Thread(target=self._listen, daemon=True)
        self._listener.start()
        (self.version,) = self._answer("start")

    def call(self, *words: str) -> list[str]:
        """Raises CallFailed, Hangs."""
        stdin = self._process.stdin
        assert stdin is not None
        try:
            stdin.write("\t".join(words) + "\n")
            stdin.flush()
        except BrokenPipeError as error:
            raise CallFailed(f"the process ended, see {self.log}") from error
        return self._answer(" ".join(words))

    def end(self) -> None:
        """At once, whatever it does: its producers are left as they are."""
        stdin, stdout = self._process.stdin, self._process.stdout
        assert stdin is not None
        assert stdout is not None
        self._process.kill()
        self._process.wait()
        self._listener.join()
        stdout.close()
        with contextlib.suppress(BrokenPipeError):
            stdin.close()

    def _answer(self, asked: str) -> list[str]:
        try:
            line = self._answers.get(timeout=CALL_SECONDS_MAX)
        except queue.Empty:
            raise Hangs(f"'{asked}' did not return in {CALL_SECONDS_MAX:.0f} s") from None
        verdict, *words = line.split("\t")
        if verdict != "ok":
            raise CallFailed(" ".join(words))
        return words

    def _listen(self) -> None:
        stdout = self._process.stdout
        assert stdout is not None
        for line in stdout:
            self._answers.put(line.rstrip("\n"))
        self._answers.put(f"error\tthe process ended, see {self.log}")


Start = Callable[[str, Path], Player]


def _python(library: str) -> Start:
    def start(bootstrap: str, logs: Path) -> Player:
        command = [
            sys.executable,
            "-W",
            "ignore",
            "-m",
            "tests.clients.python_player",
            library,
            bootstrap,
        ]
        return Player(library, command, ROOT, logs / f"{library}.log")

    return start


def _kafkajs(bootstrap: str, logs: Path) -> Player:
    folder = installed_kafkajs()
    command = ["node", str(HERE / "kafkajs/player.js"), bootstrap]
    return Player("kafkajs", command, folder, logs / "kafkajs.log")


def _java(bootstrap: str, logs: Path) -> Player:
    jars = java_client()
    command = ["java", "-cp", f"{jars}/*", str(HERE / "java/Player.java"), bootstrap]
    return Player("java", command, jars, logs / "java.log")


CONFLUENT: Final = "confluent-kafka"
PLAYERS: Final[dict[str, Start]] = {
    CONFLUENT: _python(CONFLUENT),
    "kafka-python": _python("kafka-python"),
    "aiokafka": _python("aiokafka"),
    "kafkajs": _kafkajs,
    "java": _java,
}


def need(*programs: str) -> None:
    """Raises NotHere."""
    missing = [each for each in programs if shutil.which(each) is None]
    if missing:
        raise NotHere(f"{' and '.join(missing)} not found")


def installed_kafkajs() -> Path:
    """The folder that has its node_modules. Raises NotHere."""
    need("node", "npm")
    folder = FETCHED / "kafkajs"
    _fetch(
        folder,
        HERE / "kafkajs/package.json",
        ["npm", "install", "--no-audit", "--no-fund", "--no-package-lock"],
    )
    return folder


def java_client() -> Path:
    """The folder with the jars of Kafka's Java client. Raises NotHere."""
    need("java", "mvn")
    return copied(HERE / "java/pom.xml", FETCHED / "java")


def copied(pom: Path, folder: Path) -> Path:
    """What a pom depends on: the folder with its jars. Raises NotHere."""
    copy = ["mvn", "--quiet", "--batch-mode", "dependency:copy-dependencies", "-DoutputDirectory=lib"]
    _fetch(folder, pom, copy)
    return folder / "lib"


def _fetch(folder: Path, wanted: Path, command: list[str]) -> None:
    """Once for this content of ``wanted``: the mark is written when all is there."""
    mark = folder / "fetched"
    if mark.exists() and mark.read_bytes() == wanted.read_bytes():
        return
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    shutil.copy(wanted, folder)
    try:
        ended = subprocess.run(
            command, cwd=folder, capture_output=True, text=True, timeout=FETCH_SECONDS_MAX, check=False
        )
    except subprocess.TimeoutExpired:
        raise NotHere(f"{command[0]} did not end in {FETCH_SECONDS_MAX:.0f} s") from None
    if ended.returncode:
        said = (ended.stderr or ended.stdout).strip().splitlines()
        raise NotHere(f"{command[0]} could not fetch it: {said[0] if said else ended.returncode}")
    shutil.copy(wanted, mark)
