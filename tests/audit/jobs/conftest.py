"""Tables of the logs that a cluster of ours left and that Apache Kafka left, made once, on the embedded
engine."""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.audit.faults import cluster
from tests.audit.kafka import fixture

if TYPE_CHECKING:
    from fencepost.audit.engine.protocol import Engine


@pytest.fixture(scope="package")
def engine(tmp_path_factory: pytest.TempPathFactory) -> "Iterator[Engine]":
    """One for all: who names tables anew forgets those of others."""
    from fencepost.audit.engine.embedded import EmbeddedEngine

    embedded = EmbeddedEngine(str(tmp_path_factory.mktemp("engine")))
    yield embedded
    embedded.close()


@pytest.fixture(scope="package")
def fencepost_logs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A clean cluster's directory."""
    return cluster.unpacked(tmp_path_factory.mktemp("fencepost"))


@pytest.fixture(scope="package")
def fencepost_tables(engine: "Engine", fencepost_logs: Path, tmp_path_factory: pytest.TempPathFactory) -> str:
    """Of those."""
    return _tables(engine, fencepost_logs, tmp_path_factory.mktemp("tables"))


@pytest.fixture(scope="package")
def kafka_tables(engine: "Engine", tmp_path_factory: pytest.TempPathFactory) -> str:
    """Of a clean Kafka's log.dirs."""
    logs = fixture.unpack(tmp_path_factory.mktemp("kafka"))
    return _tables(engine, logs, tmp_path_factory.mktemp("tables"))


def _tables(engine: "Engine", logs: Path, folder: Path) -> str:
    from fencepost.audit.jobs import ingest

    files = ingest.run(engine, [str(logs)], str(folder), print)
    assert not files.is_partial
    return str(folder)
