"""The README's tour as its reader types it: each command does what the page says, and prints it."""

import re
from pathlib import Path
from typing import Final

import pytest

from tests.harness.command import in_process, stdout_of
from tests.harness.shell_pages import is_what, shell_blocks, steps, typed
from tests.ports import cluster_port

pytestmark = pytest.mark.slow

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
    """(command, what it prints), up to the audit."""
    return [step for number in (1, 2) for step in steps(shell_blocks("README.md")[number])]


def typed_in(words: str, port: int, died: str) -> str:
    """What the command prints. The port is a free one, and the node that died may be another one."""
    if words.startswith("fencepost up"):
        words += f" --port {port}"
    if words.startswith("fencepost start"):
        words = f"fencepost start {died}"
    return typed(words)


def test_the_tour_is_what_happens(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    port, died, every = cluster_port(), "", tour()
    assert [words.split()[1] for words, _ in every if words.startswith("fencepost ")] == [
        *("up", "quorum", "kill", "health", "start", "producer-ids", "topics", "consume", "transactions"),
    ]
    try:
        for words, page in every:
            said = typed_in(words, port, died)
            assert is_what(page, said), f"$ {words}\n{said}"
            died = died or (re.findall(r"^node (\d+) .* now dead$", said, re.MULTILINE) or [""])[0]
            if words.startswith("fencepost up"):
                again = typed_in(words, port, died)
                assert said.split("NODE")[1] == again.split("NODE")[1], "what runs already is left alone"
        for words in IN_JSON:  # each document is held against the schema
            chosen = [
                str(port) if word == "PORT" else died if word == "DIED" else word for word in words.split()
            ]
            stdout_of(in_process(*chosen, "--format", "json"))
    finally:
        stdout_of(in_process("down", "--format", "json"))
