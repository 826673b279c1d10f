"""What metadata records become: a row per kind and version, the refusals beside them."""

from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from fencepost.records.frame import encode_frame
from fencepost.records.kafka_metadata import REGISTER_0, REGISTER_1, Fence, Unfence
from fencepost.records.message import write_message
from fencepost.records.schema import (
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
from fencepost.records.types import BrokerEpoch, BrokerId, ProducerId
from tests.audit.decode.corpus import NOW_MS, batch_of, tables_of
from tests.broker.log.builders import compressed
from tests.together import table

INCARNATION, TOPIC_ID = UUID(int=9), UUID(int=7)
ENDPOINTS = (
    BrokerEndpoint(name="A", host="10.0.0.1", port=9092, security_protocol=0),
    BrokerEndpoint(name="B", host="::1", port=65_535, security_protocol=1),
)


def metadata(directory: Path, *frames: bytes | None) -> dict[str, list[dict[str, Any]]]:
    return tables_of(directory, "__cluster_metadata", [batch_of(*((None, frame) for frame in frames))])


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


@table(
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


def test_directories_that_a_broker_registers(tmp_path: Path) -> None:
    found = metadata(
        tmp_path,
        encode_frame(register(log_dirs=(UUID(int=1), UUID(int=7)))),
        encode_frame(BrokerRegistrationChangeRecord(**CHANGE, log_dirs=(UUID(int=9),))),
    )
    said = [(row["kind"], row["broker_id"], row["identifier"]) for row in found["directories"]]
    assert said == [("registered", 2, f"AAAAAAAAAAAAAAAAAAAA{end}") for end in ("AQ", "Bw", "CQ")]


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
    alone = [batch_of(each) for each in frames]
    one = tables_of(tmp_path, "__cluster_metadata", alone)
    mixed = tables_of(
        tmp_path, "__cluster_metadata",
        [
            alone[0], compressed(alone[1], "lz4"), batch_of(*frames[2:4]), alone[4],
            batch_of((b"key", frames[5][1])),            *alone[6:],
        ],
    )  # fmt: skip
    said = [[(row[2], *row[4:]) for row in block_rows(found)] for found in (one, mixed)]
    assert said[0] == said[1]
    assert [row[0] for row in said[0]] == list(range(8))
    assert block_rows(one)[1] == (92, "log", 1, 0, NOW_MS, 2, 5, None, 2000)


@table(
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


@table("key", [6, 12, 14, 20, 21, 23, 27, 99, 200])
def test_a_metadata_record_of_another_kind_is_no_fault(tmp_path: Path, key: int) -> None:
    name = bytes((key,)) if key < 128 else bytes((key & 127 | 128, key >> 7))
    found = metadata(tmp_path, b"\x01" + name + b"\x05anything", encode_frame(NoOpRecord()))
    assert all(not rows for name, rows in found.items() if name != "record_batches")
