"""What the coordinators' records become: transaction states, commits, groups, and what cannot be read."""

import struct
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from fencepost.records.group_metadata import (
    GroupForgotten,
    GroupMember,
    GroupMetadata,
    GroupState,
    encode_group,
)
from fencepost.records.offset_commit import OffsetCommitRecord, encode_offset
from fencepost.records.transaction_log import (
    Fence as ProducerFence,
)
from fencepost.records.transaction_log import (
    TopicPartitions,
    TransactionForgotten,
    TransactionStateRecord,
    encode_transaction,
)
from fencepost.records.types import ProducerId
from tests.audit.decode.corpus import NOW_MS, Record, batch_of, tables_of
from tests.broker.log.builders import CODECS, compressed, patched, resealed
from tests.together import table

STATE = TransactionStateRecord(
    transactional_id="payments-1",
    producer_id=ProducerId(7),
    producer_epoch=3,
    transaction_timeout_ms=60_000,
    status=1,
    partitions=(TopicPartitions("a", (0, 2)), TopicPartitions("b", (1,))),
    updated_ms=NOW_MS + 1,
    started_ms=NOW_MS,
    previous_producer_id=ProducerId(6),
    next_producer_id=ProducerId(8),
    client_transaction_version=2,
    next_producer_epoch=0,
    last_producer_epoch=2,
    fences=tuple(ProducerFence(NOW_MS, cause, ProducerId(7), 2, "client") for cause in range(5)),
    timed_out=True,
)
KEY, VALUE = encode_transaction(STATE)


def value_0(status: int = 2, partitions: bytes | None = None, rest: bytes = b"") -> bytes:
    listed = (
        struct.pack(">ih1sii", 1, 1, b"a", 2, 5) + struct.pack(">i", 6) if partitions is None else partitions
    )
    return (
        struct.pack(">hqhib", 0, 7, 3, 60_000, status)
        + listed
        + struct.pack(">qq", NOW_MS + 1, NOW_MS)
        + rest
    )


def states(directory: Path, *records: Record) -> dict[str, list[dict[str, Any]]]:
    return tables_of(directory, "__transaction_state", [batch_of(*records)])


def test_a_transaction_state_is_a_row_with_all_that_it_says(tmp_path: Path) -> None:
    (row,) = states(tmp_path, (KEY, VALUE))["transaction_states"]
    assert row == {
        "position": 0, "offset": 0, "leader_epoch": 0, "timestamp_ms": NOW_MS,
        "transactional_id": "payments-1", "forgotten": False, "state": "Ongoing",
        "producer_id": 7, "producer_epoch": 3, "timeout_ms": 60_000,
        "updated_ms": NOW_MS + 1, "started_ms": NOW_MS, "previous_producer_id": 6, "next_producer_id": 8,
        "next_producer_epoch": 0, "client_transaction_version": 2, "last_producer_epoch": 2,
        "timed_out": True,
        "partitions": [
            {"topic": "a", "partition": 0}, {"topic": "a", "partition": 2}, {"topic": "b", "partition": 1},
        ],
        "fences": [
            {"at_ms": NOW_MS, "cause": cause, "producer_id": 7, "producer_epoch": 2, "by": "client"}
            for cause in (
                "a new instance", "its timeout", "its own InitProducerId",
                "another member of its group", "cause 4",
            )
        ],
    }  # fmt: skip


def test_a_value_of_version_0_has_the_defaults_of_what_came_later(tmp_path: Path) -> None:
    found = states(tmp_path, (KEY, value_0()), (KEY, value_0(0, struct.pack(">i", -1))))
    first, second = found["transaction_states"]
    assert (first["state"], first["partitions"]) == (
        "PrepareCommit",
        [{"topic": "a", "partition": 5}, {"topic": "a", "partition": 6}],
    )
    assert (second["state"], second["partitions"], second["fences"]) == ("Empty", [], [])
    assert (first["updated_ms"], first["started_ms"], first["timeout_ms"]) == (NOW_MS + 1, NOW_MS, 60_000)
    assert (first["previous_producer_id"], first["next_producer_epoch"], first["timed_out"]) == (
        -1,
        -1,
        False,
    )


def test_a_tombstone_is_a_row_of_nulls(tmp_path: Path) -> None:
    (row,) = states(tmp_path, encode_transaction(TransactionForgotten("payments-1")))["transaction_states"]
    assert (row["transactional_id"], row["forgotten"]) == ("payments-1", True)
    assert {row[name] for name in list(row)[6:]} == {None}


def test_a_log_that_keeps_the_time_of_appending_gives_it_to_its_records(tmp_path: Path) -> None:
    raw = patched(batch_of((KEY, VALUE)), 21, struct.pack(">hiqq", 0x08, 0, NOW_MS, NOW_MS + 5))
    (row,) = tables_of(tmp_path, "__transaction_state", [raw])["transaction_states"]
    assert row["timestamp_ms"] == NOW_MS + 5


@table("codec", CODECS)
def test_a_compressed_batch_is_opened(tmp_path: Path, codec: str) -> None:
    plain = batch_of((KEY, VALUE), (KEY, None))
    (first, second) = (
        tables_of(tmp_path, "__transaction_state", [each])["transaction_states"]
        for each in (plain, compressed(plain, codec))
    )
    assert first == second
    assert len(first) == 2


@table(
    ("record", "fault", "reason"),
    [
        pytest.param((None, VALUE), "record", "a transaction record with key None", id="no key"),
        pytest.param((b"\0", VALUE), "record", "a transaction record with key b", id="half a key"),
        pytest.param((KEY[:-1], VALUE), "record", "a transactional id of 10 bytes", id="a key cut short"),
        pytest.param((KEY + b"x", VALUE), "record", "a transactional id of 10 bytes", id="a key with more"),
        pytest.param((KEY, b""), "record", "a transaction value of 0 bytes", id="an empty value"),
        pytest.param((KEY, (VALUE or b"")[:-2]), "record", "", id="a value cut short"),
        pytest.param(
            (KEY, b"\0\x02rest"), "version", "transaction value version 2, expected 0 or 1", id="newer"
        ),
        pytest.param((KEY, b"\xff\xffrest"), "version", "transaction value version -1", id="negative"),
        pytest.param((KEY, value_0()[:-1]), "record", "bytes end inside 8 bytes", id="version 0 cut short"),
        pytest.param((KEY, value_0(rest=b"x")), "record", "1 bytes after", id="version 0 with more"),
        pytest.param((KEY, value_0(8)), "record", "transaction state 8, expected 0 to 7", id="no such state"),
        pytest.param(
            (KEY, value_0(1, struct.pack(">i", 2**31 - 1))),
            "record",
            "an array of 2147483647",
            id="endless array",
        ),
    ],
)
def test_a_transaction_record_that_cannot_be_read_is_a_fault(
    tmp_path: Path, record: Record, fault: str, reason: str
) -> None:
    found = states(tmp_path, (KEY, VALUE), record)
    assert len(found["transaction_states"]) == 1
    (only,) = found["record_faults"]
    assert (only["position"], only["offset"], only["fault"]) == (0, 1, fault)
    assert reason in only["reason"]


def test_a_key_version_that_is_not_known_is_skipped(tmp_path: Path) -> None:
    found = states(tmp_path, (b"\0\x01anything", VALUE), (b"\0\x01anything", b"\0\x09"), (b"\0\x01x", None))
    assert found["transaction_states"] == found["record_faults"] == []


def commit(version: int = 1, group: bytes = b"copier", rest: bytes = b"") -> bytes:
    return (
        struct.pack(">hh", version, len(group))
        + group
        + struct.pack(">h", 8)
        + b"payments"
        + struct.pack(">i", 2)
        + rest
    )


def test_offset_commits(tmp_path: Path) -> None:
    value = struct.pack(">hqihq", 3, 12, 1, 0, NOW_MS)
    found = tables_of(
        tmp_path,
        "__consumer_offsets",
        [
            batch_of(
                (commit(), value), (commit(0), value), producer_id=7, producer_epoch=1, transactional=True
            ),
            batch_of((commit(), None), (b"\0\x63", None)),
            batch_of((commit(), struct.pack(">hq", 9, 13) + b"what a later version has")),
        ],
    )
    said = [tuple(row.values())[1:] for row in found["offset_commits"]]
    kafkas = (None, NOW_MS, -1, -1, False, None)
    assert said == [
        (0, NOW_MS, "copier", "payments", 2, 12, 7, 1, *kafkas),
        (1, NOW_MS, "copier", "payments", 2, 12, 7, 1, *kafkas),
        (2, NOW_MS, "copier", "payments", 2, None, -1, -1, *[None] * 6),
        (4, NOW_MS, "copier", "payments", 2, 13, -1, -1, *[None] * 6),
    ]
    assert found["record_faults"] == []


def test_our_commits_say_who_committed(tmp_path: Path) -> None:
    record = OffsetCommitRecord(
        group_id="copier", topic="payments", partition=2, offset=12, committed_ms=NOW_MS,
        expires_ms=NOW_MS + 1, topic_id=UUID(int=7), committer=ProducerId(7), generation=3,
        is_identified=True, member_id="a-1",
    )  # fmt: skip
    batch = batch_of(encode_offset(record), producer_id=7, producer_epoch=1, transactional=True)
    (row,) = tables_of(tmp_path, "__consumer_offsets", [batch])["offset_commits"]
    assert (row["topic_id"], row["committed_ms"], row["expires_ms"]) == (str(UUID(int=7)), NOW_MS, NOW_MS + 1)
    assert (row["generation"], row["is_identified"], row["member_id"]) == (3, True, "a-1")


ASSIGNMENT = struct.pack(">hih5sii", 0, 1, 5, b"input", 1, 6) + b"\xff\xff\xff\xff"


@table(
    ("protocol_type", "assignment", "expected"),
    [
        pytest.param("consumer", ASSIGNMENT, [{"topic": "input", "partition": 6}], id="consumer"),
        pytest.param("consumer", b"", None, id="not assigned yet"),
        pytest.param("consumer", ASSIGNMENT[:-6], None, id="cut short"),
        pytest.param("connect", ASSIGNMENT, None, id="of another protocol"),
    ],
)
def test_group_generations(
    tmp_path: Path, protocol_type: str, assignment: bytes, expected: list[dict[str, object]] | None
) -> None:
    member = GroupMember("a-1", "a", "client", "/127.0.0.1", 9, 8, (("range", b""),), assignment)
    group = GroupMetadata(
        group_id="copier", protocol_type=protocol_type, generation=3, protocol="range", leader="a-1",
        state=GroupState.PREPARING_REBALANCE, state_ms=NOW_MS, members=(member,),
    )  # fmt: skip
    batch = batch_of(encode_group(group), encode_group(GroupForgotten("copier")))
    found = tables_of(tmp_path, "__consumer_offsets", [batch])
    row, tombstone = found["group_generations"]
    assert tuple(row.values())[1:-1] == (
        0, NOW_MS, "copier", False, "PreparingRebalance", NOW_MS, 3, protocol_type, "range", "a-1"
    )  # fmt: skip
    assert row["members"] == [
        {"member_id": "a-1", "instance_id": "a", "client_id": "client", "client_host": "/127.0.0.1",
         "assignment": expected}
    ]  # fmt: skip
    assert (tombstone["group_id"], tombstone["forgotten"], tombstone["members"]) == ("copier", True, None)
    assert found["record_faults"] == []


@table(
    ("value", "fault", "reason"),
    [
        pytest.param(b"\0\x05rest", "version", "group value version 5, expected 0 to 4", id="newer"),
        pytest.param(b"\0\x03\0", "record", "a group value, at byte", id="cut short"),
        pytest.param(b"", "record", "bytes end inside 2 bytes", id="empty"),
    ],
)
def test_a_group_that_cannot_be_read_is_a_fault(
    tmp_path: Path, value: bytes, fault: str, reason: str
) -> None:
    found = tables_of(tmp_path, "__consumer_offsets", [batch_of((b"\0\x02\0\x01g", value))])
    (only,) = found["record_faults"]
    assert (only["fault"], found["group_generations"]) == (fault, [])
    assert reason in only["reason"]


@table(
    ("record", "reason"),
    [
        pytest.param((None, b""), "bytes end inside 2 bytes", id="no key"),
        pytest.param((commit(rest=b"x"), None), "1 bytes after", id="a key with more"),
        pytest.param((commit(group=b"\xff"), None), "is not UTF-8", id="a group that is no text"),
        pytest.param((commit(), b"\0\x03\0"), "an offset record: ", id="a value cut short"),
        pytest.param((commit(), b"\xff\xff" + bytes(8)), "of a negative version", id="a negative version"),
    ],
)
def test_an_offset_commit_that_cannot_be_read_is_a_fault(tmp_path: Path, record: Record, reason: str) -> None:
    found = tables_of(tmp_path, "__consumer_offsets", [batch_of(record)])
    assert found["offset_commits"] == []
    (only,) = found["record_faults"]
    assert only["fault"] == "record"
    assert reason in only["reason"]


@table("topic", ["__cluster_metadata", "__transaction_state", "__consumer_offsets"])
@table(
    ("attributes", "body", "fault"),
    [
        pytest.param(1, b"no gzip", "compression", id="gzip that is none"),
        pytest.param(5, b"", "compression", id="a codec that there is not"),
        pytest.param(0, b"\x50", "record", id="a record past the end"),
        pytest.param(0, b"", "record", id="no record"),
    ],
)
def test_a_sound_batch_that_cannot_be_opened_is_one_fault(
    tmp_path: Path, topic: str, attributes: int, body: bytes, fault: str
) -> None:
    raw = batch_of((KEY, VALUE))
    broken = resealed(raw[:21] + struct.pack(">h", attributes) + raw[23:61] + body)
    found = tables_of(tmp_path, topic, [raw, broken, raw] if topic == "__transaction_state" else [broken])
    faults = found["record_faults"]
    assert [row["fault"] for row in faults] == [fault]
    assert found["record_batches"][-1]["fault"] is None
    assert len(found["transaction_states"]) == (2 if topic == "__transaction_state" else 0)


def test_a_batch_whose_checksum_is_wrong_says_nothing(tmp_path: Path) -> None:
    raw = batch_of((KEY, VALUE))
    found = tables_of(tmp_path, "__transaction_state", [raw[:-1] + b"\xff", raw])
    assert [row["fault"] for row in found["record_batches"]] == ["crc", None]
    assert [row["offset"] for row in found["transaction_states"]] == [1]
    assert found["record_faults"] == []
