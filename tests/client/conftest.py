"""Three nodes for this folder's slow tests, or the cluster that ``CLIENT_BOOTSTRAP`` names.

``CLIENT_BOOTSTRAP=host:port,.. pytest tests/client`` runs the same tests against another cluster, such as one
of Apache Kafka (``python -m tests.clients.kraft`` starts one). Tests that kill nodes are skipped there.
"""

import os
from collections.abc import Iterator

import pytest

from tests.harness.nodes import NO_QUOTA, Nodes, revive, running

SWEEP = "transaction.abort.timed.out.transaction.cleanup.interval.ms=200"
TWO_PHASE = "transaction.two.phase.commit.enable=true"
BOOTSTRAP = os.environ.get("CLIENT_BOOTSTRAP", "")


@pytest.fixture(scope="package")
def shared_cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Nodes | None]:
    """Of this folder's tests, up once; None: another cluster's."""
    if BOOTSTRAP:
        yield None
        return
    folder = tmp_path_factory.mktemp("client") / "cluster"
    with running(folder, NO_QUOTA, "num.partitions=3", SWEEP, TWO_PHASE) as nodes:
        yield nodes


@pytest.fixture
def bootstrap(shared_cluster: Nodes | None) -> str:
    """The bootstrap servers of a whole cluster."""
    return BOOTSTRAP if shared_cluster is None else revive(shared_cluster).bootstrap


@pytest.fixture
def nodes(shared_cluster: Nodes | None) -> Nodes:
    """The nodes, to be killed."""
    if shared_cluster is None:
        pytest.skip("the nodes of another cluster are not ours to kill")
    return revive(shared_cluster)
