"""The pytest plugin: real clusters as fixtures, killed while tests run, explained when they fail.

``fencepost_cluster``   one cluster for the session (``--fencepost-nodes``, 3), or for a worker of xdist.
``fencepost``           for one test: that cluster, with names that no other test has; see testing/lease.py.
``@pytest.mark.fencepost(nodes=5, config={...})``       a cluster of the test's own.
``@pytest.mark.fencepost(kill="leader", every=2)``      the leader dies, again 2 s after all is stable.
``@pytest.mark.fencepost(within=60)``                   the run ends, with who waits, if it takes 60 s.
Failing     tests get sections: the cause, what happened when, open and fenced transactions, the ends of logs.
Cost        this module is loaded by every run of pytest; the rest by the first test that asks for it.
"""

import contextlib
import gc
import os
import sys
from collections.abc import Generator, Iterator
from functools import partial
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from fencepost.testing.lease import Lease
    from fencepost.testing.running import RunningCluster

MARKER = "fencepost"
HELD: "pytest.StashKey[Lease]" = pytest.StashKey()
STANDARD_ERROR: "pytest.StashKey[int]" = pytest.StashKey()


def pytest_addoption(parser: pytest.Parser) -> None:
    """``--fencepost-nodes``, ``--fencepost-within``."""
    group = parser.getgroup("fencepost", "clusters for tests of exactly-once")
    group.addoption(
        "--fencepost-nodes", type=int, default=3, metavar="N", help="nodes of the session's cluster (3)"
    )
    group.addoption(
        "--fencepost-within",
        type=float,
        metavar="SECONDS",
        help="end the run if a test on a cluster takes longer, and say which clients wait for what",
    )


def pytest_configure(config: pytest.Config) -> None:
    """The marker, for --strict-markers; standard error as it is before it is captured."""
    with contextlib.suppress(AttributeError, OSError, ValueError):
        config.stash[STANDARD_ERROR] = os.dup(sys.stderr.fileno())
    config.addinivalue_line(
        "markers",
        'fencepost(nodes=3, config={...}, kill="leader", every=2, within=60): which cluster the test has',
    )


def pytest_unconfigure(config: pytest.Config) -> None:
    """Close what was opened."""
    with contextlib.suppress(KeyError, OSError):
        os.close(config.stash[STANDARD_ERROR])


@pytest.fixture(scope="session")
def fencepost_cluster(request: pytest.FixtureRequest) -> "Iterator[RunningCluster]":
    """The session's cluster."""
    _prepare()
    from fencepost.testing.cluster import Cluster

    nodes = request.config.getoption("--fencepost-nodes")
    with _in_a_sentence(), Cluster(nodes=nodes, faults=True) as cluster:
        yield cluster


@pytest.fixture
def fencepost(request: pytest.FixtureRequest) -> "Iterator[Lease]":
    """A cluster for one test, with fresh names. At its end every node runs again."""
    _prepare()
    from fencepost.testing.lease import RunningTest, leased
    from fencepost.testing.waiting import standard_error

    marker = request.node.get_closest_marker(MARKER)
    wanted = {} if marker is None else dict(marker.kwargs)
    test = RunningTest(
        name=request.node.nodeid,
        within_s=request.config.getoption("--fencepost-within"),
        report=standard_error(request.config.stash.get(STANDARD_ERROR, 2)),
    )
    shared = partial(request.getfixturevalue, "fencepost_cluster")
    with _in_a_sentence(), leased(wanted, shared, test) as lease:
        request.node.stash[HELD] = lease
        yield lease


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """The explanation of a failing test, while its cluster is still there.

    What the test left behind is collected first: futures whose errors were not looked at are logged then,
    with tracebacks. Within the parser by which pytest shows a test, CPython before 3.11.8 fails at that.
    """
    lease = item.stash.get(HELD, None)
    if lease is not None and call.excinfo is not None:
        gc.collect()
    report = yield
    if lease is not None and report.when == "call" and report.failed:
        failure = None if call.excinfo is None else call.excinfo.value
        report.sections[:0] = lease.explained(failure)
    return report


@contextlib.contextmanager
def _in_a_sentence() -> Iterator[None]:
    """What a fixture's cluster did not do is said without the kit's own code around it."""
    from fencepost.testing.cluster_failed import ClusterFailed

    try:
        yield
    except ClusterFailed as error:
        raise pytest.fail.Exception(f"fencepost: {error}", pytrace=False) from None


def _prepare() -> None:
    """Nodes begin to load beside what this process loads for the fixtures."""
    from fencepost.cluster import forked

    forked.prepare()
