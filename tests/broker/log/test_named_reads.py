"""What cannot be read of a log says its file: the system names only what was opened."""

import errno
import os
from pathlib import Path
from typing import Any

import pytest

from fencepost.broker.log.segment import Segment
from fencepost.records.types import Offset


@pytest.fixture
def segment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Segment:
    """One of which no byte can be read, nor be cut."""

    def fails(*given: Any) -> bytes:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    made = Segment.create(tmp_path, Offset(0))
    made.make_ready()
    made.times.append(1, 1)
    made.size = 100
    monkeypatch.setattr(os, "pread", fails)
    monkeypatch.setattr(os, "ftruncate", fails)
    return made


def failed(error: pytest.ExceptionInfo[OSError]) -> str:
    return Path(str(error.value.filename)).suffix


def test_batches(segment: Segment) -> None:
    for use in (
        lambda: segment.bytes_at(0, 10),
        lambda: next(segment.walk()),
        lambda: segment.read(0, 100, 100, at_least_one=True),
        lambda: segment.cut(0),
    ):
        with pytest.raises(OSError, match=r"\.log") as error:
            use()
        assert failed(error) == ".log"


def test_index_entries(segment: Segment) -> None:
    for use in (
        lambda: segment.times[0],
        lambda: list(segment.times.entries()),
        lambda: segment.times.cut(0),
    ):
        with pytest.raises(OSError, match=r"\.timeindex") as error:
            use()
        assert failed(error) == ".timeindex"
