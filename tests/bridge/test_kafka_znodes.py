"""Brokers, controller, features, topics, migration: what each version of Kafka wrote, and what is refused."""

import json
from collections.abc import Callable
from typing import Any

import pytest

from fencepost.bridge.kafka_znodes import (
    ZnodeBroker,
    ZnodeController,
    ZnodeEndPoint,
    ZnodeFeatures,
    ZnodeMigration,
    ZnodeTopic,
    parse_broker,
    parse_cluster_id,
    parse_controller,
    parse_controller_epoch,
    parse_feature,
    parse_migration,
    parse_topic,
)
from fencepost.bridge.strict_json import Misshaped
from fencepost.records.types import BrokerId
from tests.together import table

PLAIN = ZnodeEndPoint("PLAINTEXT", "PLAINTEXT", "h", 9092)
V5 = {
    "version": 5,
    "host": None,
    "port": -1,
    "endpoints": ["CLIENT://h:9092", "REPLICATION://[::1]:9093"],
    "jmx_port": -1,
    "timestamp": "2",
    "rack": "r1",
    "listener_security_protocol_map": {"CLIENT": "SASL_SSL", "REPLICATION": "PLAINTEXT"},
    "features": {"metadata.version": {"min_version": 1, "max_version": 3}},
}
BROKERS = [
    pytest.param(
        {"version": 1, "host": "h", "port": 9092, "jmx_port": 9999, "timestamp": "2233345666"},
        ZnodeBroker(BrokerId(4), 1, (PLAIN,), None, {}, 2233345666),
        id="version-1",
    ),
    pytest.param(
        {"version": 2, "host": "h", "port": 9092, "jmx_port": -1, "timestamp": "2", "endpoints": ["PLAINTEXT://h:9092"]},
        ZnodeBroker(BrokerId(4), 2, (PLAIN,), None, {}, 2),
        id="version-2-before-0.10",
    ),
    pytest.param(
        {"version": 3, "host": "h", "port": 9, "jmx_port": 1, "timestamp": "2", "endpoints": [], "rack": "r"},
        ZnodeBroker(BrokerId(4), 3, (), "r", {}, 2),
        id="version-3-with-a-rack",
    ),
    pytest.param(
        {
            "version": 4, "host": "h", "port": 9092, "jmx_port": -1, "timestamp": "2",
            "endpoints": ["IN://h:9092"], "listener_security_protocol_map": {"IN": "SSL"},
        },
        ZnodeBroker(BrokerId(4), 4, (ZnodeEndPoint("IN", "SSL", "h", 9092),), None, {}, 2),
        id="version-4-before-2.7",
    ),
    pytest.param(
        V5,
        ZnodeBroker(
            BrokerId(4),
            5,
            (
                ZnodeEndPoint("CLIENT", "SASL_SSL", "h", 9092),
                ZnodeEndPoint("REPLICATION", "PLAINTEXT", "::1", 9093),
            ),
            "r1",
            {"metadata.version": (1, 3)},
            2,
        ),
        id="version-5-to-3.9",
    ),
]  # fmt: skip


@table(("written", "expected"), BROKERS)
def test_a_brokers_registration_of_each_version_is_read(
    written: dict[str, object], expected: ZnodeBroker
) -> None:
    assert parse_broker("/brokers/ids/4", json.dumps(written).encode()) == expected


REFUSED_BROKERS = [
    pytest.param({"version": 6}, "version to be a number from 1 to 5", id="a-later-version"),
    pytest.param({"version": 0}, "version to be a number from 1 to 5", id="version-0"),
    pytest.param({"timestamp": 2}, "timestamp to be a string", id="timestamp-a-number"),
    pytest.param({"endpoints": "CLIENT://h:9092"}, "endpoints to be an array", id="no-array"),
    pytest.param(
        {"endpoints": ["CLIENT://h"]}, "endpoints to be an array of LISTENER://HOST:PORT", id="no-port"
    ),
    pytest.param({"endpoints": ["CLIENT://h:99999"]}, "LISTENER://HOST:PORT", id="a-port-too-high"),
    pytest.param(
        {"endpoints": ["OTHER://h:9092"]}, "a security protocol for OTHER", id="an-unmapped-listener"
    ),
    pytest.param(
        {"listener_security_protocol_map": {"CLIENT": "TLS", "REPLICATION": "SSL"}},
        "a security protocol for CLIENT",
        id="an-unknown-protocol",
    ),
    pytest.param(
        {"features": {"f": {"min_version": 2, "max_version": 1}}}, "features.f.max_version", id="reversed"
    ),
    pytest.param({"rack": 1}, "rack to be a string", id="rack-a-number"),
    pytest.param({"rack": "\ud800"}, "rack to be a string", id="rack-half-a-character"),
    pytest.param({"tags": {}}, "no field tags", id="a-field-of-another-product"),
]


@table(("change", "expected"), REFUSED_BROKERS)
def test_another_registration_is_refused(change: dict[str, object], expected: str) -> None:
    with pytest.raises(Misshaped, match=r"^/brokers/ids/4: expected ") as refused:
        parse_broker("/brokers/ids/4", json.dumps({**V5, **change}).encode())
    assert expected in str(refused.value)


@table("name", ["x", "", "-1", "01", "2147483648", "1" * 5_000])
def test_a_broker_with_no_id_is_refused(name: str) -> None:
    with pytest.raises(Misshaped):
        parse_broker(f"/brokers/ids/{name}", json.dumps(V5).encode())


READ: list[Any] = [
    pytest.param(
        parse_controller, b'{"version":1,"brokerid":2,"timestamp":"5"}', ZnodeController(BrokerId(2), 5, -1),
        id="controller",
    ),
    pytest.param(
        parse_controller, b'{"version":2,"brokerid":3000,"timestamp":"5","kraftControllerEpoch":7}',
        ZnodeController(BrokerId(3000), 5, 7), id="a-kraft-controller",
    ),
    pytest.param(parse_controller_epoch, b"12", 12, id="controller-epoch"),
    pytest.param(
        parse_feature,
        b'{"version":1,"status":1,"features":{"f":{"min_version_level":1,"max_version_level":3}}}',
        ZnodeFeatures(True, {"f": 3}), id="features-of-2.7",
    ),
    pytest.param(
        parse_feature, b'{"version":2,"status":1,"features":{"metadata.version":{"max_version_level":3}}}',
        ZnodeFeatures(True, {"metadata.version": 3}), id="features-of-3.3",
    ),
    pytest.param(
        parse_feature, b'{"version":1,"status":0,"features":{}}', ZnodeFeatures(False, {}), id="disabled",
    ),
    pytest.param(
        parse_migration,
        b'{"version":0,"kraft_controller_id":3000,"kraft_controller_epoch":2,"kraft_metadata_offset":99,'
        b'"kraft_metadata_epoch":1}',
        ZnodeMigration(3000, 2, 99, 1), id="migration",
    ),
    pytest.param(
        parse_cluster_id, b'{"version":"1","id":"5L6g3nShT-eMCtK--X86sw"}', "5L6g3nShT-eMCtK--X86sw", id="id",
    ),
]  # fmt: skip


@table(("parse", "content", "expected"), READ)
def test_single_znodes_are_read(parse: Callable[[bytes], object], content: bytes, expected: object) -> None:
    assert parse(content) == expected


REFUSED: list[Any] = [
    pytest.param(parse_controller, None, "no data", id="controller-without-data"),
    pytest.param(parse_controller, b'{"version":3,"brokerid":2}', "version to be", id="a-later-controller"),
    pytest.param(parse_controller_epoch, None, "/controller_epoch: expected a number", id="no-epoch"),
    pytest.param(parse_controller_epoch, b"-1", "a number from 0", id="epoch-negative"),
    pytest.param(parse_controller_epoch, b"2147483648", "a number from 0", id="epoch-past-int32"),
    pytest.param(parse_controller_epoch, b'"1"', "a number from 0", id="epoch-in-quotes"),
    pytest.param(parse_controller_epoch, "²".encode(), "a number from 0", id="epoch-a-superscript"),
    pytest.param(
        parse_feature, b'{"version":3,"status":1,"features":{}}', "version to be", id="a-later-feature"
    ),
    pytest.param(
        parse_feature, b'{"version":2,"status":2,"features":{}}', "status to be", id="an-unknown-status"
    ),
    pytest.param(parse_migration, b'{"version":1}', "version to be", id="a-later-migration"),
    pytest.param(
        parse_cluster_id, b'{"version":1,"id":"x"}', "version to be a string", id="version-a-number"
    ),
    pytest.param(parse_cluster_id, b'{"version":"1","id":""}', "id to be a cluster id", id="no-cluster-id"),
]


@table(("parse", "content", "expected"), REFUSED)
def test_other_znodes_are_refused(
    parse: Callable[[bytes | None], object], content: bytes, expected: str
) -> None:
    with pytest.raises(Misshaped) as refused:
        parse(content)
    assert expected in str(refused.value)


TOPICS = [
    pytest.param({"version": 1, "partitions": {"0": [1, 2]}}, None, {}, id="before-2.4"),
    pytest.param(
        {"version": 2, "partitions": {"0": [1, 2]}, "adding_replicas": {"0": [3]}, "removing_replicas": {}},
        None,
        {0: (3,)},
        id="before-2.8",
    ),
    pytest.param(
        {
            "version": 3,
            "partitions": {"0": [1, 2]},
            "adding_replicas": {},
            "removing_replicas": {},
            "topic_id": "x",
        },
        "x",
        {},
        id="to-3.9",
    ),
    pytest.param(
        {"version": 3, "partitions": {"0": [1, 2]}, "adding_replicas": {}, "removing_replicas": {}},
        None,
        {},
        id="protocol-version-before-2.8",
    ),
]


@pytest.mark.parametrize(("written", "topic_id", "adding"), TOPICS)
def test_a_topic_of_each_version_is_read(
    written: dict[str, object], topic_id: str | None, adding: dict[int, tuple[int, ...]]
) -> None:
    topic = parse_topic("/brokers/topics/t.1", json.dumps(written).encode())
    assert topic == ZnodeTopic("t.1", topic_id, {0: (1, 2)}, adding, {})


@table(
    ("path", "written"),
    [
        pytest.param(
            "/brokers/topics/t", {"version": 1, "partitions": {"x": [1]}}, id="a-partition-with-no-number"
        ),
        pytest.param(
            "/brokers/topics/t", {"version": 1, "partitions": {"0": ["1"]}}, id="a-replica-as-a-string"
        ),
        pytest.param("/brokers/topics/t", {"version": 1, "partitions": [1]}, id="partitions-an-array"),
        pytest.param("/brokers/topics/t", {"version": 4, "partitions": {}}, id="a-later-version"),
        pytest.param("/brokers/topics/t/x", {"version": 1, "partitions": {}}, id="another-path"),
        pytest.param("/brokers/topics/t t", {"version": 1, "partitions": {}}, id="no-topic-name"),
    ],
)
def test_another_topic_is_refused(path: str, written: dict[str, object]) -> None:
    with pytest.raises(Misshaped) as refused:
        parse_topic(path, json.dumps(written).encode())
    assert refused.value.source == path
