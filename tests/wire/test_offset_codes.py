"""Codes of the APIs about offsets, as each version may say them, and where they stand."""

from typing import Any

import pytest

from fencepost.controller.errors import (
    ApiError,
    CoordinatorLoadInProgress,
    CoordinatorNotAvailable,
    ErrorCode,
    NotCoordinator,
    ProducerFenced,
    TransactionAbortable,
)
from fencepost.controller.groups.offset_messages import FetchOffsets, FetchOffsetsAnswer, GroupQuery
from fencepost.wire.dispatch import Api
from fencepost.wire.k09_offset_fetch import OFFSET_FETCH
from fencepost.wire.k25_add_offsets_to_txn import ADD_OFFSETS_TO_TXN
from fencepost.wire.k28_txn_offset_commit import TXN_OFFSET_COMMIT
from tests.together import table
from tests.wire.every_api import kios_response
from tests.wire.offset_api_rows import ADD, FETCH, TXN_COMMIT
from tests.wire.row import codes_in

FENCED, ABORTABLE = ProducerFenced("fenced"), TransactionAbortable("abort it")
LOADING = CoordinatorLoadInProgress("soon")
GATES = [
    pytest.param(ADD_OFFSETS_TO_TXN, FENCED, 1, ErrorCode.INVALID_PRODUCER_EPOCH, id="add-v1-fenced"),
    pytest.param(ADD_OFFSETS_TO_TXN, FENCED, 2, ErrorCode.PRODUCER_FENCED, id="add-v2-fenced"),
    pytest.param(ADD_OFFSETS_TO_TXN, ABORTABLE, 3, ErrorCode.INVALID_TXN_STATE, id="add-v3-abortable"),
    pytest.param(ADD_OFFSETS_TO_TXN, ABORTABLE, 4, ErrorCode.TRANSACTION_ABORTABLE, id="add-v4-abortable"),
    pytest.param(TXN_OFFSET_COMMIT, FENCED, 0, ErrorCode.INVALID_PRODUCER_EPOCH, id="commit-v0-fenced"),
    pytest.param(TXN_OFFSET_COMMIT, FENCED, 4, ErrorCode.INVALID_PRODUCER_EPOCH, id="commit-v4-fenced"),
    pytest.param(TXN_OFFSET_COMMIT, ABORTABLE, 3, ErrorCode.INVALID_TXN_STATE, id="commit-v3-abortable"),
    pytest.param(TXN_OFFSET_COMMIT, ABORTABLE, 4, ErrorCode.TRANSACTION_ABORTABLE, id="commit-v4-abortable"),
    pytest.param(TXN_OFFSET_COMMIT, LOADING, 1, ErrorCode.COORDINATOR_NOT_AVAILABLE, id="commit-v1-loading"),
    pytest.param(
        TXN_OFFSET_COMMIT, LOADING, 2, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, id="commit-v2-loading"
    ),
]


@pytest.mark.row("588.5")
@pytest.mark.parametrize(("api", "error", "version", "code"), GATES)
def test_a_code_is_one_that_the_version_knows(
    api: Api[Any, Any], error: ApiError, version: int, code: ErrorCode
) -> None:
    row = ADD if api is ADD_OFFSETS_TO_TXN else TXN_COMMIT
    body = api.refusal(version, row.visible_request(version, row.request), error, 0)
    assert set(codes_in(kios_response(api.key, version, body)[0])) == {code}


@table("version", range(1, 10))
def test_a_groups_code_stands_where_every_client_looks(version: int) -> None:
    """aiokafka reads the codes of partitions alone, and takes no partitions for "nothing committed"."""
    request = FETCH.visible_request(version, FETCH.request)
    body = OFFSET_FETCH.refusal(version, request, LOADING, 0)
    entity, _ = kios_response(OFFSET_FETCH.key, version, body)
    if version >= 8:
        (group,) = entity.groups
        assert (group.topics, group.error_code.value) == ((), LOADING.code)
        return
    if version >= 2:
        assert entity.error_code.value == LOADING.code
    rows = [each for topic in entity.topics for each in topic.partitions]
    assert [each.error_code.value for each in rows] == [LOADING.code] * 3
    assert {each.committed_offset for each in rows} == {-1}


@pytest.mark.parametrize(
    ("outcome", "is_closed"),
    [
        pytest.param(NotCoordinator("elsewhere"), True, id="not-the-coordinator"),
        pytest.param(CoordinatorNotAvailable("no one knows"), True, id="outcome-unknown"),
        pytest.param(LOADING, False, id="loading"),
        pytest.param(FetchOffsetsAnswer(()), False, id="an-answer"),
    ],
)
def test_an_offset_fetch_elsewhere_closes_its_connection(outcome: Any, is_closed: bool) -> None:
    """After such a code librdkafka never fetches the partition again; a lost connection is tried again."""
    assert OFFSET_FETCH.unanswered is not None
    request = FetchOffsets((GroupQuery("bill"),))
    assert (OFFSET_FETCH.unanswered(request, outcome) is not None) == is_closed
