"""Nodes of an earlier version beside those of this tree, each from its own source.

Earlier     a commit of this repository, by ``git archive``, run by this tree's interpreter and libraries: it
            is first on PYTHONPATH, which nodes of this tree never have. Each is asked where its modules lie.
"""

import fcntl
import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final
from unittest import mock

from fencepost.cluster import node_process, state
from fencepost.cluster.local_cluster import open_cluster
from tests.harness.nodes import COMMAND_SECONDS_MAX, JSON_LOGS, Nodes
from tests.ports import cluster_port

ROOT: Final = Path(__file__).parents[2]
BEFORE_LEVELS: Final = "d5d9294"
"""The last commit whose nodes know no log level."""
BEFORE_ONE_NAME: Final = "9c40f5a"
"""A commit whose folders are packages by themselves: ``quorum``, not ``fencepost.quorum``."""

BEFORE_GROUPS: Final = "a06c184"
"""The last commit whose nodes read log levels up to 1: it writes nothing of ``__consumer_offsets``."""
BEFORE_TRANSACTIONS_V2: Final = "b39ea28"
"""The last commit whose nodes read log levels up to 2: no client learns of transactions V2 from it."""
LEVEL_OF: Final = {BEFORE_LEVELS: 0, BEFORE_ONE_NAME: 1, BEFORE_GROUPS: 1, BEFORE_TRANSACTIONS_V2: 2}
"""At which log level a cluster of such nodes is."""

Trees = Callable[[str], Path]
"""The source of a commit, made once: see conftest.py."""

_MODULES: Final = (
    "cli.main quorum.handshake records.control controller.voters cli.node"  # the last: all others
)
_LOOK: Final = """
import importlib, json, sys
modules = [importlib.import_module(each) for each in sys.argv[1:]]
knows = "log_level_max" in modules[1].Hello.__struct_fields__
print(json.dumps([*(each.__file__ for each in modules), knows]))
"""
_CREATE: Final = """
import importlib, sys
from pathlib import Path
create_cluster = importlib.import_module(sys.argv[1]).create_cluster
create_cluster(Path(sys.argv[2]), 3, int(sys.argv[3]), sys.argv[4:])
"""


def earlier_tree(folder: Path, commit: str) -> Path:
    """The source of a commit, compiled. Fails where the repository's history is not there.

    Others may want it at the same time: one makes it, under the name that it has when it is whole.
    """
    tree = folder / commit
    folder.mkdir(exist_ok=True)
    with (folder / f"{commit}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not tree.exists():
            _make(folder / f"{commit}.begun", commit)
            (folder / f"{commit}.begun").rename(tree)
    return tree


def _make(tree: Path, commit: str) -> None:
    tree.mkdir()
    archive = subprocess.run(
        ["git", "archive", commit],
        cwd=ROOT,
        capture_output=True,
        check=False,
        timeout=COMMAND_SECONDS_MAX,
    )
    assert archive.returncode == 0, f"needs the repository's history: {archive.stderr.decode()}"
    subprocess.run(["tar", "-x", "-C", str(tree)], input=archive.stdout, check=True)
    for source, knows_levels in ((tree, commit != BEFORE_LEVELS), (None, True)):
        *files, knows = json.loads(
            python(source, _LOOK, *(prefix(source) + each for each in _MODULES.split()))
        )
        home = source or ROOT
        assert all(Path(file).is_relative_to(home) for file in files), f"not of {home}: {files}"
        assert knows == knows_levels


def prefix(tree: Path | None) -> str:
    """What the folders' import names begin with in a tree, this one if it is None."""
    return "" if tree is not None and not (tree / "fencepost").is_dir() else "fencepost."


def python(tree: Path | None, program: str, *arguments: str) -> str:
    """Run a program on the modules of a tree, this one if it is None; its stdout."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    if tree is not None:
        environment["PYTHONPATH"] = str(tree)
    ended = subprocess.run(
        [sys.executable, "-P", "-c", program, *arguments],
        env=environment,
        cwd="/",
        capture_output=True,
        text=True,
        timeout=COMMAND_SECONDS_MAX,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr
    return ended.stdout


def start(nodes: Nodes, tree: Path | None, *node_ids: int) -> None:
    """Start nodes on the source of a tree, this one if it is None; returns when they answer."""
    if tree is None:
        nodes.start(*node_ids)
        return
    inherited = tuple(name for name in node_process._NOT_INHERITED if name != "PYTHONPATH")
    with (
        mock.patch.object(node_process, "_NOT_INHERITED", inherited),
        mock.patch.object(node_process, "MODULE", f"{prefix(tree)}cli.main"),
        mock.patch.dict(os.environ, {"PYTHONPATH": str(tree)}),
    ):
        nodes.start(*node_ids)


@contextmanager
def earlier_cluster(
    directory: Path, tree: Path, *overrides: str, expected: str | None = None
) -> Iterator[Nodes]:
    """Three nodes of the earlier version, started, brokers live; at the end their logs are clean.

    ``expected``: what one of them says once as it ends, because the test makes it.
    """
    home = "cluster" if (tree / "cluster" / "local_cluster.py").exists() else "cli"
    module = f"{prefix(tree)}{home}.local_cluster"
    python(tree, _CREATE, module, str(directory), str(cluster_port()), JSON_LOGS, *overrides)
    nodes = Nodes(open_cluster(directory))
    try:
        start(nodes, tree, *nodes.node_ids)
        # A listener answers before its broker is registered, and a topic needs brokers.
        state.await_live(nodes.cluster, {}, lambda _words: None)
        yield nodes
        complaints = nodes.complaints()
        if expected is not None:
            (said,) = [each for each in complaints if expected in each]
            complaints.remove(said)
    finally:
        nodes.down()
    assert not complaints, "\n".join(complaints)
