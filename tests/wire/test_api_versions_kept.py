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
