"""What the tests of several commands share."""

from collections.abc import Iterator

import pytest

from fencepost.bench.transaction_load import Mock, start_mock


@pytest.fixture(scope="session")
def mock_cluster() -> Iterator[str]:
    """The bootstrap servers of librdkafka's mock cluster of three brokers, in this process."""
    holder, servers = start_mock(Mock(3))
    yield servers
    holder.flush(1)
