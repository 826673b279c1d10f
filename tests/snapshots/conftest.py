"""No test of this folder leaves an archive's files open: later tests of its process count descriptors."""

from collections.abc import Iterator

import pytest

from tests.simulation.power_loss import close_files
from tests.snapshots.archives import OPENED


@pytest.fixture(autouse=True)
def closed_files() -> Iterator[None]:
    """Archives that a test dropped, as a killed process does, are closed without a write."""
    yield
    for archive in OPENED:
        close_files(archive)
    OPENED.clear()
