"""A question over a socket, and answers that are cut off."""

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from fencepost.testing import asking
from fencepost.testing.cluster_failed import ClusterFailed


@contextmanager
def answered(path: Path, answer: bytes) -> Iterator[Path]:
    """A process that answers one question so, and ends."""
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(path))
        listening.listen()

        def serve() -> None:
            connection, _ = listening.accept()
            with connection:
                connection.makefile("rb").readline()
                connection.sendall(answer)

        serving = threading.Thread(target=serve)
        serving.start()
        yield path
        serving.join()


def test_what_is_said_comes_back(tmp_path: Path) -> None:
    with answered(tmp_path / "sock", b'{"said": 5}\n') as path:
        assert asking.ask(path, "state", {"number": 1}, 10) == 5


@pytest.mark.parametrize("cut", [b"", b'{"said": 5}'], ids=["nothing", "no-end"])
def test_a_process_that_ends_within_its_answer_has_ended(tmp_path: Path, cut: bytes) -> None:
    with (
        answered(tmp_path / "sock", cut) as path,
        pytest.raises(ConnectionResetError, match="the cluster ended"),
    ):
        asking.ask(path, "state", {}, 10)


def test_an_answer_that_is_too_long_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It was cut off, and taken for JSON that makes no sense."""
    monkeypatch.setattr(asking, "ANSWER_BYTES_MAX", 8)
    said = "the answer to 'requests' is longer than 8 bytes"
    with answered(tmp_path / "sock", b'{"said": 5}\n') as path, pytest.raises(ClusterFailed, match=said):
        asking.ask(path, "requests", {}, 10)
