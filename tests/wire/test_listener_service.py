"""What a listener says it serves, and which services it refuses to serve."""

from typing import Any

import pytest

from fencepost.records.invariant import InvariantViolation
from fencepost.wire.auth import Logins
from fencepost.wire.k18_api_versions import API_VERSIONS, ApiVersions, Features, FinalizedFeature
from fencepost.wire.k67_allocate_producer_ids import ALLOCATE_PRODUCER_IDS
from fencepost.wire.listener import Listener
from tests.together import table
from tests.wire.stage import Blocks, blocks_service, capturing_log, framed
from tests.wire.test_listener import Stage


def ask_versions(version: int, correlation_id: int = 3) -> bytes:
    body = API_VERSIONS.encode_request(version, ApiVersions("test", "1")) if version in range(5) else b"\x99"
    return framed(18, version, body, correlation_id=correlation_id, flexible=version >= 3)


@table("version", API_VERSIONS.versions)
def test_api_versions_says_what_is_served_and_no_more(version: int) -> None:
    features = Features(finalized=(FinalizedFeature("metadata.version", 7),), epoch=4)
    stage = Stage(features=lambda: features)
    stage.receive(ask_versions(version))
    answer = API_VERSIONS.decode_response(version, stage.wire.written[0][8:])
    served = [(17, 0, 1), (18, 0, 4), (36, 0, 2), (67, 0, 0)]
    assert [(each.api_key, each.min_version, each.max_version) for each in answer.apis] == served
    assert answer.features == (features if version >= 3 else Features())


@pytest.mark.parametrize("version", [5, 99, 32767, -1])
def test_an_unknown_version_of_api_versions_is_told_the_range(version: int) -> None:
    stage = Stage()
    stage.receive(ask_versions(version, 3), ask_versions(4, 4))
    assert stage.wire.correlation_ids == [3, 4]
    answer = API_VERSIONS.decode_response(0, stage.wire.written[0][8:])
    assert answer.error_code == 35
    assert [each.max_version for each in answer.apis if each.api_key == 18] == [4]
    assert stage.events == []


@pytest.mark.parametrize("key", [17, 18, 36])
def test_a_service_cannot_take_the_listeners_own_apis(key: int) -> None:
    log, _ = capturing_log()
    service = {key: (ALLOCATE_PRODUCER_IDS, Blocks())}
    with pytest.raises(InvariantViolation, match="itself"):
        Listener(service, name="X", log=log)


@pytest.mark.parametrize(
    "options",
    [
        pytest.param({"security_protocol": "SASL_PLAINTEXT"}, id="sasl-without-users"),
        pytest.param({"logins": Logins({"a": "b"})}, id="users-without-sasl"),
    ],
)
def test_sasl_and_credentials_come_together(options: dict[str, Any]) -> None:
    log, _ = capturing_log()
    with pytest.raises(InvariantViolation, match="logins"):
        Listener(blocks_service(), name="X", log=log, **options)
