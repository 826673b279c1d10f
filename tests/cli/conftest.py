"""What the tests of several commands share."""

from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from fencepost.bench.process import child
from fencepost.bench.transaction_load import Mock
from fencepost.bench.transactions import LOAD_MODULE
from tests.cli.transaction_cluster import NOW_MS, Cluster


@pytest.fixture(scope="session")
def mock_cluster() -> Iterator[str]:
    """The bootstrap servers of librdkafka's mock cluster of three brokers. One cluster serves every test.

    It is a process of its own: a fault in its native threads must not end the process that runs the tests.
    """
    with child("mock cluster", LOAD_MODULE) as mocking:
        yield mocking.ask(Mock(3), str)


@pytest.fixture
def cluster(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Iterator[Cluster]:
    """Runs ``transactions`` against a fake broker."""
    monkeypatch.setattr("fencepost.cli.transactions._now_ms", lambda: NOW_MS)
    monkeypatch.setattr("fencepost.cluster.brokers.TIMEOUT_SECONDS", 3.0)
    with ExitStack() as stack:
        yield Cluster(stack, capsys)
