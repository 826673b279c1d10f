"""What an error says of its file, in a line."""

import errno
import os

import pytest

from fencepost.records.named_errors import naming, sentence, why


def test_a_descriptor_that_fails_is_named_by_its_path() -> None:
    with pytest.raises(OSError, match="here/file") as failed, naming("here/file"):
        raise OSError(errno.EIO, os.strerror(errno.EIO))
    assert sentence(failed.value) == "here/file cannot be used: input/output error"
    assert why(failed.value) == "Input/output error"


def test_a_path_of_bytes_is_said_as_text() -> None:
    error = OSError(errno.EACCES, os.strerror(errno.EACCES), b"here/file\xff")
    assert sentence(error) == "here/file\udcff cannot be used: permission denied"


def test_a_name_that_is_there_stays() -> None:
    with pytest.raises(OSError, match="its own"), naming("another"):
        raise OSError(errno.EIO, "failed", "its own")


@pytest.mark.parametrize("error", [OSError("a sentence of ours"), ValueError("another")])
def test_an_error_without_a_path_says_what_it_says(error: Exception) -> None:
    assert why(error) == str(error)
    if isinstance(error, OSError):
        assert sentence(error) == str(error)
