"""Ports that belong to a cluster whose node is dead."""

import socket

import pytest

from fencepost.cluster.local_cluster import HOST, PORT_OFFSETS
from fencepost.testing.held_ports import HeldPorts


def listening(port: int) -> socket.socket:
    server = socket.socket()
    server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    server.bind((HOST, port))
    server.listen()
    return server


def test_a_node_listens_dies_and_listens_again() -> None:
    held = HeldPorts(3)
    try:
        for _ in range(2):
            with listening(held.first), socket.create_connection((HOST, held.first)):
                pass
            with pytest.raises(ConnectionRefusedError):
                socket.create_connection((HOST, held.first))
    finally:
        held.close()


def test_no_other_program_and_no_other_cluster_gets_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("random.sample", lambda population, _count: list(population))
    held = HeldPorts(2)
    try:
        for offset in PORT_OFFSETS:
            for node in range(2):
                with socket.socket() as other, pytest.raises(OSError, match="in use"):
                    other.bind((HOST, held.first + offset + node))
        other_held = HeldPorts(2)
        assert other_held.first != held.first
        other_held.close()
    finally:
        held.close()
    with socket.socket() as other:
        other.bind((HOST, held.first))
