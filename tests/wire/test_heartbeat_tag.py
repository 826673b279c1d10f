"""Our tags in heartbeats and their answers: read back by us, skipped by Kafka's readers."""

import uuid

import pytest

from fencepost.controller.brokers import Heartbeat, HeartbeatStatus
from fencepost.records.invariant import CorruptData
from fencepost.records.partition_report import REPORTS_MAX, PartitionReport
from fencepost.records.types import BrokerEpoch, BrokerId
from fencepost.wire.k63_broker_heartbeat import BROKER_HEARTBEAT
from tests.together import table
from tests.wire.every_api import kios_request, kios_response


@table("version", BROKER_HEARTBEAT.versions, ids="v{}".format)
@table("cluster_version", [-1, 0, 7, 2**63 - 1])
def test_the_version_comes_back(version: int, cluster_version: int) -> None:
    status = HeartbeatStatus(True, False, True, cluster_version)
    body = BROKER_HEARTBEAT.encode_response(version, status, 5)
    assert BROKER_HEARTBEAT.decode_response(version, body) == status
    if cluster_version < 0:
        assert kios_response(63, version, body)[1] == len(body)


@table("version", BROKER_HEARTBEAT.versions, ids="v{}".format)
@table("agreed_ms", [0, 1_790_000_000_000])
@table("cluster_version", [-1, 7])
@table("settings_digest", [-1, 0, 2**63 - 1])
def test_the_agreed_time_and_the_settings_come_back(
    version: int, cluster_version: int, agreed_ms: int, settings_digest: int
) -> None:
    status = HeartbeatStatus(True, False, True, cluster_version, agreed_ms, settings_digest)
    body = BROKER_HEARTBEAT.encode_response(version, status, 5)
    assert BROKER_HEARTBEAT.decode_response(version, body) == status


REPORTS = tuple(PartitionReport(uuid.UUID(int=each), each, each - 1) for each in range(REPORTS_MAX))
ONE_REPORT = "00112233445566778899aabbccddeeff 00000001 00000000000001f4"


@table("version", BROKER_HEARTBEAT.versions, ids="v{}".format)
@table("count", [0, 1, 4, REPORTS_MAX])
def test_reports_come_back(version: int, count: int) -> None:
    request = Heartbeat(BrokerId(1), BrokerEpoch(7), 7, want_fence=True, reports=REPORTS[:count])
    body = BROKER_HEARTBEAT.encode_request(version, request)
    assert len(body) < 0.7 * BROKER_HEARTBEAT.request_bytes_max
    assert BROKER_HEARTBEAT.decode_request(version, body) == request
    if not count:
        assert kios_request(63, version, body)[1] == len(body)


@table(
    ("tail", "reports"),
    [
        pytest.param("00", (), id="kafkas"),
        pytest.param("01 e807 01 00", (), id="null"),
        pytest.param("01 e807 01 01", (), id="empty"),
        pytest.param("01 e907 01 00", (), id="another-tag"),
        pytest.param("02 00 01 01 e807 1d 1d" + ONE_REPORT, 1, id="one-beside-kafkas"),
        pytest.param("01 e807 1c 1c" + ONE_REPORT[:-2], None, id="a-byte-short"),
        pytest.param("01 e807 1e 1e" + ONE_REPORT + "00", None, id="a-byte-too-many"),
        pytest.param("01 e807 1d 1e" + ONE_REPORT + "00", None, id="two-lengths"),
        pytest.param("01 e807 ffffffff0f 1d" + ONE_REPORT, None, id="past-the-end"),
        pytest.param("01 e807 afc802 adc802" + ONE_REPORT * (REPORTS_MAX + 1), None, id="one-too-many"),
    ],
)
def test_reports_of_others_are_read_strictly(tail: str, reports: tuple[()] | int | None) -> None:
    body = bytes.fromhex("00000001 0000000000000007 0000000000000007 00 00" + tail)
    if reports is None:
        with pytest.raises(CorruptData):
            BROKER_HEARTBEAT.decode_request(1, body)
        return
    found = BROKER_HEARTBEAT.decode_request(1, body).reports
    assert found == (reports if reports == () else (PartitionReport(uuid.UUID(ONE_REPORT[:32]), 1, 500),))


@pytest.mark.parametrize(
    ("tail", "status"),
    [
        pytest.param("00", HeartbeatStatus(True, True, False), id="kafkas"),
        pytest.param("01 e907 01 00", HeartbeatStatus(True, True, False), id="another-tag"),
        pytest.param("01 e807 04 00000001", None, id="too-short"),
    ],
)
def test_other_tags_are_skipped_and_a_wrong_one_is_corrupt(tail: str, status: HeartbeatStatus | None) -> None:
    body = bytes.fromhex("00000000 0000 01 01 00" + tail)
    if status is None:
        with pytest.raises(CorruptData):
            BROKER_HEARTBEAT.decode_response(1, body)
    else:
        assert BROKER_HEARTBEAT.decode_response(1, body) == status
