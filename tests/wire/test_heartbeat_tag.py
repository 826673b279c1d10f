"""The cluster's version in a heartbeat's answer: read back by us, skipped by Kafka's readers."""

import pytest

from fencepost.controller.brokers import HeartbeatStatus
from fencepost.records.invariant import CorruptData
from fencepost.wire.k63_broker_heartbeat import BROKER_HEARTBEAT
from tests.together import table
from tests.wire.every_api import kios_response


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
def test_the_agreed_time_comes_back(version: int, cluster_version: int, agreed_ms: int) -> None:
    status = HeartbeatStatus(True, False, True, cluster_version, agreed_ms)
    body = BROKER_HEARTBEAT.encode_response(version, status, 5)
    assert BROKER_HEARTBEAT.decode_response(version, body) == status


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
