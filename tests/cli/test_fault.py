"""``fencepost fault run``: a test command in any language has a cluster, breaks it, and leaves nothing."""

import shlex
import sys

import pytest

from fencepost.testing.reaper import started_with
from tests.harness.command import command, fencepost
from tests.harness.shell_pages import is_what, shell_blocks, steps
from tests.testing.shell_application import PROGRAM

pytestmark = pytest.mark.slow


def test_the_page_of_the_shell_is_what_happens_and_the_status_is_the_runs() -> None:
    run, typed = map(steps, shell_blocks("testing.md"))
    ((words, _),) = run
    (first, armed), *later = typed
    application = shlex.join([sys.executable, "-c", PROGRAM])
    script = "\n".join(
        (
            f'fencepost() {{ {shlex.join(command())} "$@"; }}',
            "set -e",
            "echo $FENCEPOST_FAULTS",
            *(f"echo '$ {first}'", first, f"{application} >&2"),
            *(line for each, _ in later for line in (f"echo '$ {each}'", each)),
            *("echo '$ '", "fencepost fault list --format json", "exit 7"),
        )
    )
    run_by = words.removesuffix("go test ./...").split()[1:]
    ended = fencepost(*run_by, "sh", "-c", script)
    assert (ended.status, "committed" in ended.stderr) == (7, True), ended
    said = steps(ended.stdout)
    assert said[0] == (first, armed)
    for (each, printed), (again, seen) in zip(later, said[1:-1], strict=True):
        assert each == again
        assert is_what(printed, seen), f"$ {each}\n{seen}"
    assert '"fired": 1' in said[-1][1]
    folder = ended.stdout.splitlines()[0].rpartition("/")[0]
    assert not started_with(folder)


def test_what_is_left_armed_fails_the_run() -> None:
    script = f"{shlex.join(command('fault'))} disconnect Produce"
    ended = fencepost("fault", "run", "-n", 1, "--", "sh", "-c", script)
    assert (ended.status, "left armed: disconnect(Produce)" in ended.stderr) == (1, True), ended
    assert fencepost("fault", "run", "-n", 1, "--", "/nonexistent").status == 2
