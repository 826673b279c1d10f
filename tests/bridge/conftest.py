"""What the tests of ZooKeeper's files share."""

import shutil
from pathlib import Path

import pytest

from tests.bridge.real import REAL


@pytest.fixture
def files(tmp_path: Path) -> Path:
    return Path(shutil.copytree(REAL, tmp_path / "data" / "version-2"))
