"""The ports that tests are given: never two tests' at once, and never used up."""

import contextlib
import socket
from pathlib import Path

import pytest

from tests.ports import PortPool, free_port


def test_every_candidate_is_given_however_a_process_begins_and_then_again() -> None:
    """The candidates are other numbers than the ports they stand for: nobody has claimed them."""
    ports = [free_port() for _ in range(5)]
    with contextlib.closing(PortPool([port - 20_000 for port in ports], [20_000])) as pool:
        for _ in range(2):
            assert {pool.take() + 20_000 for _ in ports} == set(ports)


def test_claims_take_one_descriptor() -> None:
    """A run takes hundreds of ports, and nodes in its process count the descriptors that are left."""
    ports = [free_port() for _ in range(20)]
    with contextlib.closing(PortPool([port - 20_000 for port in ports], [20_000])) as pool:
        before = len(list(Path("/proc/self/fd").iterdir()))
        for _ in ports:
            pool.take()
        assert len(list(Path("/proc/self/fd").iterdir())) == before + 1


def test_what_another_claims_or_listens_on_is_not_given() -> None:
    port = free_port()
    with (
        contextlib.closing(PortPool([port])) as another,
        pytest.raises(RuntimeError, match="1 candidates"),
    ):
        another.take()
    taken = free_port()
    with (
        socket.create_server(("127.0.0.1", taken)),
        contextlib.closing(PortPool([taken - 20_000], [20_000])) as listened_on,
        pytest.raises(RuntimeError, match="has a listener"),
    ):
        listened_on.take()
