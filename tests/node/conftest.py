"""Drivers on a stage for the tests of a node."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.node.stage import Stage

MakeStage = Callable[[], Stage]


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
