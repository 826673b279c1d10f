"""One cluster for the tests that leave it as they found it: three nodes up, no quota."""

import functools
import os
from collections.abc import Generator, Iterator
from typing import Any

import pytest

from tests.harness.nodes import NO_QUOTA, Nodes, revive, running
from tests.processes import archive_reader, versions


@pytest.fixture(scope="package")
def shared_cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Nodes]:
    """Of this folder's tests, up once. Among folders with our names: see tests/cli/test_cluster.py."""
    with running(tmp_path_factory.mktemp("processes") / "cluster", NO_QUOTA) as nodes:
        yield nodes


@pytest.fixture
def nodes(shared_cluster: Nodes) -> Nodes:
    """The shared cluster, whole."""
    return revive(shared_cluster)


@pytest.fixture
def since(nodes: Nodes) -> int:
    """Where the archive ends as the test begins."""
    return min(archive_reader.end_offset(nodes.home(node_id)) for node_id in nodes.node_ids)


@pytest.fixture(scope="package")
def earlier_tree(tmp_path_factory: pytest.TempPathFactory) -> versions.Trees:
    """The source of a commit: see versions.py. Made once for all workers: the first start compiles it."""
    folder = tmp_path_factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        folder = folder.parent
    return functools.cache(lambda commit: versions.earlier_tree(folder / "earlier", commit))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, Any, Any]:
    """A failed test's report shows how the logs of its nodes end."""
    report: Any = yield
    clusters = {each for each in getattr(item, "funcargs", {}).values() if isinstance(each, Nodes)}
    if report.failed:
        report.sections += [("logs of the nodes", each.log_tails()) for each in clusters]
    return report
