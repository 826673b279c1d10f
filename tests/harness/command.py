"""The command line as others run it: in a process of its own, or in this one, which is five times as fast.

Nodes that a command of this process starts are forked (forked.py).
"""

import json
import os
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from click.testing import CliRunner

from fencepost.cli.main import main
from tests.harness import forked

TIMEOUT_S = 90.0
_ONE_AT_A_TIME = threading.Lock()  # standard output is the process's


class Result(NamedTuple):
    """How a command ended and what it said."""

    status: int
    stdout: str
    stderr: str


def command(*arguments: object) -> list[str]:
    """The argument list that runs ``fencepost ARGUMENTS``."""
    return [sys.executable, "-P", "-m", "fencepost.cli.main", *map(str, arguments)]


def environment() -> dict[str, str]:
    """Without what would let a node find modules by accident."""
    return {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "PYTEST"))}


def fencepost(*arguments: object, cwd: Path | None = None) -> Result:
    """Run to the end, whatever the status."""
    done = subprocess.run(
        command(*arguments),
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        cwd=cwd,
        env=environment(),
        check=False,
    )
    return Result(done.returncode, done.stdout, done.stderr)


def in_process(*arguments: object) -> Result:
    """The same in this process, for commands that neither wait for a signal nor read standard input."""
    status: object = None
    with _ONE_AT_A_TIME, forked.nodes(), CliRunner().isolation() as (stdout, stderr, _):
        try:
            main([str(argument) for argument in arguments])
        except SystemExit as ended:
            status = ended.code
        sys.stderr.flush()
        return Result(int(str(status or 0)), stdout.getvalue().decode(), stderr.getvalue().decode())


def stdout_of(ended: Result, status: int = 0) -> str:
    """Fails unless it ended with ``status``."""
    assert ended.status == status, f"status {ended.status}\n{ended.stdout}\n{ended.stderr}"
    return ended.stdout


def fencepost_json(*arguments: object) -> Any:
    """The document that ``--format json`` prints; the command must succeed."""
    return json.loads(stdout_of(fencepost(*arguments, "--format", "json")))


def in_process_json(*arguments: object) -> Any:
    """See ``in_process`` and ``fencepost_json``."""
    return json.loads(stdout_of(in_process(*arguments, "--format", "json")))


def here(capsys: pytest.CaptureFixture[str], *arguments: object) -> Result:
    """Run in this process: fast, and for what needs no cluster."""
    capsys.readouterr()
    with pytest.raises(SystemExit) as ended:
        main([str(argument) for argument in arguments])
    said = capsys.readouterr()
    return Result(int(ended.value.code or 0), said.out, said.err)
