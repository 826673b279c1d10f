"""Three nodes for this folder's slow tests, or the cluster that ``CLIENT_BOOTSTRAP`` names.

``CLIENT_BOOTSTRAP=host:port,.. pytest tests/client`` runs the same tests against another cluster, such as one
of Apache Kafka (``python -m tests.clients.kraft`` starts one). ``CLIENT_FAULTS=SEED`` kills and stops our
nodes meanwhile. With either, tests that kill nodes themselves are skipped.
"""

import os
from collections.abc import Iterator

import pytest

from tests.client.opened import Opened
from tests.harness.node_faults import NodeFaults
from tests.harness.nodes import NO_QUOTA, Nodes, revive, running

SWEEP = "transaction.abort.timed.out.transaction.cleanup.interval.ms=200"
TWO_PHASE = "transaction.two.phase.commit.enable=true"
BOOTSTRAP = os.environ.get("CLIENT_BOOTSTRAP", "")
FAULTS = os.environ.get("CLIENT_FAULTS", "")
FAULT_EVERY_S = 1.5


@pytest.fixture(scope="package")
def shared_cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Nodes | None]:
    """Of this folder's tests, up once; None: another cluster's."""
    if BOOTSTRAP:
        yield None
        return
    folder = tmp_path_factory.mktemp("client") / "cluster"
    with running(folder, NO_QUOTA, "num.partitions=3", SWEEP, TWO_PHASE) as nodes:
        if not FAULTS:
            yield nodes
            return
        with NodeFaults(nodes, int(FAULTS), FAULT_EVERY_S) as faults:
            yield nodes
    assert faults.failed is None, f"no fault came any more: {faults.failed}"
    assert faults.kills, "no node was killed"


@pytest.fixture
def bootstrap(shared_cluster: Nodes | None) -> str:
    """The bootstrap servers of a whole cluster."""
    if shared_cluster is None:
        return BOOTSTRAP
    return shared_cluster.bootstrap if FAULTS else revive(shared_cluster).bootstrap


@pytest.fixture
def ours(bootstrap: str) -> str:
    """The same of a fencepost cluster, for what Apache Kafka does not have."""
    if BOOTSTRAP:
        pytest.skip("Apache Kafka does not have it")
    return bootstrap


@pytest.fixture
def nodes(shared_cluster: Nodes | None) -> Nodes:
    """The nodes, to be killed."""
    if shared_cluster is None:
        pytest.skip("the nodes of another cluster are not ours to kill")
    if FAULTS:
        pytest.skip("it kills nodes itself")
    return revive(shared_cluster)


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> Opened:
    return Opened(monkeypatch)
