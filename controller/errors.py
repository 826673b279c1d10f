"""Expected refusals: each carries the Kafka error code the client is answered with.

Source   Kafka ``Errors``; spec rows 730.4. Pure: the numbers are Kafka's, no wire type is needed.
"""

import enum

from records.types import BrokerEpoch, BrokerId, ProducerId


class ErrorCode(enum.IntEnum):
    """Kafka's error codes that this project answers with (Kafka ``Errors``)."""

    UNKNOWN_SERVER_ERROR = -1
    NONE = 0
    UNKNOWN_TOPIC_OR_PARTITION = 3
    LEADER_NOT_AVAILABLE = 5
    NOT_LEADER_OR_FOLLOWER = 6
    REQUEST_TIMED_OUT = 7
    NETWORK_EXCEPTION = 13
    COORDINATOR_LOAD_IN_PROGRESS = 14
    COORDINATOR_NOT_AVAILABLE = 15
    NOT_COORDINATOR = 16
    CLUSTER_AUTHORIZATION_FAILED = 31
    UNSUPPORTED_SASL_MECHANISM = 33
    ILLEGAL_SASL_STATE = 34
    UNSUPPORTED_VERSION = 35
    NOT_CONTROLLER = 41
    INVALID_REQUEST = 42
    KAFKA_STORAGE_ERROR = 56
    SASL_AUTHENTICATION_FAILED = 58
    STALE_BROKER_EPOCH = 77
    DUPLICATE_BROKER_REGISTRATION = 101
    BROKER_ID_NOT_REGISTERED = 102
    INCONSISTENT_CLUSTER_ID = 104
    INVALID_REGISTRATION = 119
    UNKNOWN_TOPIC_ID = 100


class ApiError(Exception):
    """Expected: answer the client with ``code``. The text goes where the schema has a message."""

    code: ErrorCode = ErrorCode.UNKNOWN_SERVER_ERROR


class UnknownServerError(ApiError):
    """``decide`` failed in a way that is our bug; it harms only this request."""


class StaleBrokerEpoch(ApiError):
    """The broker is unknown, or has registered again since it sent this request."""

    code = ErrorCode.STALE_BROKER_EPOCH

    def __init__(self, *, broker_id: BrokerId, sent: BrokerEpoch, current: BrokerEpoch | None):
        now = "it is not registered" if current is None else f"its current epoch is {current}"
        super().__init__(f"broker {broker_id} sent epoch {sent}, but {now}; register again")


class BrokerIdNotRegistered(ApiError):
    """An operation on a broker that has no registration."""

    code = ErrorCode.BROKER_ID_NOT_REGISTERED


class ProducerIdsExhausted(ApiError):
    """No whole block is left below 2^63 - 1. Nothing was written (row 730.4: code -1)."""

    code = ErrorCode.UNKNOWN_SERVER_ERROR

    def __init__(self, *, producer_id_end: ProducerId, block_length: int):
        super().__init__(
            f"producer ids are exhausted: the next id is {producer_id_end}, and a block of "
            f"{block_length} would pass 2^63 - 1"
        )


class DuplicateBrokerRegistration(ApiError):
    """Another live process holds this broker id from another directory."""

    code = ErrorCode.DUPLICATE_BROKER_REGISTRATION


class InconsistentClusterId(ApiError):
    """A broker of another cluster knocked."""

    code = ErrorCode.INCONSISTENT_CLUSTER_ID


class InvalidRegistration(ApiError):
    """A registration that can never succeed as sent."""

    code = ErrorCode.INVALID_REGISTRATION


class UnsupportedVersion(ApiError):
    """A feature level or API version that is not in the supported range."""

    code = ErrorCode.UNSUPPORTED_VERSION


class InvalidRequest(ApiError):
    """The request is well formed, but breaks a rule of its API."""

    code = ErrorCode.INVALID_REQUEST


class NotController(ApiError):
    """This node is not the active controller; the request was definitely not done."""

    code = ErrorCode.NOT_CONTROLLER


class RequestTimedOut(ApiError):
    """The outcome is unknown: the record may still commit. Never a failure (DESIGN 2)."""

    code = ErrorCode.REQUEST_TIMED_OUT


class CoordinatorLoadInProgress(ApiError):
    """Come back soon: no block of ids is at hand, or the leader is not active yet."""

    code = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS


class CoordinatorNotAvailable(ApiError):
    """No active controller is known at the moment."""

    code = ErrorCode.COORDINATOR_NOT_AVAILABLE


class NotCoordinator(ApiError):
    """This node does not coordinate that transactional id; the request was definitely not done."""

    code = ErrorCode.NOT_COORDINATOR


class StorageFull(ApiError):
    """The leader's disk is almost full: nothing was written, ask again when there is room."""

    code = ErrorCode.KAFKA_STORAGE_ERROR


class ClusterAuthorizationFailed(ApiError):
    """The principal may not do this to the cluster (row 730.8: fatal to a broker)."""

    code = ErrorCode.CLUSTER_AUTHORIZATION_FAILED

    def __init__(self, *, principal: str, operation: str):
        super().__init__(
            f"principal {principal} lacks {operation} on the cluster; add the line "
            f"'{principal} {operation}' to authorizer.acls.file, or {principal} to super.users"
        )
