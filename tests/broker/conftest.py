"""What the tests of partitions share: none of them leaves a file of a partition log open."""

import threading
from collections.abc import Iterator

import pytest

from fencepost.broker.log.open_files import OPEN_FILES


@pytest.fixture(autouse=True)
def closed_files() -> Iterator[None]:
    """Close what logs that a test dropped, as a killed process does, still have open.

    ``OPEN_FILES`` refers to them, so they would stay open to the end of the test process, and take the
    descriptors of later tests. A log that is used again opens its files again.
    """
    yield
    own = threading.get_ident()
    for segment in [each for each, owner in OPEN_FILES._owners.items() if owner == own]:
        segment.close()
