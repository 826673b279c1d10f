"""BrokerHeartbeat, API key 63, versions 0-1: a broker says that it lives and what it wants.

Ours        a tagged field of the request: 1000, ``reports``: what the broker says of its partitions, as bytes
            (records/partition_report.py). Tagged fields of the answer: 1000, ``cluster_version``: whether
            topics or brokers have changed; 1002, ``agreed_ms``: what time a majority of voters has, whose
            clocks did not jump; 1003, ``settings_digest``: whether settings of the broker have changed. Kafka
            skips a tag that it does not know (KIP-482).
1   offline_log_dirs (tag 0), read and left aside: our brokers report partitions that are offline by name
"""

from typing import Final

from fencepost.controller.brokers import Heartbeat, HeartbeatStatus
from fencepost.controller.errors import ApiError
from fencepost.records.invariant import invariant
from fencepost.records.partition_report import decode_reports, encode_reports
from fencepost.records.types import BrokerEpoch, BrokerId
from fencepost.records.varint import unsigned
from fencepost.wire.cursor import Reader, read
from fencepost.wire.dispatch import CONTROLLER, Api
from fencepost.wire.errors import raise_for
from fencepost.wire.request_limits import SMALL
from fencepost.wire.schema import Buffer, Message

CLUSTER_VERSION_TAG: Final = 1000
AGREED_TAG: Final = 1002
SETTINGS_TAG: Final = 1003
_TAGS_AT: Final = 9  # after the throttle time, the error code and three booleans
_VERSION_TAG: Final = bytes((0xE8, 0x07, 8))  # 1000, of eight bytes
_AGREED_TAG: Final = bytes((0xEA, 0x07, 8))
_SETTINGS_TAG: Final = bytes((0xEB, 0x07, 8))
_REPORTS_TAG: Final = 1000
_REQUEST_TAGS_AT: Final = 22  # after a broker's id, its epoch, an offset and two booleans
_REPORTS: Final = {_REPORTS_TAG: lambda reader: decode_reports(bytes(reader.records() or b""))}
_TAGS: Final = {
    CLUSTER_VERSION_TAG: Reader.int64,
    AGREED_TAG: Reader.int64,
    SETTINGS_TAG: Reader.int64,
}

_REQUEST: Final = Message(63, "request")
_RESPONSE: Final = Message(63, "response")


def _decode_request(version: int, body: Buffer) -> Heartbeat:
    message = _REQUEST.decode(version, body)
    reader = Reader(body, flexible=True)
    reader.position = _REQUEST_TAGS_AT
    tags = read(f"BrokerHeartbeat v{version}", reader, lambda each: each.tags(_REPORTS))
    return Heartbeat(
        broker_id=BrokerId(message["broker_id"]),
        broker_epoch=BrokerEpoch(message["broker_epoch"]),
        current_metadata_offset=message["current_metadata_offset"],
        want_fence=message["want_fence"],
        want_shut_down=message["want_shut_down"],
        reports=tags.get(_REPORTS_TAG, ()),
    )


def _encode_request(version: int, request: Heartbeat) -> bytes:
    body = _REQUEST.encode(
        version,
        {
            "broker_id": request.broker_id,
            "broker_epoch": request.broker_epoch,
            "current_metadata_offset": request.current_metadata_offset,
            "want_fence": request.want_fence,
            "want_shut_down": request.want_shut_down,
        },
    )
    invariant(len(body) == _REQUEST_TAGS_AT + 1, "a heartbeat is not laid out as it was", body=body)
    if not request.reports:
        return body
    raw = encode_reports(request.reports)
    value = unsigned(len(raw) + 1) + raw  # compact bytes
    tag = unsigned(_REPORTS_TAG) + unsigned(len(value)) + value
    return body[:_REQUEST_TAGS_AT] + b"\1" + tag


def _encode_response(version: int, status: HeartbeatStatus, throttle_ms: int) -> bytes:
    body = _RESPONSE.encode(
        version,
        {
            "throttle_time_ms": throttle_ms,
            "error_code": 0,
            "is_caught_up": status.is_caught_up,
            "is_fenced": status.is_fenced,
            "should_shut_down": status.should_shut_down,
        },
    )
    tags = [
        tag + value.to_bytes(8, "big")
        for tag, value in (
            (_VERSION_TAG, status.cluster_version),
            (_AGREED_TAG, status.agreed_ms),
            (_SETTINGS_TAG, status.settings_digest),
        )
        if value >= 0
    ]
    invariant(len(body) == _TAGS_AT + 1, "the heartbeat's answer is not laid out as it was", body=body)
    return body[:_TAGS_AT] + bytes((len(tags),)) + b"".join(tags)


def _refusal(version: int, request: Heartbeat | None, error: ApiError, throttle_ms: int) -> bytes:
    refused = {"throttle_time_ms": throttle_ms, "error_code": error.code, "should_shut_down": False}
    return _RESPONSE.encode(version, refused)


def _decode_response(version: int, body: Buffer) -> HeartbeatStatus:
    message = _RESPONSE.decode(version, body)
    raise_for(message["error_code"])
    reader = Reader(body, flexible=True)
    reader.position = _TAGS_AT
    tags = read(f"BrokerHeartbeat v{version}", reader, lambda each: each.tags(_TAGS))
    return HeartbeatStatus(
        message["is_caught_up"],
        message["is_fenced"],
        message["should_shut_down"],
        tags.get(CLUSTER_VERSION_TAG, -1),
        tags.get(AGREED_TAG, -1),
        tags.get(SETTINGS_TAG, -1),
    )


BROKER_HEARTBEAT: Final[Api[Heartbeat, HeartbeatStatus]] = Api(
    key=63,
    name="BrokerHeartbeat",
    versions=range(2),
    flexible_from=0,
    listeners=(CONTROLLER,),
    request_bytes_max=SMALL,  # numbers, the ids of directories, and 42 kB of reports
    decode_request=_decode_request,
    encode_response=_encode_response,
    refusal=_refusal,
    encode_request=_encode_request,
    decode_response=_decode_response,
)
