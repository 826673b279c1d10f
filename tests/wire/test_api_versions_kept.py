"""ApiVersions begins every connection: its response is made once, and again after a change."""

from dataclasses import replace

import pytest

from fencepost.wire.k18_api_versions import (
    API_VERSIONS,
    ApiVersionsAnswer,
    Features,
    FinalizedFeature,
    advertise,
)
from fencepost.wire.registry import APIS
from fencepost.wire.requests import ErrorCode
from tests.together import table


def answer(epoch: int) -> ApiVersionsAnswer:
    """As a listener makes it for each connection: equal, and not the same object."""
    ranges = advertise(APIS.values())
    return ApiVersionsAnswer(ranges, Features((), (FinalizedFeature("kraft.version", 1),), epoch))


@table("version", API_VERSIONS.versions)
def test_a_thousand_connections_cost_one_response(version: int) -> None:
    encode = API_VERSIONS.encode_response
    assert encode(version, answer(7), 0) is encode(version, answer(7), 0)


@pytest.mark.parametrize("version", [3, 4])
def test_what_has_changed_is_said(version: int) -> None:
    encode, decode = API_VERSIONS.encode_response, API_VERSIONS.decode_response
    assert decode is not None
    for wanted in (answer(7), answer(8), replace(answer(8), apis=answer(8).apis[:3])):
        assert decode(version, encode(version, wanted, 0)) == wanted


@table(
    ("raw", "ranges"),
    [
        ("002300000002000000000003001200000003", {0: range(4), 18: range(4)}),
        ("002300000000", {18: range(1)}),
        ("002300000001000000000003", {0: range(4), 18: range(1)}),
        ("002301001200000002000000000000", {18: range(1)}),  # librdkafka's mock cluster
    ],
    ids=["KIP-511", "none", "not-of-this-api", "unreadable"],
)
def test_a_refused_version_says_which_to_ask_for(raw: str, ranges: dict[int, range]) -> None:
    assert API_VERSIONS.decode_response is not None
    found = API_VERSIONS.decode_response(4, bytes.fromhex(raw))
    assert found.error_code == ErrorCode.UNSUPPORTED_VERSION
    named = {each.api_key: range(each.min_version, each.max_version + 1) for each in found.apis}
    assert {key: named[key] for key in ranges} == ranges
