"""BrokerRegistration, API key 62, versions 0-4: a broker process joins the cluster.

0   broker id, cluster id, incarnation, listeners, features, rack
1   is_migrating_zk_broker, refused here: no broker of ours migrates that way
2   log_dirs; the first one is the broker's directory, older versions have the zero uuid
3   previous_broker_epoch
4   features whose lowest level is 0 are sent (KAFKA-17492)
"""

import uuid
from typing import Any, Final

from fencepost.controller.brokers import Endpoint, Feature, RegisterBroker
from fencepost.controller.errors import ApiError, InvalidRegistration
from fencepost.records.types import BrokerEpoch, BrokerId
from fencepost.wire.dispatch import CONTROLLER, Api
from fencepost.wire.errors import raise_for
from fencepost.wire.request_limits import SMALL
from fencepost.wire.schema import Buffer, Message

NO_UUID: Final = uuid.UUID(int=0)

_REQUEST: Final = Message(62, "request")
_RESPONSE: Final = Message(62, "response")


def _decode_request(version: int, body: Buffer) -> RegisterBroker:
    message = _REQUEST.decode(version, body)
    if message.get("is_migrating_zk_broker", False):
        raise InvalidRegistration(f"broker {message['broker_id']} still belongs to ZooKeeper")
    log_dirs = message.get("log_dirs", ())
    return RegisterBroker(
        broker_id=BrokerId(message["broker_id"]),
        cluster_id=message["cluster_id"],
        incarnation_id=message["incarnation_id"] or NO_UUID,
        directory_id=(log_dirs[0] if log_dirs else None) or NO_UUID,
        endpoints=tuple(Endpoint(**listener) for listener in message["listeners"]),
        features=tuple(Feature(**feature) for feature in message["features"]),
        rack=message["rack"],
        previous_epoch=BrokerEpoch(message.get("previous_broker_epoch", -1)),
    )


def _encode_request(version: int, request: RegisterBroker) -> bytes:
    features = request.features if version >= 4 else [f for f in request.features if f.min_supported_version]
    return _REQUEST.encode(
        version,
        {
            "broker_id": request.broker_id,
            "cluster_id": request.cluster_id,
            "incarnation_id": request.incarnation_id,
            "listeners": request.endpoints,
            "features": features,
            "rack": request.rack,
            "log_dirs": (request.directory_id,),
            "previous_broker_epoch": request.previous_epoch,
        },
    )


def _encode_response(version: int, epoch: BrokerEpoch, throttle_ms: int) -> bytes:
    return _answer(version, throttle_time_ms=throttle_ms, error_code=0, broker_epoch=epoch)


def _refusal(version: int, request: RegisterBroker | None, error: ApiError, throttle_ms: int) -> bytes:
    return _answer(version, throttle_time_ms=throttle_ms, error_code=error.code, broker_epoch=-1)


def _answer(version: int, **message: Any) -> bytes:
    return _RESPONSE.encode(version, message)


def _decode_response(version: int, body: Buffer) -> BrokerEpoch:
    message = _RESPONSE.decode(version, body)
    raise_for(message["error_code"])
    return BrokerEpoch(message["broker_epoch"])


BROKER_REGISTRATION: Final[Api[RegisterBroker, BrokerEpoch]] = Api(
    key=62,
    name="BrokerRegistration",
    versions=range(5),
    flexible_from=0,
    listeners=(CONTROLLER,),
    request_bytes_max=2 * SMALL,  # 16 endpoints, 100 features, 255 characters per name
    decode_request=_decode_request,
    encode_response=_encode_response,
    refusal=_refusal,
    encode_request=_encode_request,
    decode_response=_decode_response,
)
