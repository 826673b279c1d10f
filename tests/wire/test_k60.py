"""DescribeCluster's own tag: of which listener the addresses are requested. Kafka's fields: test_apis.py."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kio.index import load_request_schema
from kio.serial import entity_reader

from fencepost.records.invariant import CorruptData
from fencepost.wire.k60_describe_cluster import DESCRIBE_CLUSTER, DescribeCluster

VERSIONS = st.sampled_from(DESCRIBE_CLUSTER.versions)


@given(VERSIONS, st.text(max_size=255))
def test_the_listener_is_read_back(version: int, name: str) -> None:
    request = DescribeCluster(listener_name=name)
    body = DESCRIBE_CLUSTER.encode_request(version, request)
    assert DESCRIBE_CLUSTER.decode_request(version, body) == request


@pytest.mark.parametrize("version", DESCRIBE_CLUSTER.versions)
def test_without_a_listener_the_bytes_are_kafkas(version: int) -> None:
    body = DESCRIBE_CLUSTER.encode_request(version, DescribeCluster())
    entity_reader(load_request_schema(60, version))(body, 0)
    assert body[-1] == 0


@pytest.mark.parametrize("version", DESCRIBE_CLUSTER.versions)
def test_an_unknown_tag_is_skipped(version: int) -> None:
    body = DESCRIBE_CLUSTER.encode_request(version, DescribeCluster())[:-1] + b"\1\xe9\x07\2xy"
    assert DESCRIBE_CLUSTER.decode_request(version, body).listener_name == ""


@given(VERSIONS, st.binary(max_size=300))
def test_a_broken_tag_is_refused(version: int, value: bytes) -> None:
    start = DESCRIBE_CLUSTER.encode_request(version, DescribeCluster())[:-1]
    try:
        DESCRIBE_CLUSTER.decode_request(version, start + b"\1\xe8\x07" + value)
    except CorruptData:
        pass
