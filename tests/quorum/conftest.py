"""Voters on a bench for the tests of the Raft core and of what stands around it."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.quorum.rig import Rig

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
