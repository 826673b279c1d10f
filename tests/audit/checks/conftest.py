"""One embedded engine for the tests of this folder: each names its tables anew."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from fencepost.audit.engine.protocol import Engine


@pytest.fixture(scope="package")
def engine(tmp_path_factory: pytest.TempPathFactory) -> "Iterator[Engine]":
    from fencepost.audit.engine.embedded import EmbeddedEngine

    embedded = EmbeddedEngine(str(tmp_path_factory.mktemp("engine")))
    yield embedded
    embedded.close()
