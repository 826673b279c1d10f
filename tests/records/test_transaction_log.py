"""Transaction records as Kafka encodes them: fixed bytes, derived by hand from Kafka's schemas."""

import msgspec
import pytest

from fencepost.records.invariant import CorruptData, InvariantViolation
from fencepost.records.transaction_log import (
    Fence,
    GroupAssignment,
    TopicPartitions,
    TransactionForgotten,
    TransactionStateRecord,
    decode_transaction,
    encode_transaction,
)
from fencepost.records.types import Log, ProducerId
from tests.together import table

# version | ProducerId | Epoch | TimeoutMs | Status | Partitions | LastUpdate | Start | tagged fields.
# A flexible string or array is its length + 1 as a varint, then its content; 00 is null.
KEY = "0000 | 0003 706179"
EMPTY = TransactionStateRecord(
    transactional_id="pay",
    producer_id=ProducerId(42),
    producer_epoch=5,
    transaction_timeout_ms=60_000,
    status=0,
    updated_ms=1_700_000_000_000,
)
EMPTY_VALUE = "0001 | 000000000000002a | 0005 | 0000ea60 | 00 | 00 | 0000018bcfe56800 | ffffffffffffffff |"
VECTORS = [
    pytest.param(EMPTY, EMPTY_VALUE + "00", id="empty-as-kafkas-with-no-tag"),
    pytest.param(
        msgspec.structs.replace(
            EMPTY,
            status=1,
            partitions=(TopicPartitions("orders", (0, 7)), TopicPartitions("audit", ())),
            started_ms=1,
        ),
        "0001 | 000000000000002a | 0005 | 0000ea60 | 01"
        "| 03 | 07 6f7264657273 | 03 00000000 00000007 | 00 | 06 6175646974 | 01 | 00"
        "| 0000018bcfe56800 | 0000000000000001 | 00",
        id="ongoing",
    ),
    pytest.param(
        msgspec.structs.replace(
            EMPTY,
            producer_id=ProducerId(2**63 - 1),
            producer_epoch=32767,
            status=2,
            partitions=(),
            previous_producer_id=ProducerId(41),
            next_producer_id=ProducerId(85),
            client_transaction_version=2,
            next_producer_epoch=0,
        ),
        "0001 | 7fffffffffffffff | 7fff | 0000ea60 | 02 | 01 | 0000018bcfe56800 | ffffffffffffffff"
        "| 04 | 00 08 0000000000000029 | 01 08 0000000000000055 | 02 02 0002 | 03 02 0000",
        id="kafkas-own-tags",
    ),
    pytest.param(
        msgspec.structs.replace(
            EMPTY,
            instance_epoch=3,
            last_producer_epoch=4,
            init_version=4,
            fences=(Fence(1, 1, ProducerId(42), 4, "rd"),),
            timed_out=True,
        ),
        EMPTY_VALUE + "05 | e807 02 0003 | e907 02 0004 | ea07 02 0004"
        "| eb07 18 02 0000000000000001 01 000000000000002a 0004 03 7264 00 | ec07 01 01",
        id="our-tags-from-1000-up",
    ),
    pytest.param(
        msgspec.structs.replace(
            EMPTY, next_producer_id=ProducerId(42), next_producer_epoch=6, next_timeout_ms=1000
        ),
        EMPTY_VALUE + "03 | 01 08 000000000000002a | 03 02 0006 | ed07 04 000003e8",
        id="kept-by-an-instance-with-another-timeout",
    ),
    pytest.param(
        msgspec.structs.replace(
            EMPTY, assignments=(GroupAssignment("g", 3, (TopicPartitions("ab", (1, 2)),)),)
        ),
        EMPTY_VALUE + "01 | ee07 16 02 | 02 67 00000003 02 | 03 6162 03 00000001 00000002 00 | 00",
        id="assigned-partitions-of-a-group",
    ),
    pytest.param(
        msgspec.structs.replace(EMPTY, assignments=()), EMPTY_VALUE + "01 | ee07 01 01", id="none-any-more"
    ),
]


def unspaced(text: str) -> bytes:
    return bytes.fromhex(text.replace("|", " "))


@table(("record", "value"), VECTORS)
def test_fixed_bytes(record: TransactionStateRecord, value: str) -> None:
    """Row 939.2."""
    assert encode_transaction(record) == (unspaced(KEY), unspaced(value))
    assert decode_transaction(unspaced(KEY), unspaced(value)) == record
    assert record.log is Log.TRANSACTION_STATE


def test_a_tombstone_has_no_value() -> None:
    assert encode_transaction(TransactionForgotten("pay")) == (unspaced(KEY), None)
    assert decode_transaction(unspaced(KEY), None) == TransactionForgotten("pay")


def test_a_tag_that_nobody_here_knows_is_skipped() -> None:
    assert decode_transaction(unspaced(KEY), unspaced(EMPTY_VALUE + "01 63 03 aabbcc")) == EMPTY


def test_a_key_version_that_is_not_known_is_nobodys_error() -> None:
    """As Kafka: its newest code has other record types there."""
    assert decode_transaction(unspaced("0001 | 0003 706179"), b"anything") is None


@table(
    ("key", "value"),
    [
        pytest.param(None, EMPTY_VALUE + "00", id="no-key"),
        pytest.param("00", EMPTY_VALUE + "00", id="half-a-version"),
        pytest.param("0000 | 00", EMPTY_VALUE + "00", id="half-a-length"),
        pytest.param("0000 | 0004 706179", EMPTY_VALUE + "00", id="an-id-that-is-cut"),
        pytest.param("0000 | 0002 706179", EMPTY_VALUE + "00", id="bytes-after-the-id"),
        pytest.param("0000 | ffff", EMPTY_VALUE + "00", id="a-negative-length"),
        pytest.param("0000 | 0001 ff", EMPTY_VALUE + "00", id="no-utf-8"),
        pytest.param(KEY, "00", id="half-a-value-version"),
        pytest.param(KEY, "0000" + EMPTY_VALUE[4:] + "00", id="value-version-0"),
        pytest.param(KEY, "0002" + EMPTY_VALUE[4:] + "00", id="value-version-2"),
        pytest.param(KEY, EMPTY_VALUE, id="no-tagged-fields"),
        pytest.param(KEY, EMPTY_VALUE + "00 00", id="bytes-after-the-value"),
    ],
)
def test_what_is_corrupt_is_refused(key: str | None, value: str) -> None:
    with pytest.raises(CorruptData):
        decode_transaction(None if key is None else unspaced(key), unspaced(value))


@table(
    "changed",
    [
        pytest.param({"producer_epoch": 32768}, id="an-epoch-past-its-type"),
        pytest.param({"producer_id": 2**63}, id="an-id-past-its-type"),
        pytest.param({"status": 128}, id="a-state-past-its-type"),
        pytest.param({"transactional_id": "x" * 32768}, id="a-key-past-its-length"),
        pytest.param({"transactional_id": "\ud800"}, id="a-key-that-is-no-text"),
    ],
)
def test_what_does_not_fit_is_our_bug(changed: dict[str, object]) -> None:
    with pytest.raises(InvariantViolation):
        encode_transaction(msgspec.structs.replace(EMPTY, **changed))
