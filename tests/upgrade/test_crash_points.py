"""kill -9 at every named boundary, of the controller and of the command; the same command again completes.

One upgrade comes by every point in order. At each the nodes are started so that whoever leads dies there;
what died is started again, and the command, or the one after it, has to end as if nothing had happened.
"""

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from cli import node_process
from cli.output import Failed
from quorum.crash_points import COMMAND_POINTS, CONTROLLER_POINTS, VARIABLE
from tests.processes.nodes import Nodes, wait_for
from tests.upgrade.world import (
    Askers,
    OldBrokers,
    first_of_new_era,
    make_kafkas_znodes,
    nodes_own_blocks,
    require_no_overlap,
    upgrading,
)
from tests.zookeeper.servers import ensemble

pytestmark = pytest.mark.slow

COMMAND_SECONDS = 90
STORY: tuple[
    tuple[str | None, str, tuple[str, ...]], ...
] = (  # a command, the phase after it, and the points on its way
    ("bridge", "bridge", ("bridge:znode-ready", "bridge:phase-applied")),
    (None, "bridge", ("allocate:range-written", "allocate:record-applied")),
    ("import", "imported", ("import:block-read", "import:floor-applied")),
    (
        "fence",
        "quorum",
        ("fence:block-read", "fence:intent-applied", "fence:fence-written", "fence:switch-applied"),
    ),
    ("rollback", "bridge", ("rollback:stop-applied", "rollback:block-written", "rollback:phase-applied")),
    ("import", "imported", ()),
    ("fence", "quorum", ()),
    ("finalize", "finalized", ("finalize:phase-applied",)),
)


def test_the_story_comes_by_every_point() -> None:
    told = [point for _, _, points in STORY for point in points]
    assert sorted(told) == sorted(CONTROLLER_POINTS)


@pytest.fixture
def nodes(tmp_path: Path) -> Iterator[Nodes]:
    with ensemble(tmp_path / "zookeeper") as servers:
        make_kafkas_znodes(servers)
        with (
            OldBrokers(servers.connect_string, tmp_path, 1),
            _forgiving(tmp_path, servers.connect_string) as group,
        ):
            yield group


@contextlib.contextmanager
def _forgiving(folder: Path, connect: str) -> Iterator[Nodes]:
    """The last words of a node that was told to crash are no complaint."""

    class Armed(Nodes):
        def complaints(self) -> list[str]:
            return [each for each in super().complaints() if VARIABLE not in each]

    with upgrading(folder / "cluster", connect) as plain:
        plain.__class__ = Armed
        yield plain


@pytest.mark.row("730.12")
def test_the_leader_dies_at_every_step_boundary(nodes: Nodes, tmp_path: Path) -> None:
    fences = []
    with Askers(nodes.cluster, 2) as askers:
        for command, phase, points in STORY:
            for point in points or (None,):
                marks = {node_id: nodes.log_size(node_id) for node_id in nodes.node_ids}
                if point is not None:
                    _arm(nodes, point)
                running = None if command is None else _start(nodes, command)
                if point is not None:
                    wait_for(f"{point} is reached", lambda: _is_reached(nodes, point, marks), 90)  # noqa: B023
                _mend_until(nodes, running, f"{command} after a crash at {point}")
                now = nodes.read("migrate", "status")
                assert now["phase"] == phase, (point, now)
                if command == "fence":
                    fences.append(now["fence"]["block_end"])
                if command not in (None, "finalize") and point is not None and point != points[-1]:
                    _step_back(nodes, command)
        answered = len(askers.blocks)
        wait_for("blocks in the new era", lambda: len(askers.blocks) > answered + 5)
    histories = [path for path in tmp_path.iterdir() if path.name.startswith("old-broker-")]
    from tests.zookeeper.rival import blocks_of

    old, own = blocks_of(histories), nodes_own_blocks(nodes)
    require_no_overlap(old, askers.blocks, own)
    assert first_of_new_era(fences[-1], askers.blocks, own) == fences[-1] + 1


@pytest.mark.row("card.6")
def test_the_command_dies_before_and_after_the_controller_does_its_part(nodes: Nodes) -> None:
    for command, phase in (
        ("bridge", "bridge"), ("import", "imported"), ("fence", "quorum"), ("rollback", "bridge"),
        ("import", "imported"), ("fence", "quorum"), ("finalize", "finalized"),
    ):  # fmt: skip
        for point in COMMAND_POINTS:
            assert _start(nodes, command, point).wait(COMMAND_SECONDS) == -signal.SIGKILL
        nodes.run("migrate", command)
        assert nodes.read("migrate", "status")["phase"] == phase


def _step_back(nodes: Nodes, command: str) -> None:
    """To where the command begins anew: for the next point on its way."""
    back: dict[str, tuple[str, ...]] = {
        "fence": ("rollback", "import"),
        "rollback": ("import", "fence"),
    }
    for each in back.get(command, ()):
        nodes.run("migrate", each)


def _start(nodes: Nodes, command: str, point: str = "") -> "subprocess.Popen[bytes]":
    program = Path(sys.executable).with_name("fencepost")
    return subprocess.Popen(
        [str(program), "migrate", command, "--dir", str(nodes.directory), "--timeout", str(COMMAND_SECONDS)],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env={**os.environ, VARIABLE: point},
    )


def _arm(nodes: Nodes, point: str) -> None:
    """Start all nodes anew, each to die the first time it comes by."""
    nodes.run("down")
    os.environ[VARIABLE] = point
    try:
        for node_id in nodes.node_ids:
            with contextlib.suppress(Failed):  # it may die at once: the nodes' own brokers allocate
                nodes.start(node_id)
    finally:
        del os.environ[VARIABLE]


def _is_reached(nodes: Nodes, point: str, marks: dict[Any, int]) -> bool:
    for node_id in nodes.node_ids:
        log = nodes.node(node_id).directory / node_process.LOG
        if f"{point} reached" in log.read_text("utf-8", "replace")[marks[node_id] :]:
            return True
    return False


def _mend_until(nodes: Nodes, running: "subprocess.Popen[bytes] | None", what: str) -> None:
    """Start again what dies, until the command has ended well and all nodes run."""
    deadline = time.monotonic() + COMMAND_SECONDS

    def is_whole() -> bool:
        for node_id in nodes.node_ids:
            if nodes.node(node_id).pid() is None:
                with contextlib.suppress(Failed):
                    nodes.start(node_id)
                return False
        return running is None or running.poll() is not None

    wait_for(what, is_whole, deadline - time.monotonic())
    assert running is None or running.returncode == 0, f"{what}: exit status {running.returncode}"
