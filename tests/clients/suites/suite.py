"""A client library's own tests: what a suite is, and what it yields."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final, NamedTuple

from tests.clients.results import FAILED, NOT_RUN, PASSED

__all__ = ["FAILED", "NOT_RUN", "PASSED"]

BUILD_SECONDS_MAX: Final = 1800.0


class Ran(NamedTuple):
    """How one test ended."""

    name: str
    result: str
    """PASSED, FAILED or NOT_RUN."""
    said: str = ""
    """Why it failed or was not run; else what is to be known of it."""
    seconds: float | None = None


Tests = Callable[[str, Path], Iterator[Ran]]
"""The bootstrap servers, an empty folder for logs -> each test as it ends. Raises NotHere."""


class Suite(NamedTuple):
    """One library's tests."""

    version: str
    run: Tests
    settings: tuple[str, ...] = ()
    """Of the cluster's nodes: what the library sets for its own brokers, and its tests expect."""
    node_count: int = 3
