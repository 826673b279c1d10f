"""What every test shares: reproducible Hypothesis runs, and a free stretch of loopback ports.

Markers (pyproject.toml): ``row("730.1")`` ties an end-to-end test to a row of tests/rows.tsv; ``slow`` keeps
a test out of ``make check``.
"""

import contextlib
import os
import socket
from collections.abc import Callable

import pytest
from hypothesis import HealthCheck, settings

settings.register_profile(
    "default", deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow]
)
settings.register_profile("explore", deadline=None, max_examples=2_000)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "default"))

PORT_FIRST = 20_000
PORT_END = 20_700  # a cluster's ports are P, P+100, P+200, P+300 and up


_CANDIDATES = iter(range(PORT_FIRST + os.getpid() % 64 * 10, PORT_END + 10, 10))


def next_free_port() -> int:
    """A ``--port`` of which nine nodes' ports are all free. Never the same one twice in a run."""
    for port in _CANDIDATES:
        if all(_is_free(port + offset + node) for offset in (0, 100, 200, 300) for node in range(9)):
            return port
    raise RuntimeError("no free stretch of ports is left")


@pytest.fixture
def free_port() -> Callable[[], int]:
    """See ``next_free_port``."""
    return next_free_port


@pytest.fixture(scope="module")
def module_port() -> Callable[[], int]:
    """``free_port`` for fixtures that live as long as a module."""
    return next_free_port


def _is_free(port: int) -> bool:
    with contextlib.closing(socket.socket()) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
        return True
