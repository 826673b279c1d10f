"""Recordings of whole clusters, opened once for all tests that only read them."""

from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest

from tests.audit.corpus import recording

Recorded = Callable[[str], Path]


@pytest.fixture(scope="session")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Recorded:
    """The directories of a recording, by its name: three seconds and 70 MB for one of Kafka's."""
    home = tmp_path_factory.mktemp("recorded")
    return cache(lambda name: recording.unpack(home, name))
