"""Nodes of an earlier version beside those of this tree, each from its own source.

Earlier     a commit of this repository, by ``git archive``, run by this tree's interpreter and libraries: it
            is first on PYTHONPATH, which nodes of this tree never have. Each is asked where its modules lie.
"""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final
from unittest import mock

from cli import node_process
from cli.local_cluster import open_cluster
from tests.ports import cluster_port
from tests.processes.nodes import COMMAND_SECONDS_MAX, JSON_LOGS, Nodes

ROOT: Final = Path(__file__).parents[2]
BEFORE_LEVELS: Final = "d5d9294"
"""The last commit whose nodes know no log level."""

_LOOK: Final = """
import json, sys
import cli.main, quorum.handshake, records.control, controller.voters
print(json.dumps([sys.modules[each].__file__ for each in
                  ("cli.main", "quorum.handshake", "records.control", "controller.voters")]
                 + ["log_level_max" in quorum.handshake.Hello.__struct_fields__]))
"""
_CREATE: Final = """
import sys
from pathlib import Path
from cli.local_cluster import create_cluster
create_cluster(Path(sys.argv[1]), 3, int(sys.argv[2]), sys.argv[3:])
"""


def earlier_tree(folder: Path) -> Path:
    """The source of the version before log levels. Fails where the repository's history is not there."""
    tree = folder / BEFORE_LEVELS
    tree.mkdir()
    archive = subprocess.run(
        ["git", "archive", BEFORE_LEVELS],
        cwd=ROOT,
        capture_output=True,
        check=False,
        timeout=COMMAND_SECONDS_MAX,
    )
    assert archive.returncode == 0, f"needs the repository's history: {archive.stderr.decode()}"
    subprocess.run(["tar", "-x", "-C", str(tree)], input=archive.stdout, check=True)
    *files, knows_levels = json.loads(python(tree, _LOOK))
    assert all(Path(file).is_relative_to(tree) for file in files), f"not of {tree}: {files}"
    assert not knows_levels
    *files, knows_levels = json.loads(python(None, _LOOK))
    assert all(Path(file).is_relative_to(ROOT) for file in files), f"not of {ROOT}: {files}"
    assert knows_levels
    return tree


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
        mock.patch.dict(os.environ, {"PYTHONPATH": str(tree)}),
    ):
        nodes.start(*node_ids)


@contextmanager
def earlier_cluster(directory: Path, tree: Path, *overrides: str) -> Iterator[Nodes]:
    """Three nodes, made and started by the earlier version; at the end their logs are clean, and they end."""
    python(tree, _CREATE, str(directory), str(cluster_port()), JSON_LOGS, *overrides)
    nodes = Nodes(open_cluster(directory))
    try:
        start(nodes, tree, *nodes.node_ids)
        yield nodes
        complaints = nodes.complaints()
    finally:
        nodes.down()
    assert not complaints, "\n".join(complaints)
