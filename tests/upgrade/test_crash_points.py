"""kill -9 at every named boundary, of the controller and of the command; the same command again completes.

At each point the nodes are started so that whoever leads dies there; what died is started again, and the
command has to end as if nothing had happened.
"""

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from fencepost.cluster import node_process
from fencepost.cluster.console import Failed
from fencepost.quorum.crash_points import COMMAND_POINTS, CONTROLLER_POINTS, VARIABLE
from tests.harness.nodes import Nodes, wait_for
from tests.upgrade.world import (
    Askers,
    OldBrokers,
    blocks_in_log,
    first_of_new_era,
    make_kafkas_znodes,
    nodes_own_blocks,
    require_no_overlap,
    upgrading,
)
from tests.zookeeper.servers import ensemble

pytestmark = pytest.mark.slow

COMMAND_SECONDS = 90


class Chapter(NamedTuple):
    """A command, the phase after it, the points on its way; what is typed before them and between two."""

    command: str | None  # None: brokers that ask for blocks come by
    phase: str
    points: tuple[str, ...]
    before: tuple[str, ...] = ()
    between: tuple[str, ...] = ()
    node_count: int = 1


CHAPTERS = [
    Chapter("bridge", "bridge", ("bridge:znode-ready", "bridge:phase-applied")),
    Chapter(None, "bridge", ("allocate:range-written", "allocate:record-applied"), ("bridge",)),
    Chapter("import", "imported", ("import:block-read", "import:floor-applied"), ("bridge",)),
    Chapter(
        "fence",
        "quorum",
        ("fence:block-read", "fence:intent-applied", "fence:fence-written", "fence:switch-applied"),
        before=("bridge", "import"),
        between=("rollback", "import"),
        node_count=3,
    ),
    Chapter(
        "rollback",
        "bridge",
        ("rollback:stop-applied", "rollback:block-written", "rollback:phase-applied"),
        before=("bridge", "import", "fence"),
        between=("import", "fence"),
        node_count=3,
    ),
    Chapter("finalize", "finalized", ("finalize:phase-applied",), ("bridge", "import", "fence")),
]


def test_the_chapters_come_by_every_point() -> None:
    assert sorted(point for each in CHAPTERS for point in each.points) == sorted(CONTROLLER_POINTS)


@contextlib.contextmanager
def upgrade(folder: Path, count: int) -> Iterator[tuple[OldBrokers, Nodes]]:
    """One old broker at full speed, and nodes that wait for the bridge."""
    with ensemble(folder / "zookeeper") as servers:
        make_kafkas_znodes(servers)
        with (
            OldBrokers(servers.connect_string, folder, 1) as old,
            _forgiving(folder, servers.connect_string, count) as nodes,
        ):
            yield old, nodes


@contextlib.contextmanager
def _forgiving(folder: Path, connect: str, count: int) -> Iterator[Nodes]:
    """The last words of a node that was told to crash are no complaint."""

    class Armed(Nodes):
        def complaints(self) -> list[str]:
            return [each for each in super().complaints() if VARIABLE not in each]

    with upgrading(folder / "cluster", connect, count=count) as plain:
        plain.__class__ = Armed
        yield plain


@pytest.mark.row("730.12")
@pytest.mark.parametrize("chapter", [pytest.param(each, id=each.command or "allocate") for each in CHAPTERS])
def test_the_leader_dies_at_every_step_boundary(tmp_path: Path, chapter: Chapter) -> None:
    with upgrade(tmp_path, chapter.node_count) as (old, nodes):
        for command in chapter.before:
            nodes.run("migrate", command)
        with Askers(nodes.cluster, 2) as askers:
            for point in chapter.points:
                if point != chapter.points[0]:
                    for command in chapter.between:
                        nodes.run("migrate", command)
                marks = {node_id: nodes.log_size(node_id) for node_id in nodes.node_ids}
                _arm(nodes, point)
                running = None if chapter.command is None else _start(nodes, chapter.command)
                wait_for(f"{point} is reached", lambda: _is_reached(nodes, point, marks), 90)  # noqa: B023
                wait_for("it is dead", lambda: any(nodes.node(each).pid() is None for each in nodes.node_ids))
                _mend_until(nodes, running, f"{chapter.command} after a crash at {point}")
                assert nodes.read("migrate", "status")["phase"] == chapter.phase
            if chapter.command == "rollback":
                old.start()
            elif chapter.command in ("fence", "finalize"):
                answered = len(askers.blocks)
                wait_for("blocks in the new era", lambda: len(askers.blocks) > answered + 5)
        own = nodes_own_blocks(nodes)
        require_no_overlap(old.blocks(), askers.blocks, own)
        fence = nodes.read("migrate", "status")["fence"]
        if fence is not None:
            first = first_of_new_era(fence["block_end"], blocks_in_log(nodes), askers.blocks)
            assert first == fence["block_end"] + 1


@pytest.mark.row("card.6")
def test_the_command_dies_before_and_after_the_controller_does_its_part(tmp_path: Path) -> None:
    with upgrade(tmp_path, 1) as (_, nodes):
        for command, phase in (
            ("bridge", "bridge"), ("import", "imported"), ("fence", "quorum"), ("rollback", "bridge"),
            ("import", "imported"), ("fence", "quorum"), ("finalize", "finalized"),
        ):  # fmt: skip
            for point in COMMAND_POINTS:
                assert _start(nodes, command, point).wait(COMMAND_SECONDS) == -signal.SIGKILL
            nodes.run("migrate", command)
            assert nodes.read("migrate", "status")["phase"] == phase


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
        with contextlib.suppress(Failed):  # one may die at once: the nodes' own brokers allocate
            nodes.start(*nodes.node_ids)
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
        return (running is None or running.poll() is not None) and nodes.leader() is not None

    wait_for(what, is_whole, deadline - time.monotonic())
    assert running is None or running.returncode == 0, f"{what}: exit status {running.returncode}"
