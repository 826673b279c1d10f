"""The image version in a marker's tag, and requests of many markers."""

import struct

import pytest
from kafka.protocol.producer.transaction import WriteTxnMarkersRequest

from fencepost.records.invariant import CorruptData
from fencepost.wire import k27_write_txn_markers as k27
from fencepost.wire.schema import Message
from tests.together import table
from tests.wire import partition_rows
from tests.wire.every_api import kios_request

# What the laws cannot draw

MARKER = k27.TxnMarker(77, 3, True, (("orders", (0, 1)),), 6, 0, image_version=2**62)
ONE_MARKER = k27.WriteTxnMarkers((MARKER,))


@pytest.mark.parametrize("version", k27.WRITE_TXN_MARKERS.versions)
def test_the_image_version_of_a_marker_comes_back(version: int) -> None:
    body = k27.WRITE_TXN_MARKERS.encode_request(version, ONE_MARKER)
    assert k27.WRITE_TXN_MARKERS.decode_request(version, memoryview(body)) == ONE_MARKER


@pytest.mark.parametrize("version", k27.WRITE_TXN_MARKERS.versions)
def test_a_kafka_broker_skips_the_image_version(version: int) -> None:
    """KIP-482. Without the tag the bytes are what kio reads: a tagged field is added, and nothing else."""
    body = k27.WRITE_TXN_MARKERS.encode_request(version, ONE_MARKER)
    tag = b"\x01" + b"\xe8\x07" + b"\x08" + struct.pack(">q", 2**62)  # one field: tag 1000, eight bytes
    assert body.count(tag) == 1
    entity, _ = kios_request(27, version, body.replace(tag, b"\x00"))
    assert partition_rows.flat_markers(version, entity) == k27.WriteTxnMarkers(
        (k27.TxnMarker(77, 3, True, (("orders", (0, 1)),), 6),)
    )
    (skipped,) = Message(27, "request").decode(version, body)["markers"]
    assert skipped["coordinator_epoch"] == 6
    assert "image_version" not in skipped


def test_kafka_python_skips_the_image_version() -> None:
    body = k27.WRITE_TXN_MARKERS.encode_request(1, ONE_MARKER)
    read_by_it = WriteTxnMarkersRequest[1].decode(body, version=1)
    assert [each.coordinator_epoch for each in read_by_it.markers] == [6]


@table(
    ("tags", "reason"),
    [
        pytest.param(b"\x01\xe8\x07\x04\0\0\0\1", "claims 4 bytes", id="too-short"),
        pytest.param(b"\x01\xe8\x07\x09" + bytes(9), "claims 9 bytes", id="too-long"),
        pytest.param(b"\x01\xe8\x07\x7f" + bytes(8), "past the end", id="past-the-end"),
    ],
)
def test_an_image_version_that_lies_is_corrupt(tags: bytes, reason: str) -> None:
    body = k27.WRITE_TXN_MARKERS.encode_request(1, ONE_MARKER)
    head = body[: body.index(b"\x01\xe8\x07")]
    with pytest.raises(CorruptData, match=reason):
        k27.WRITE_TXN_MARKERS.decode_request(1, head + tags + bytes(8))


def test_a_full_request_of_markers_is_read() -> None:
    """PARTITIONS_MAX partitions, each of a topic and a transaction of its own, and answered one by one."""
    markers = tuple(
        k27.TxnMarker(index, 0, True, (("orders", (index,)),), 6, 0, index + 1)
        for index in range(k27.PARTITIONS_MAX)
    )
    request = k27.WriteTxnMarkers(markers)
    body = k27.WRITE_TXN_MARKERS.encode_request(1, request)
    assert k27.WRITE_TXN_MARKERS.decode_request(1, body) == request
    answer = k27.WriteTxnMarkersAnswer(tuple((each, (("orders", ((each, 0),)),)) for each in range(5000)))
    body = k27.WRITE_TXN_MARKERS.encode_response(1, answer, 0)
    assert k27.WRITE_TXN_MARKERS.decode_response(1, body) == answer
