"""What the tests of several commands share."""

from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from fencepost.bench.transaction_load import Mock, start_mock
from tests.cli.transaction_cluster import NOW_MS, Cluster


@pytest.fixture(scope="session")
def mock_cluster() -> Iterator[str]:
    """The bootstrap servers of librdkafka's mock cluster of three brokers, in this process."""
    holder, servers = start_mock(Mock(3))
    yield servers
    holder.flush(1)


@pytest.fixture
def cluster(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Iterator[Cluster]:
    """Runs ``transactions`` against a fake broker."""
    monkeypatch.setattr("fencepost.cli.transactions._now_ms", lambda: NOW_MS)
    monkeypatch.setattr("fencepost.cluster.brokers.TIMEOUT_SECONDS", 3.0)
    with ExitStack() as stack:
        yield Cluster(stack, capsys)
