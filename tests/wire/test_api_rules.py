"""The rules of single APIs that no schema says."""

import uuid

import pytest

from controller.errors import ApiError, ErrorCode, InvalidRegistration, InvalidRequest, NotController
from controller.errors import UnsupportedVersion as VersionRefused
from wire import k03_metadata as k03
from wire import k10_find_coordinator as k10
from wire import k18_api_versions as k18
from wire.errors import SaslAuthenticationFailed, UnlistedError, UnsupportedSaslMechanism, error_for
from wire.k36_sasl_authenticate import SaslAuthenticate
from wire.k62_broker_registration import BROKER_REGISTRATION
from wire.schema import Message

ID_A = uuid.UUID("6ba7b810-9dad-11d1-80b4-00c04fd430c8")


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        pytest.param(41, NotController, id="one-of-the-controllers"),
        pytest.param(58, SaslAuthenticationFailed, id="one-of-the-wires"),
        pytest.param(33, UnsupportedSaslMechanism, id="mechanism"),
        pytest.param(13, ApiError, id="listed-without-a-class"),
        pytest.param(91, UnlistedError, id="not-listed"),
    ],
)
def test_codes_become_errors_again(code: int, kind: type[ApiError]) -> None:
    error = error_for(code, "because")
    assert type(error) is kind
    assert "because" in str(error)
    assert getattr(error, "number", error.code) == code


def test_metadata_of_all_topics_and_of_none() -> None:
    everything, nothing = k03.Metadata(None), k03.Metadata(())
    for version in k03.METADATA.versions:
        body = k03.METADATA.encode_request(version, everything)
        assert k03.METADATA.decode_request(version, body).topics is None
        if version > 0:
            body = k03.METADATA.encode_request(version, nothing)
            assert k03.METADATA.decode_request(version, body).topics == ()


def test_metadata_by_topic_id() -> None:
    asked = k03.Metadata((k03.TopicQuery(None, ID_A),))
    assert k03.METADATA.decode_request(12, k03.METADATA.encode_request(12, asked)) == asked
    with pytest.raises(InvalidRequest):
        k03.METADATA.decode_request(11, k03.METADATA.encode_request(11, asked))
    unknown = k03.TopicMetadata(name=None, topic_id=ID_A, error_code=ErrorCode.UNKNOWN_TOPIC_ID)
    answer = k03.MetadataAnswer(cluster_id="c", topics=(unknown,))
    assert k03.METADATA.decode_response(12, k03.METADATA.encode_response(12, answer, 0)) == answer


def test_many_coordinators_need_version_4() -> None:
    asked = k10.FindCoordinator(k10.TRANSACTION, ("a", "b"))
    assert k10.FIND_COORDINATOR.decode_request(4, k10.FIND_COORDINATOR.encode_request(4, asked)) == asked
    for version in range(4):
        with pytest.raises(VersionRefused):
            k10.FIND_COORDINATOR.encode_request(version, asked)
    with pytest.raises(VersionRefused):
        k10.FIND_COORDINATOR.encode_request(0, k10.FindCoordinator(k10.TRANSACTION, ("a",)))


def test_a_broker_that_belongs_to_zookeeper_is_refused() -> None:
    message = {"broker_id": 1, "cluster_id": "c", "incarnation_id": None, "listeners": (), "features": ()}
    body = Message(62, "request").encode(1, {**message, "rack": None, "is_migrating_zk_broker": True})
    with pytest.raises(InvalidRegistration, match="ZooKeeper"):
        BROKER_REGISTRATION.decode_request(1, body)


@pytest.mark.parametrize("name", ["", "-x", "a b", "é", "x" * 10 + "\n"], ids=repr)
def test_a_software_name_that_kafka_refuses(name: str) -> None:
    body = Message(18, "request").encode(3, {"client_software_name": name, "client_software_version": "1"})
    with pytest.raises(InvalidRequest, match="client_software_name"):
        k18.API_VERSIONS.decode_request(3, body)


def test_a_password_is_never_shown() -> None:
    assert "secret" not in repr(SaslAuthenticate(b"\0user\0secret"))
