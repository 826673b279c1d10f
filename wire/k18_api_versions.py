"""ApiVersions, API key 18, versions 0-4: what a listener serves, so that a client can choose.

1   throttle_time
3   flexible; client software name and version; features as tagged fields
4   supported features may start at level 0; before, such are left out (KAFKA-17492)
The response header is v0 in every version. An unknown version is answered in the layout of version 0 with
error 35 and the ranges, and the client sends a new request (KIP-511).
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from fencepost.controller.errors import ApiError, ErrorCode, InvalidRequest
from fencepost.controller.features import SUPPORTED
from fencepost.records.invariant import CorruptData
from fencepost.wire.dispatch import API_VERSIONS_KEY, BROKER, CONTROLLER, Api
from fencepost.wire.errors import raise_for
from fencepost.wire.request_limits import SMALL
from fencepost.wire.schema import Buffer, Message

RESPONSES_KEPT_MAX: Final = 32
"""Each client asks first, and what a listener serves does not change: its bytes are made once a version."""

_REQUEST: Final = Message(18, "request")
_SOFTWARE: Final = re.compile(r"[a-zA-Z0-9](?:[a-zA-Z0-9\-.]*[a-zA-Z0-9])?")  # ApiVersionsRequest.java


@dataclass(frozen=True, slots=True)
class ApiVersions:
    """A request for the APIs that a listener serves, and the client's software; "" before version 3."""

    client_software_name: str = ""
    client_software_version: str = ""


@dataclass(frozen=True, slots=True)
class ApiRange:
    """One API key with the first and the last version that is served."""

    api_key: int
    min_version: int
    max_version: int


@dataclass(frozen=True, slots=True)
class SupportedFeature:
    """The levels of a feature that this process can run at, both inclusive."""

    name: str
    min_version: int
    max_version: int


@dataclass(frozen=True, slots=True)
class FinalizedFeature:
    """The level that the whole cluster runs at."""

    name: str
    level: int


@dataclass(frozen=True, slots=True)
class Features:
    """``epoch`` rises with every change of ``finalized``; -1 if it is not known."""

    supported: tuple[SupportedFeature, ...] = ()
    finalized: tuple[FinalizedFeature, ...] = ()
    epoch: int = -1


NO_FEATURES: Final = Features()
SUPPORTED_FEATURES: Final = tuple(SupportedFeature(name, *levels) for name, levels in SUPPORTED.items())
"""What every node of this version says that it supports."""


@dataclass(frozen=True, slots=True)
class ApiVersionsAnswer:
    """Ranges by ascending key. ``error_code`` is 35 if the version of the request is not served."""

    apis: tuple[ApiRange, ...]
    features: Features = NO_FEATURES
    error_code: int = 0


_RESPONSE: Final = Message(18, "response", {"api_keys": ApiRange, "supported_features": SupportedFeature})


def advertise(apis: Iterable[Api[object, object]]) -> tuple[ApiRange, ...]:
    """What these APIs offer, by ascending key: only what is served is said to be."""
    ordered = sorted(apis, key=lambda api: api.key)
    return tuple(ApiRange(api.key, api.versions[0], api.versions[-1]) for api in ordered)


def _decode_request(version: int, body: Buffer) -> ApiVersions:
    message = _REQUEST.decode(version, body)
    if version < 3:
        return ApiVersions()
    for field in ("client_software_name", "client_software_version"):
        if not _SOFTWARE.fullmatch(message[field]):
            raise InvalidRequest(f"{field} is {message[field]!r}")
    return ApiVersions(message["client_software_name"], message["client_software_version"])


def _encode_request(version: int, request: ApiVersions) -> bytes:
    software = {
        "client_software_name": request.client_software_name,
        "client_software_version": request.client_software_version,
    }
    return _REQUEST.encode(version, software)


@lru_cache(RESPONSES_KEPT_MAX)
def _encode_response(version: int, answer: ApiVersionsAnswer, throttle_ms: int) -> bytes:
    features = answer.features
    finalized = tuple(
        {"name": each.name, "max_version_level": each.level, "min_version_level": each.level}
        for each in features.finalized
        if each.level != 0
    )
    return _RESPONSE.encode(
        version,
        {
            "error_code": answer.error_code,
            "api_keys": answer.apis,
            "throttle_time_ms": throttle_ms,
            "supported_features": tuple(f for f in features.supported if version >= 4 or f.min_version > 0),
            "finalized_features_epoch": features.epoch,
            "finalized_features": finalized,
        },
    )


def _refusal(version: int, request: ApiVersions | None, error: ApiError, throttle_ms: int) -> bytes:
    return _encode_response(version, ApiVersionsAnswer((), error_code=error.code), throttle_ms)


def _decode_response(version: int, body: Buffer) -> ApiVersionsAnswer:
    if bytes(body[:2]) == ErrorCode.UNSUPPORTED_VERSION.to_bytes(2, "big"):
        return _refused(body)
    message = _RESPONSE.decode(version, body)
    raise_for(message["error_code"])
    finalized = message.get("finalized_features", ())
    return ApiVersionsAnswer(
        apis=message["api_keys"],
        features=Features(
            supported=message.get("supported_features", ()),
            finalized=tuple(FinalizedFeature(each["name"], each["max_version_level"]) for each in finalized),
            epoch=message.get("finalized_features_epoch", -1),
        ),
    )


def _refused(body: Buffer) -> ApiVersionsAnswer:
    """Which versions of this API there are. What cannot be read says 0, as in Kafka's NetworkClient.

    librdkafka's mock cluster answers in the version of the request, and writes a wrong length.
    """
    try:
        ranges = _RESPONSE.decode(0, body)["api_keys"]
    except CorruptData:
        ranges = ()
    if all(each.api_key != API_VERSIONS_KEY for each in ranges):
        ranges = (*ranges, ApiRange(API_VERSIONS_KEY, 0, 0))
    return ApiVersionsAnswer(ranges, error_code=ErrorCode.UNSUPPORTED_VERSION)


API_VERSIONS: Final[Api[ApiVersions, ApiVersionsAnswer]] = Api(
    key=API_VERSIONS_KEY,
    name="ApiVersions",
    versions=range(5),
    flexible_from=3,
    listeners=(BROKER, CONTROLLER),
    request_bytes_max=SMALL,  # a client's name and version
    decode_request=_decode_request,
    encode_response=_encode_response,
    refusal=_refusal,
    encode_request=_encode_request,
    decode_response=_decode_response,
)
