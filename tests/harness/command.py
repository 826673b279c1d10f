"""The command line as others run it: in a process of its own, or in this one, which is five times as fast.

Nodes that a command of this process starts are forked (forked.py).
"""

import json
import os
import subprocess
import sys
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import pytest
from click.testing import CliRunner

from fencepost.cli.documents.base import Failure
from fencepost.cli.documents.catalogue import DOCUMENTS, STREAMS
from fencepost.cli.main import COMMANDS, main
from fencepost.cli.output import SCHEMA_VERSION, is_json
from fencepost.cli.transactions import _ALIASES
from fencepost.cluster.console import INTERRUPTED
from tests.harness import forked

TIMEOUT_S = 200.0
"""Then it hangs. Less than pytest's own 240 s, so that the test still says what was printed until then."""
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
    return checked(arguments, Result(done.returncode, done.stdout, done.stderr))


def in_process(*arguments: object) -> Result:
    """The same in this process, for commands that neither wait for a signal nor read standard input."""
    status: object = None
    with _ONE_AT_A_TIME, forked.nodes(), CliRunner().isolation() as (stdout, stderr, _):
        try:
            main([str(argument) for argument in arguments])
        except SystemExit as ended:
            status = ended.code
        sys.stderr.flush()
        said = Result(int(str(status or 0)), stdout.getvalue().decode(), stderr.getvalue().decode())
    return checked(arguments, said)


def stdout_of(ended: Result, status: int = 0) -> str:
    """Fails unless it ended with ``status``."""
    assert ended.status == status, f"status {ended.status}\n{ended.stdout}\n{ended.stderr}"
    return ended.stdout


def fencepost_json(*arguments: object) -> Any:
    """The document that ``--format json`` prints; the command must succeed."""
    return contents(stdout_of(fencepost(*arguments, "--format", "json")))


def in_process_json(*arguments: object) -> Any:
    """See ``in_process`` and ``fencepost_json``."""
    return contents(stdout_of(in_process(*arguments, "--format", "json")))


def contents(document: str) -> Any:
    """What a command printed as JSON, without the version; of a document of rows alone the rows."""
    fields = json.loads(document)
    assert fields.pop("schema_version") == SCHEMA_VERSION
    rows = [value for value in fields.values() if isinstance(value, list)]
    return rows[0] if len(fields) == len(rows) == 1 and list(fields) != ["nodes"] else fields


def here(capsys: pytest.CaptureFixture[str], *arguments: object) -> Result:
    """Run in this process: fast, and for what needs no cluster."""
    capsys.readouterr()
    with pytest.raises(SystemExit) as ended:
        main([str(argument) for argument in arguments])
    said = capsys.readouterr()
    return checked(arguments, Result(int(ended.value.code or 0), said.out, said.err))


def checked(arguments: Sequence[object], said: Result) -> Result:
    """What a command printed as JSON is what the published schema says, errors included."""
    words = [str(each) for each in arguments]
    if not is_json(words) or said.status == INTERRUPTED:
        return said
    if said.stdout.strip():
        command = command_in(words)
        texts = said.stdout.splitlines() if command in STREAMS else [said.stdout]
        for text in texts:
            msgspec.json.decode(text, type=DOCUMENTS[command], strict=True)
    elif said.status:
        failure = msgspec.json.decode(said.stderr.splitlines()[-1], type=Failure)
        assert failure.error.exit_status == said.status
    return said


def command_in(words: Sequence[str]) -> str:
    """Its name in DOCUMENTS; options may stand between its words."""
    words = [str(_ALIASES.get(each, each)) for each in words]
    group = next(each for each in words if each in COMMANDS)
    found = [name for name in DOCUMENTS if name.split()[0] == group and set(name.split()) <= set(words)]
    return max(found, key=len)
