"""What records of the control plane's logs become: a row per kind and version, the refusals beside them."""

import struct
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from uuid import UUID

import pyarrow as pa
import pytest

from audit.decode.batches import Where
from audit.decode.columns import TABLES
from audit.decode.metadata import decode_blocks, decode_brokers, decode_topics
from audit.decode.offsets import decode_commits
from audit.decode.tables import decode_log
from audit.decode.transactions import decode_states
from records.batch import encode_batch
from records.frame import encode_frame
from records.kafka_metadata import REGISTER_0, REGISTER_1, Fence, Unfence
from records.message import write_message
from records.schema import (
    AllocateProducerIdsRecord,
    BrokerEndpoint,
    BrokerRegistrationChangeRecord,
    ConfigRecord,
    MetadataRecord,
    NoOpRecord,
    RegisterBrokerRecord,
    RemoveTopicRecord,
    TopicRecord,
    UnregisterBrokerRecord,
)
from records.transaction_log import (
    Fence as ProducerFence,
)
from records.transaction_log import (
    TopicPartitions,
    TransactionForgotten,
    TransactionStateRecord,
    encode_transaction,
)
from records.types import BrokerEpoch, BrokerId, ProducerId
from tests.audit.decode.corpus import NOW_MS, laid, written
from tests.broker.log.builders import CODECS, compressed, resealed

Record = tuple[bytes | None, bytes | None]
PLACE = ("node", "topic", "partition", "path", "position")
INCARNATION, TOPIC_ID = UUID(int=9), UUID(int=7)
ENDPOINTS = (
    BrokerEndpoint(name="A", host="10.0.0.1", port=9092, security_protocol=0),
    BrokerEndpoint(name="B", host="::1", port=65_535, security_protocol=1),
)


def batch(*records: Record, **fields: Any) -> bytes:
    return encode_batch([(*each, ()) for each in records], timestamp_ms=NOW_MS, **fields)


def tables(directory: Path, topic: str, batches: Sequence[bytes]) -> dict[str, list[dict[str, Any]]]:
    """Every table of a log of these batches, without the place of each row but its position."""
    path = written(directory, laid(batches).content)
    found: dict[str, list[dict[str, Any]]] = {name: [] for name in TABLES}
    for name, rows in decode_log(path, Where(1, topic, 0, path)):
        rows.validate(full=True)
        assert rows.schema == TABLES[name]
        found[name] += rows.to_pylist()
    for rows in found.values():
        for row in rows:
            assert [row.pop(each) for each in PLACE[:4]] == [1, topic, 0, path]
    return found


def metadata(directory: Path, *frames: bytes | None) -> dict[str, list[dict[str, Any]]]:
    return tables(directory, "__cluster_metadata", [batch(*((None, frame) for frame in frames))])


def frame(key: int, version: int, message: Any) -> bytes:
    return bytes((1, key, version)) + write_message(message)


def allocate(end: int) -> MetadataRecord:
    return AllocateProducerIdsRecord(
        broker_id=BrokerId(2), broker_epoch=BrokerEpoch(5), producer_id_end=ProducerId(end)
    )


def register(**fields: Any) -> MetadataRecord:
    return RegisterBrokerRecord(
        broker_id=BrokerId(2), incarnation_id=INCARNATION, broker_epoch=BrokerEpoch(5), end_points=ENDPOINTS,
        features=(), **fields,
    )  # fmt: skip


OLD: dict[str, Any] = {
    "broker_id": 2, "incarnation_id": INCARNATION, "broker_epoch": 5, "end_points": ENDPOINTS, "features": (),
}  # fmt: skip
REGISTERED = ("registered", 2, 5, "AAAAAAAAAAAAAAAAAAAACQ", "10.0.0.1:9092,::1:65535")
CHANGE: dict[str, Any] = {"broker_id": BrokerId(2), "broker_epoch": BrokerEpoch(5)}


@pytest.mark.parametrize(
    ("frame_", "events"),
    [
        pytest.param(encode_frame(register()), [REGISTERED], id="registered"),
        pytest.param(
            encode_frame(register(fenced=False, rack="r", log_dirs=(UUID(int=1),))),
            [REGISTERED, ("unfenced", 2, 5, None, None)],
            id="registered and not fenced",
        ),
        pytest.param(frame(0, 0, REGISTER_0(**OLD)), [REGISTERED], id="registered, version 0"),
        pytest.param(frame(0, 1, REGISTER_1(**OLD)), [REGISTERED], id="registered, version 1"),
        pytest.param(frame(0, 2, register()), [REGISTERED], id="registered, version 2"),
        pytest.param(frame(0, 4, register()), [REGISTERED], id="registered, a version to come"),
        pytest.param(
            frame(0, 4, register()) + b"more", [REGISTERED], id="registered, a version that says more"
        ),
        pytest.param(
            encode_frame(UnregisterBrokerRecord(broker_id=BrokerId(2), broker_epoch=BrokerEpoch(5))),
            [("unregistered", 2, 5, None, None)],
            id="unregistered",
        ),
        pytest.param(frame(7, 0, Fence(2, 5)), [("fenced", 2, 5, None, None)], id="FenceBrokerRecord"),
        pytest.param(frame(8, 0, Unfence(2, 5)), [("unfenced", 2, 5, None, None)], id="UnfenceBrokerRecord"),
        pytest.param(
            encode_frame(BrokerRegistrationChangeRecord(**CHANGE, fenced=1)),
            [("fenced", 2, 5, None, None)],
            id="fenced",
        ),
        pytest.param(
            encode_frame(BrokerRegistrationChangeRecord(**CHANGE, fenced=-1, in_controlled_shutdown=1)),
            [("unfenced", 2, 5, None, None), ("shutdown", 2, 5, None, None)],
            id="unfenced and shutting down",
        ),
        pytest.param(encode_frame(BrokerRegistrationChangeRecord(**CHANGE)), [], id="nothing changed"),
    ],
)
def test_brokers(tmp_path: Path, frame_: bytes, events: list[tuple[Any, ...]]) -> None:
    found = metadata(tmp_path, frame_)
    assert found["brokers"] == [
        {
            "position": 0, "offset": 0, "timestamp_ms": NOW_MS, "event": event, "broker_id": broker_id,
            "broker_epoch": epoch, "incarnation_id": incarnation, "endpoints": endpoints,
        }
        for event, broker_id, epoch, incarnation, endpoints in events
    ]  # fmt: skip
    assert found["record_faults"] == []


def test_topics(tmp_path: Path) -> None:
    setting = {"resource_type": 2, "resource_name": "payments", "name": "cleanup.policy"}
    found = metadata(
        tmp_path,
        encode_frame(TopicRecord(name="payments", topic_id=TOPIC_ID)),
        encode_frame(ConfigRecord(**setting, value="compact")),  # type: ignore[arg-type]
        encode_frame(ConfigRecord(**setting, value=None)),  # type: ignore[arg-type]
        encode_frame(ConfigRecord(**setting | {"resource_type": 4}, value="1")),  # type: ignore[arg-type]
        encode_frame(RemoveTopicRecord(topic_id=TOPIC_ID)),
    )
    said = [tuple(row.values())[1:] for row in found["topics"]]
    text = "AAAAAAAAAAAAAAAAAAAABw"
    assert said == [
        (0, NOW_MS, "created", "payments", text, None, None),
        (1, NOW_MS, "configured", "payments", None, "cleanup.policy", "compact"),
        (2, NOW_MS, "configured", "payments", None, "cleanup.policy", None),
        (4, NOW_MS, "deleted", None, text, None, None),
    ]
    assert found["record_faults"] == []


def block_rows(found: dict[str, list[dict[str, Any]]]) -> list[tuple[Any, ...]]:
    return [tuple(row.values()) for row in found["producer_id_blocks"]]


def test_blocks_of_the_usual_shape_and_of_others_are_the_same_rows_in_their_order(tmp_path: Path) -> None:
    ends = range(1000, 9000, 1000)
    frames = [(None, encode_frame(allocate(end))) for end in ends]
    alone = [batch(each) for each in frames]
    one = tables(tmp_path, "__cluster_metadata", alone)
    mixed = tables(
        tmp_path, "__cluster_metadata",
        [
            alone[0], compressed(alone[1], "lz4"), batch(*frames[2:4]), alone[4],
            batch((b"key", frames[5][1])),            *alone[6:],
        ],
    )  # fmt: skip
    said = [[(row[2], *row[4:]) for row in block_rows(found)] for found in (one, mixed)]
    assert said[0] == said[1]
    assert [row[0] for row in said[0]] == list(range(8))
    assert block_rows(one)[1] == (92, "log", 1, 0, NOW_MS, 2, 5, None, 2000)


@pytest.mark.parametrize(
    ("frame_", "fault", "reason"),
    [
        pytest.param(None, "record", "a metadata record without a value", id="no value"),
        pytest.param(b"", "record", "bytes end inside a varint at position 0", id="empty"),
        pytest.param(b"\x00\x0f\x00", "record", "metadata frame version 0, expected 1", id="frame version 0"),
        pytest.param(b"\x02\x0f\x00", "record", "metadata frame version 2, expected 1", id="frame version 2"),
        pytest.param(encode_frame(allocate(1))[:-3], "record", "bytes end inside", id="cut short"),
        pytest.param(
            encode_frame(allocate(1)) + b"\0", "record", "1 bytes after Allocate", id="trailing bytes"
        ),
        pytest.param(
            b"\x01\x0f\x01\x07", "version", "AllocateProducerIdsRecord version 1, known up to 0", id="newer"
        ),
    ],
)
def test_a_metadata_record_that_cannot_be_read_is_a_fault(
    tmp_path: Path, frame_: bytes | None, fault: str, reason: str
) -> None:
    found = metadata(tmp_path, encode_frame(allocate(1000)), frame_, encode_frame(allocate(2000)))
    assert [row[-1] for row in block_rows(found)] == [1000, 2000]
    (only,) = found["record_faults"]
    assert (only["position"], only["offset"], only["fault"]) == (0, 1, fault)
    assert only["reason"].startswith(reason)


@pytest.mark.parametrize("key", [3, 5, 12, 14, 20, 21, 23, 27, 99, 200])
def test_a_metadata_record_of_another_kind_is_no_fault(tmp_path: Path, key: int) -> None:
    name = bytes((key,)) if key < 128 else bytes((key & 127 | 128, key >> 7))
    found = metadata(tmp_path, b"\x01" + name + b"\x05anything", encode_frame(NoOpRecord()))
    assert all(not rows for name, rows in found.items() if name != "record_batches")


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
    fences=tuple(ProducerFence(NOW_MS, cause, ProducerId(7), 2, "client") for cause in range(4)),
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
    return tables(directory, "__transaction_state", [batch(*records)])


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
            for cause in ("a new instance", "its timeout", "its own InitProducerId", "cause 3")
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


@pytest.mark.parametrize("codec", CODECS)
def test_a_compressed_batch_is_opened(tmp_path: Path, codec: str) -> None:
    plain = batch((KEY, VALUE), (KEY, None))
    (first, second) = (
        tables(tmp_path, "__transaction_state", [each])["transaction_states"]
        for each in (plain, compressed(plain, codec))
    )
    assert first == second
    assert len(first) == 2


@pytest.mark.parametrize(
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
    found = tables(
        tmp_path,
        "__consumer_offsets",
        [
            batch((commit(), value), (commit(0), value), producer_id=7, producer_epoch=1, transactional=True),
            batch((commit(), None), (b"\0\x02\0\x01g", b"\0\0"), (b"\0\x63", None)),
        ],
    )
    said = [tuple(row.values())[1:] for row in found["offset_commits"]]
    assert said == [
        (0, NOW_MS, "copier", "payments", 2, 12, 7, 1),
        (1, NOW_MS, "copier", "payments", 2, 12, 7, 1),
        (2, NOW_MS, "copier", "payments", 2, None, -1, -1),
    ]
    assert found["record_faults"] == []


@pytest.mark.parametrize(
    ("record", "reason"),
    [
        pytest.param((None, b""), "bytes end inside 2 bytes", id="no key"),
        pytest.param((commit(rest=b"x"), None), "1 bytes after", id="a key with more"),
        pytest.param((commit(group=b"\xff"), None), "is not UTF-8", id="a group that is no text"),
        pytest.param((commit(), b"\0\x03\0"), "bytes end inside 8 bytes", id="a value cut short"),
        pytest.param((commit(), b"\xff\xff" + bytes(8)), "of a negative version", id="a negative version"),
    ],
)
def test_an_offset_commit_that_cannot_be_read_is_a_fault(tmp_path: Path, record: Record, reason: str) -> None:
    found = tables(tmp_path, "__consumer_offsets", [batch(record)])
    assert found["offset_commits"] == []
    (only,) = found["record_faults"]
    assert only["fault"] == "record"
    assert reason in only["reason"]


@pytest.mark.parametrize("topic", ["__cluster_metadata", "__transaction_state", "__consumer_offsets"])
@pytest.mark.parametrize(
    ("attributes", "body", "fault"),
    [
        pytest.param(1, b"no gzip", "compression", id="gzip that is none"),
        pytest.param(5, b"", "compression", id="a codec that nobody has"),
        pytest.param(0, b"\x50", "record", id="a record past the end"),
        pytest.param(0, b"", "record", id="no record"),
    ],
)
def test_a_sound_batch_that_cannot_be_opened_is_one_fault(
    tmp_path: Path, topic: str, attributes: int, body: bytes, fault: str
) -> None:
    raw = batch((KEY, VALUE))
    broken = resealed(raw[:21] + struct.pack(">h", attributes) + raw[23:61] + body)
    found = tables(tmp_path, topic, [raw, broken, raw] if topic == "__transaction_state" else [broken])
    faults = found["record_faults"]
    assert [row["fault"] for row in faults] == [fault]
    assert found["record_batches"][-1]["fault"] is None
    assert len(found["transaction_states"]) == (2 if topic == "__transaction_state" else 0)


def test_a_batch_whose_checksum_is_wrong_says_nothing(tmp_path: Path) -> None:
    raw = batch((KEY, VALUE))
    found = tables(tmp_path, "__transaction_state", [raw[:-1] + b"\xff", raw])
    assert [row["fault"] for row in found["record_batches"]] == ["crc", None]
    assert [row["offset"] for row in found["transaction_states"]] == [1]
    assert found["record_faults"] == []


def test_each_table_can_be_read_alone(tmp_path: Path) -> None:
    frames = [
        (None, encode_frame(each))
        for each in (allocate(1000), register(), TopicRecord(name="a", topic_id=TOPIC_ID))
    ]
    path = written(tmp_path, laid([batch(*frames), batch((KEY, VALUE)), batch((commit(), None))]).content)
    where = Where(1, "any", 0, path)
    counts = [
        pa.Table.from_batches(decode(path, where)).num_rows
        for decode in (decode_blocks, decode_brokers, decode_topics, decode_states, decode_commits)
    ]
    assert counts[:3] == [1, 1, 1]
