"""Retries that span the death of the coordinator, on a real cluster: which code each client receives."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from fencepost.controller.errors import ErrorCode
from fencepost.controller.transactions.end_txn import EndTxn
from fencepost.controller.transactions.init_request import InitProducerIdAnswer
from fencepost.wire.dispatch import Api
from fencepost.wire.k22_init_producer_id import INIT_PRODUCER_ID
from fencepost.wire.k26_end_txn import END_TXN
from tests.clients.asking import init, outcome_of
from tests.clients.stories import Killed
from tests.harness.nodes import Nodes, running

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Nodes]:
    with running(tmp_path_factory.mktemp("timeouts") / "cluster") as started:
        yield started


@pytest.mark.row("360.3", "beyond.4")
def test_a_retry_that_spans_a_failover_is_answered_and_not_fenced(cluster: Nodes) -> None:
    first = outcome_of(cluster, "retries", INIT_PRODUCER_ID, init(of="retries"))
    again = init(first.producer_id, first.producer_epoch, of="retries")
    bumped = outcome_of(cluster, "retries", INIT_PRODUCER_ID, again)
    assert bumped == InitProducerIdAnswer(first.producer_id, first.producer_epoch + 1)
    killed = Killed(cluster)
    try:
        assert outcome_of(cluster, "retries", INIT_PRODUCER_ID, again) == bumped
        newer = init(first.producer_id, first.producer_epoch + 2, of="retries")
        assert outcome_of(cluster, "retries", INIT_PRODUCER_ID, newer) == ErrorCode.PRODUCER_FENCED
    finally:
        killed.restart()


GATED = [  # the last version that is told 47, and the first that is told 90
    pytest.param(INIT_PRODUCER_ID, 3, ErrorCode.INVALID_PRODUCER_EPOCH),
    pytest.param(INIT_PRODUCER_ID, 4, ErrorCode.PRODUCER_FENCED),
    pytest.param(END_TXN, 1, ErrorCode.INVALID_PRODUCER_EPOCH),
    pytest.param(END_TXN, 2, ErrorCode.PRODUCER_FENCED),
]


@pytest.mark.row("588.4", "588.5")
@pytest.mark.parametrize(("api", "version", "code"), GATED)
def test_who_is_fenced_is_told_so_in_a_code_of_its_version(
    cluster: Nodes, api: Api[Any, Any], version: int, code: ErrorCode
) -> None:
    name = f"{api.name}-{version}"
    first = outcome_of(cluster, name, INIT_PRODUCER_ID, init(of=name))
    outcome_of(cluster, name, INIT_PRODUCER_ID, init(of=name))
    pair = (first.producer_id, first.producer_epoch)
    request = EndTxn(name, *pair, True) if api is END_TXN else init(*pair, of=name)
    assert outcome_of(cluster, name, replace(api, versions=range(version, version + 1)), request) == code
