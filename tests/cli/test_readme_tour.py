"""The README's tour as its reader types it: each command does what the page says, and prints it."""

import re
import subprocess
from pathlib import Path
from typing import Final

import pytest

from tests.harness.command import TIMEOUT_S, command, environment, in_process, stdout_of
from tests.ports import cluster_port

pytestmark = pytest.mark.slow
TEXT: Final = (Path(__file__).parents[2] / "README.md").read_text("utf-8")
VARIES: Final = re.compile(r"\S*\d\S*|[\w-]{22}")  # numbers, times, addresses, ids

IN_JSON: Final = (
    "up --port PORT --detach",
    "kill DIED",
    "start DIED",
    "features describe",
    "features upgrade --feature transaction.version=2 --dry-run",
    "configs alter --topic orders --add-config retention.ms=60000",
    "topics delete --topic orders",
)


def tour() -> list[tuple[str, str]]:
    """(command, what it prints), up to the first command of the audit."""
    section = TEXT.partition("## A minute's tour\n")[2].partition("$ fencepost audit")[0]
    steps = []
    for block in re.findall(r"^```console\n(.*?)^```", section, re.MULTILINE | re.DOTALL):
        for step in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
            typed, _, printed = step.partition("\n")
            steps.append((typed, printed))
    return steps


def lines(text: str) -> list[str]:
    return [" ".join(VARIES.sub("#", line).split()) for line in text.splitlines() if line.strip()]


def is_what(page: str, said: str) -> bool:
    """The same lines, in whatever order and number, as nodes differ; with ``...`` what follows it."""
    if "...\n" in page:
        return " ".join(lines(page.partition("...\n")[2])) in " ".join(lines(said))
    return set(lines(page)) == set(lines(said))


def typed_in(words: str, port: int, died: str) -> str:
    """What the command prints. The port is a free one, and the node that died may be another one."""
    fed, _, words = words.rpartition(" | ")
    arguments = words.removeprefix("fencepost ").split()
    if arguments[0] == "up":
        arguments += ["--port", str(port)]
    if arguments[0] == "start":
        arguments[1:] = [died]
    if not fed:
        done = in_process(*arguments)
        return stdout_of(done) + done.stderr
    ended = subprocess.run(
        ["sh", "-c", f"{fed} | {' '.join(command(*arguments))}"],
        capture_output=True,
        text=True,
        env=environment(),
        timeout=TIMEOUT_S,
        check=True,
    )
    return ended.stdout


def test_the_tour_is_what_happens(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    port, died, steps = cluster_port(), "", tour()
    assert [typed.split()[1] for typed, _ in steps if typed.startswith("fencepost ")] == [
        *("up", "quorum", "kill", "health", "start", "producer-ids", "topics", "consume", "transactions"),
    ]
    try:
        for typed, page in steps:
            said = typed_in(typed, port, died)
            assert is_what(page, said), f"$ {typed}\n{said}"
            died = died or (re.findall(r"^node (\d+) .* now dead$", said, re.MULTILINE) or [""])[0]
            if typed.startswith("fencepost up"):
                again = typed_in(typed, port, died)
                assert said.split("NODE")[1] == again.split("NODE")[1], "what runs already is left alone"
        for words in IN_JSON:  # each document is held against the schema
            chosen = [
                str(port) if word == "PORT" else died if word == "DIED" else word for word in words.split()
            ]
            stdout_of(in_process(*chosen, "--format", "json"))
    finally:
        stdout_of(in_process("down", "--format", "json"))
