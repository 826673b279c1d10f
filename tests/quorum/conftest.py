"""A bench of voters for the tests of the Raft core and of what stands around it."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.quorum.coordinator import TOPIC, Bench
from tests.quorum.rig import Rig
from tests.quorum.stage import Stage

MakeRig = Callable[..., Rig]
MakeStage = Callable[[], Stage]


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
def make_stage(tmp_path: Path) -> Iterator[MakeStage]:
    """Call it for one voter and its driver; see Stage."""
    made: list[Stage] = []

    def make() -> Stage:
        made.append(Stage(tmp_path / f"stage-{len(made)}"))
        return made[-1]

    yield make
    for stage in made:
        stage.close()


@pytest.fixture
def bench(make_stage: MakeStage) -> Bench:
    """A coordinator that leads; brokers 1 and 2, each with a partition of TOPIC."""
    made = Bench(make_stage())
    made.lead()
    made.register(1, 9092)
    made.register(2, 9093)
    made.create(TOPIC, 1, 2)
    return made


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
