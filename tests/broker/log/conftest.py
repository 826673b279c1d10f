"""What tests of partition logs share."""

from pathlib import Path

import pytest

from tests.broker.log.sums import everything
from tests.broker.log.test_recovery import start


@pytest.fixture
def closed(tmp_path: Path) -> tuple[Path, tuple[object, ...]]:
    """A log of several segments, its directory, and what it answers."""
    log = start(tmp_path / "a")
    answers = everything(log)
    log.close()
    return log.directory, answers
