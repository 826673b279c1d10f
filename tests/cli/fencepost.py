"""The command line as others run it: in a process of its own, by absolute path."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from fencepost.cli.main import main

TIMEOUT_S = 90.0


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


def fencepost_json(*arguments: object) -> Any:
    """The document that ``--format json`` prints; the command must succeed."""
    result = fencepost(*arguments, "--format", "json")
    assert result.status == 0, result.stderr
    return json.loads(result.stdout)


def here(capsys: pytest.CaptureFixture[str], *arguments: object) -> Result:
    """Run in this process: fast, and for what needs no cluster."""
    capsys.readouterr()
    with pytest.raises(SystemExit) as ended:
        main([str(argument) for argument in arguments])
    said = capsys.readouterr()
    return Result(int(ended.value.code or 0), said.out, said.err)
