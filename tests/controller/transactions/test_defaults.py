"""What messages, rows and settings mean that do not say more."""

from fencepost.controller import transactions
from tests.struct_defaults import Defaults, defaults_in

DEFAULTS: Defaults = {
    "add_partitions.AddPartitions": {"verify_only": False, "for_client": False},
    "add_partitions.AddPartitionsToTxn": {"batched": False},
    "describe.DescribedTransaction": {
        "error_code": 0,
        "transaction_timeout_ms": 0,
        "started_ms": -1,
        "producer_id": -1,
        "producer_epoch": -1,
    },
    "describe.ListTransactions": {"duration_ms": -1},
    "describe.ListedTransaction": {"two_phase_ms": -1, "is_kept": False},
    "describe.OpenTimes": {"longest_ms": 0, "two_phase": 0, "two_phase_longest_ms": 0},
    "end_txn.EndTxn": {"knows_abortable": True, "bumps_epoch": False},
    "expiry.Due": {"more": False},
    "expiry.Expired": {"more": False},
    "expiry.TimedOut": {"more": False},
    "init_request.InitProducerId": {
        "producer_id": -1,
        "producer_epoch": -1,
        "init_version": 4,
        "enables_two_phase": False,
        "keeps_prepared": False,
    },
    "init_request.InitProducerIdAnswer": {"ongoing_producer_id": -1, "ongoing_producer_epoch": -1},
    "markers.Marker": {"transaction_version": 0},
    "states.Transaction": {
        "updated_ms": -1,
        "started_ms": -1,
        "previous_producer_id": -1,
        "next_producer_id": -1,
        "client_transaction_version": 0,
        "next_producer_epoch": -1,
        "instance_epoch": -1,
        "last_producer_epoch": -1,
        "init_version": -1,
        "timed_out": False,
        "prepared_version": 0,
        "started_epoch": 0,
    },
}


def test_none_of_them_changes() -> None:
    assert defaults_in(transactions) == DEFAULTS
