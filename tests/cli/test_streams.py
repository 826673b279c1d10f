"""What stdin, stdout and stderr may be: full, closed, left by their reader."""

import shlex
import subprocess

import pytest

from tests.harness.command import command, environment

ROWS = [
    pytest.param(
        "schema > /dev/full",
        1,
        "Error: the output could not be written: no space left on device\n",
        id="full",
    ),
    pytest.param("schema >&-", 0, "", id="no-stdout"),
    pytest.param("schema topics list <&- | head -c 1 > /dev/null", 0, "", id="no-stdin"),
    pytest.param("schema <&- >&- 2>&-", 0, "", id="none"),
    pytest.param(
        "fault list",
        2,
        "Error: there is no cluster to break: this command is for what 'fencepost fault run -- ",
        id="no-fault-run",
    ),
]


def by_shell(words: str) -> "subprocess.CompletedProcess[str]":
    kept = {name: value for name, value in environment().items() if name != "FENCEPOST_FAULTS"}
    line = f"{shlex.join(command())} {words}"
    return subprocess.run(
        ["sh", "-c", line], capture_output=True, text=True, check=False, timeout=60, env=kept
    )


@pytest.mark.parametrize(("words", "status", "says"), ROWS)
def test_a_command_ends_with_a_sentence(words: str, status: int, says: str) -> None:
    done = by_shell(words)
    assert (done.returncode, done.stderr[: len(says)]) == (status, says), done
    assert "Traceback" not in done.stderr
