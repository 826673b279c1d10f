"""Blocks of a page's console: what its reader types, and what is printed."""

import re
import shlex
import subprocess
from pathlib import Path
from typing import Final

from tests.harness.command import TIMEOUT_S, command, environment, in_process, stdout_of

ROOT: Final = Path(__file__).parents[2]
PAGES: Final = sorted((*ROOT.glob("*.md"), *ROOT.glob("docs/*.md")))
BLOCK: Final = re.compile(r"^```(?:console|sh)\n(.*?)^```", re.MULTILINE | re.DOTALL)
VARIES: Final = re.compile(r"\S*(?:\d|[\w-]{22})\S*")  # numbers, times, addresses, ids without a digit too
OF_A_SHELL: Final = re.compile(r"[|>]")

HOW_TO: Final = "tests/testing/corpus/how_to.py"  # make kit-corpus
NO_PROGRAM: Final = "nothing: it needs "
RUN_BY: Final = {
    ("CONTRIBUTING.md", 0): "nothing: it is the gate",
    **{("CONTRIBUTING.md", number): "nothing: it runs tests" for number in (1, 2, 3, 4)},
    ("CONTRIBUTING.md", 5): "nothing: test_plugin.py runs what reads such a folder",
    ("README.md", 0): "nothing: each is a target of its own",
    ("README.md", 1): "tests/cli/test_readme_tour.py",
    ("README.md", 2): "tests/cli/test_readme_tour.py",
    ("README.md", 3): "nothing: make demo-audit audits such a cluster",
    ("audit.md", 0): NO_PROGRAM + "PyPI, and logs of Apache Kafka",
    ("audit.md", 1): NO_PROGRAM + "S3",
    ("audit.md", 2): NO_PROGRAM + "a cluster of Spark, which make audit-spark has",
    ("authorization.md", 0): "tests/processes/test_acls.py",
    ("commands.md", 0): "tests/cli/test_documents.py",
    ("commands.md", 1): NO_PROGRAM + "each of three shells",
    ("configuration.md", 0): NO_PROGRAM + "kafka-configs, which make test-clients has",
    ("configuration.md", 1): "tests/cli/test_storage_clock.py",
    ("containers.md", 0): NO_PROGRAM + "docker",
    ("groups.md", 0): "tests/cli/test_groups_live.py",
    ("groups.md", 1): "tests/cli/test_groups_live.py",
    ("groups.md", 2): NO_PROGRAM + "nodes of Apache Kafka, which make bench-kafka has",
    ("groups.md", 3): "tests/cli/test_groups_live.py",
    ("how-to-go.md", 0): HOW_TO,
    ("how-to-java.md", 0): HOW_TO,
    ("how-to-java.md", 1): HOW_TO,
    ("how-to-node.md", 0): HOW_TO,
    ("testing.md", 0): "tests/cli/test_fault.py",
    ("testing.md", 1): "tests/cli/test_fault.py",
    ("tutorial.md", 0): "tests/testing/tutorial.py",
    ("tutorial.md", 1): "tests/testing/tutorial.py",
}
"""By page and number of its block."""


def shell_blocks(page: str) -> list[str]:
    """Of a page by its name: those of a console, with what is printed, and those of a shell."""
    (file,) = [each for each in PAGES if each.name == page]
    return BLOCK.findall(file.read_text("utf-8"))


def steps(block: str) -> list[tuple[str, str]]:
    """(what is typed, what it prints) of a console."""
    found = []
    for step in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
        words, _, printed = step.partition("\n")
        found.append((words, printed))
    return found


def typed(words: str) -> str:
    """What a line of a console prints; it must succeed."""
    if not OF_A_SHELL.search(words):
        done = in_process(*shlex.split(words)[1:])
        return stdout_of(done) + done.stderr
    ended = subprocess.run(
        ["sh", "-c", f'fencepost() {{ {shlex.join(command())} "$@"; }}\n{words}'],
        capture_output=True,
        text=True,
        env=environment(),
        timeout=TIMEOUT_S,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr
    return ended.stdout


def lines(text: str) -> list[str]:
    """Without what differs from run to run."""
    return [" ".join(VARIES.sub("#", line).split()) for line in text.splitlines() if line.strip()]


def is_what(page: str, said: str) -> bool:
    """The same lines, in whatever order and number, as nodes differ; with ``...`` what follows it."""
    if "...\n" in page:
        return " ".join(lines(page.partition("...\n")[2])) in " ".join(lines(said))
    return set(lines(page)) == set(lines(said))
