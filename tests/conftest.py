"""What every test shares: reproducible runs of Hypothesis, and modules of which there is one.

Order    the longest files come first (longest_first.py), so that no worker has one of them left at the end.
Memory   what collection made is never garbage: ``gc.freeze`` keeps each full collection from visiting it.
Disk     fast tests flush to memory where there is /dev/shm: a third of their time is a disk's, and none is
         about the disk. Slow tests have the disk that ``TMPDIR`` is on.

Markers (pyproject.toml): ``row("730.1")`` ties an end-to-end test to a row of tests/rows.tsv; ``slow`` keeps
a test out of ``make check``.
"""

import gc
import os
from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, settings

from tests.longest_first import LONGEST_FIRST
from tests.modules import loaded_twice

settings.register_profile(
    "default", deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow]
)
settings.register_profile("explore", deadline=None, max_examples=2_000)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "default"))


MEMORY = "/dev/shm"


def pytest_configure(config: pytest.Config) -> None:
    """Before the first temporary folder is made, and in the process that gives workers theirs."""
    if config.option.markexpr == "not slow" and os.access(MEMORY, os.W_OK):
        os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", MEMORY)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """A file's tests stay together, in their order."""
    places = {file: place for place, file in enumerate(LONGEST_FIRST)}
    items.sort(key=lambda item: places.get(item.nodeid.partition("::")[0], len(places)))


def pytest_collection_finish() -> None:
    """Modules, tests and their parameters live to the end."""
    gc.collect()
    gc.freeze()


@pytest.fixture(scope="session", autouse=True)
def one_name() -> Iterator[None]:
    """Whatever tests have imported by their end, no file was loaded under two names."""
    yield
    assert loaded_twice() == {}
