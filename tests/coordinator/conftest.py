"""A coordinator on a bench, and what it stands on."""

import pytest

from tests.coordinator.bench import TOPIC, Bench
from tests.node.conftest import MakeStage, make_stage
from tests.quorum.conftest import make_rig

__all__ = ["bench", "make_rig", "make_stage"]


@pytest.fixture
def bench(make_stage: MakeStage) -> Bench:
    """A coordinator that leads; brokers 1 and 2, each with a partition of TOPIC."""
    made = Bench(make_stage())
    made.elect()
    made.register(1, 9092)
    made.register(2, 9093)
    made.create(TOPIC, 1, 2)
    return made
