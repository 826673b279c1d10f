"""Voters on a bench for the tests of the Raft core and of what stands around it."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import fencepost.quorum.snapshot_receiver
import fencepost.quorum.snapshotter
from tests.quorum.rig import Rig
from tests.quorum.transfers import INTERVAL, advance

MakeRig = Callable[..., Rig]


@pytest.fixture
def make_rig(tmp_path: Path) -> Iterator[MakeRig]:
    """Call it with a number of nodes; see Rig."""
    made: list[Rig] = []

    def make(node_count: int = 3, **config: Any) -> Rig:
        made.append(Rig(tmp_path / f"rig-{len(made)}", node_count, **config))
        return made[-1]

    yield make
    for rig in made:
        rig.close()


@pytest.fixture
def three(make_rig: MakeRig) -> Rig:
    """Three voters, node 1 active, a broker registered."""
    rig = make_rig(3)
    rig.elect(1)
    rig.register(1)
    return rig


@pytest.fixture
def five(make_rig: MakeRig) -> Rig:
    """Five voters, node 1 active, a broker registered."""
    rig = make_rig(5)
    rig.elect(1)
    rig.register(1)
    return rig


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """A few entries reach every boundary."""
    monkeypatch.setattr(fencepost.quorum.snapshotter, "TAIL_ENTRIES", 0)
    monkeypatch.setattr(fencepost.quorum.snapshotter, "CHUNK_BYTES_MAX", 200)
    monkeypatch.setattr(fencepost.quorum.snapshot_receiver, "ROWS_PER_SLICE", 1)


@pytest.fixture
def behind(make_rig: MakeRig, small: None) -> Rig:
    """Node 1 leads and has compacted its journal; node 3 was away, and is connected again."""
    rig = make_rig(3, snapshot_entries=INTERVAL)
    rig.elect(1)
    rig.register(1)
    rig.crash(3)
    advance(rig, 1, 2 * INTERVAL)
    rig.maintenance_tick(1)
    rig.work()
    assert rig[1].journal.first_index > rig.start(3).journal.last_index
    rig.connect(3)
    return rig
