"""What every test shares: reproducible runs of Hypothesis, and modules of which there is one.

Markers (pyproject.toml): ``row("730.1")`` ties an end-to-end test to a row of tests/rows.tsv; ``slow`` keeps
a test out of ``make check``.
"""

import os
from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, settings

from tests.modules import loaded_twice

settings.register_profile(
    "default", deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow]
)
settings.register_profile("explore", deadline=None, max_examples=2_000)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "default"))


@pytest.fixture(scope="session", autouse=True)
def one_name() -> Iterator[None]:
    """Whatever tests have imported by their end, no file was loaded under two names."""
    yield
    assert loaded_twice() == {}
