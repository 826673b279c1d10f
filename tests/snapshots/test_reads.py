"""A file that cannot be read is named."""

from collections.abc import Callable
from pathlib import Path

import pytest

from fencepost.records.named_errors import sentence
from fencepost.snapshots.reads import read_bytes, read_if_there


@pytest.mark.parametrize("read", [read_bytes, read_if_there])
def test_a_file_that_opens_and_cannot_be_read_is_named(read: Callable[[Path], bytes | None]) -> None:
    with pytest.raises(OSError, match="Input/output error") as failed:
        read(Path("/proc/self/mem"))  # nothing is mapped at its begin
    assert sentence(failed.value) == "/proc/self/mem cannot be used: input/output error"


def test_a_file_that_is_not_there_has_no_content(tmp_path: Path) -> None:
    assert read_if_there(tmp_path / "none") is None
    (tmp_path / "some").write_bytes(b"content")
    assert read_if_there(tmp_path / "some") == b"content"
