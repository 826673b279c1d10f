"""Admin clients ask every broker for its transactions: one that coordinates none has an empty list."""

import pytest

from fencepost.controller.errors import ErrorCode, NotCoordinator
from fencepost.controller.transactions.describe import (
    ListedTransaction,
    ListTransactions,
    ListTransactionsAnswer,
)
from fencepost.records.types import ProducerId
from fencepost.wire.errors import error_for
from fencepost.wire.k66_list_transactions import LIST_TRANSACTIONS
from fencepost.wire.schema import Message
from tests.together import table
from tests.wire.every_api import kios_response

VERSIONS = list(LIST_TRANSACTIONS.versions)


@table("version", VERSIONS)
@table("throttle_ms", [0, 70_000])
def test_not_coordinator_is_an_empty_list_to_others_and_itself_to_us(version: int, throttle_ms: int) -> None:
    body = LIST_TRANSACTIONS.refusal(version, ListTransactions(), NotCoordinator("elsewhere"), throttle_ms)
    read = Message(66, "response").decode(version, body)
    assert (read["error_code"], read["transaction_states"]) == (ErrorCode.NONE, ())
    assert read["throttle_time_ms"] == throttle_ms
    with pytest.raises(NotCoordinator):
        LIST_TRANSACTIONS.decode_response(version, body)


@pytest.mark.parametrize("version", VERSIONS)
def test_any_other_refusal_is_an_error_to_all(version: int) -> None:
    code = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    body = LIST_TRANSACTIONS.refusal(version, ListTransactions(), error_for(code), 0)
    assert kios_response(66, version, body)[0].error_code == code


@pytest.mark.row("939.6")
@table("version", VERSIONS)
@table(("two_phase_ms", "is_kept"), [(-1, False), (0, False), (2**40, True), (-1, True)])
def test_a_row_says_what_waits_for_an_external_coordinator(
    version: int, two_phase_ms: int, is_kept: bool
) -> None:
    """In tags of ours; Kafka's readers skip them."""
    row = ListedTransaction("transfers", ProducerId(77), "Ongoing", two_phase_ms, is_kept)
    answer = ListTransactionsAnswer((), (row, ListedTransaction("refunds", ProducerId(78), "Empty")))
    body = LIST_TRANSACTIONS.encode_response(version, answer, 0)
    assert LIST_TRANSACTIONS.decode_response(version, body) == answer
    read = Message(66, "response").decode(version, body)
    assert [each["transactional_id"] for each in read["transaction_states"]] == ["transfers", "refunds"]
