"""What holds in every test of the controller's rules."""

from collections.abc import Iterator

import pytest

from tests.controller.own_log import guard


@pytest.fixture(scope="package", autouse=True)
def replay_stays_in_its_own_log() -> Iterator[None]:
    """A record whose replay reaches for another log's table fails the test that replays it."""
    with guard():
        yield
