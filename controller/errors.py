"""Expected refusals: each carries the Kafka error code the client is answered with.

Source   Kafka ``Errors``; row 730.4. Pure: the numbers are Kafka's, no wire type is needed.
"""

import enum

from fencepost.records.types import BrokerEpoch, BrokerId, ProducerId


class ErrorCode(enum.IntEnum):
    """Kafka's error codes that this project answers with (Kafka ``Errors``)."""

    UNKNOWN_SERVER_ERROR = -1
    NONE = 0
    OFFSET_OUT_OF_RANGE = 1
    CORRUPT_MESSAGE = 2
    UNKNOWN_TOPIC_OR_PARTITION = 3
    LEADER_NOT_AVAILABLE = 5
    NOT_LEADER_OR_FOLLOWER = 6
    REQUEST_TIMED_OUT = 7
    MESSAGE_TOO_LARGE = 10
    OFFSET_METADATA_TOO_LARGE = 12
    NETWORK_EXCEPTION = 13
    COORDINATOR_LOAD_IN_PROGRESS = 14
    COORDINATOR_NOT_AVAILABLE = 15
    NOT_COORDINATOR = 16
    INVALID_TOPIC_EXCEPTION = 17
    NOT_ENOUGH_REPLICAS = 19
    INVALID_REQUIRED_ACKS = 21
    ILLEGAL_GENERATION = 22
    INCONSISTENT_GROUP_PROTOCOL = 23
    INVALID_GROUP_ID = 24
    UNKNOWN_MEMBER_ID = 25
    INVALID_SESSION_TIMEOUT = 26
    REBALANCE_IN_PROGRESS = 27
    TOPIC_AUTHORIZATION_FAILED = 29
    GROUP_AUTHORIZATION_FAILED = 30
    CLUSTER_AUTHORIZATION_FAILED = 31
    INVALID_TIMESTAMP = 32
    UNSUPPORTED_SASL_MECHANISM = 33
    ILLEGAL_SASL_STATE = 34
    UNSUPPORTED_VERSION = 35
    TOPIC_ALREADY_EXISTS = 36
    INVALID_PARTITIONS = 37
    INVALID_REPLICATION_FACTOR = 38
    INVALID_REPLICA_ASSIGNMENT = 39
    INVALID_CONFIG = 40
    NOT_CONTROLLER = 41
    INVALID_REQUEST = 42
    POLICY_VIOLATION = 44
    OUT_OF_ORDER_SEQUENCE_NUMBER = 45
    INVALID_PRODUCER_EPOCH = 47
    INVALID_TXN_STATE = 48
    INVALID_PRODUCER_ID_MAPPING = 49
    INVALID_TRANSACTION_TIMEOUT = 50
    CONCURRENT_TRANSACTIONS = 51
    TRANSACTION_COORDINATOR_FENCED = 52
    TRANSACTIONAL_ID_AUTHORIZATION_FAILED = 53
    SECURITY_DISABLED = 54
    OPERATION_NOT_ATTEMPTED = 55
    KAFKA_STORAGE_ERROR = 56
    SASL_AUTHENTICATION_FAILED = 58
    UNKNOWN_PRODUCER_ID = 59
    NON_EMPTY_GROUP = 68
    GROUP_ID_NOT_FOUND = 69
    TOPIC_DELETION_DISABLED = 73
    FENCED_LEADER_EPOCH = 74
    UNKNOWN_LEADER_EPOCH = 75
    UNSUPPORTED_COMPRESSION_TYPE = 76
    STALE_BROKER_EPOCH = 77
    MEMBER_ID_REQUIRED = 79
    PREFERRED_LEADER_NOT_AVAILABLE = 80
    GROUP_MAX_SIZE_REACHED = 81
    FENCED_INSTANCE_ID = 82
    ELIGIBLE_LEADERS_NOT_AVAILABLE = 83
    ELECTION_NOT_NEEDED = 84
    GROUP_SUBSCRIBED_TO_TOPIC = 86
    INVALID_RECORD = 87
    UNSTABLE_OFFSET_COMMIT = 88
    PRODUCER_FENCED = 90
    RESOURCE_NOT_FOUND = 91
    DUPLICATE_RESOURCE = 92
    UNACCEPTABLE_CREDENTIAL = 93
    INVALID_UPDATE_VERSION = 95
    UNKNOWN_TOPIC_ID = 100
    DUPLICATE_BROKER_REGISTRATION = 101
    BROKER_ID_NOT_REGISTERED = 102
    INCONSISTENT_CLUSTER_ID = 104
    TRANSACTIONAL_ID_NOT_FOUND = 105
    MISMATCHED_ENDPOINT_TYPE = 114
    UNSUPPORTED_ENDPOINT_TYPE = 115
    INVALID_REGISTRATION = 119
    TRANSACTION_ABORTABLE = 120
    INVALID_REGULAR_EXPRESSION = 128


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
        ids = f"the next id is {producer_id_end}, and a block of {block_length} would pass 2^63 - 1"
        super().__init__(f"producer ids are exhausted: {ids}")


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
    """The outcome is unknown: the record may still commit. Never a failure (docs/design.md 2)."""

    code = ErrorCode.REQUEST_TIMED_OUT


class CoordinatorLoadInProgress(ApiError):
    """No block of ids is at hand, or the leader is not active yet: clients retry soon."""

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


class OffsetOutOfRange(ApiError):
    """An offset that the partition's log does not hold."""

    code = ErrorCode.OFFSET_OUT_OF_RANGE


class CorruptMessage(ApiError):
    """A record batch whose checksum, size or layout is wrong."""

    code = ErrorCode.CORRUPT_MESSAGE


class MessageTooLarge(ApiError):
    """A record batch above ``message.max.bytes``."""

    code = ErrorCode.MESSAGE_TOO_LARGE


class InvalidTopic(ApiError):
    """A topic name that Kafka does not allow."""

    code = ErrorCode.INVALID_TOPIC_EXCEPTION


class NotEnoughReplicas(ApiError):
    """The partition cannot take the write now; every client tries again."""

    code = ErrorCode.NOT_ENOUGH_REPLICAS


class InvalidRequiredAcks(ApiError):
    """A Produce whose acks are none that Kafka knows."""

    code = ErrorCode.INVALID_REQUIRED_ACKS


class TopicAlreadyExists(ApiError):
    """A topic of this name is there."""

    code = ErrorCode.TOPIC_ALREADY_EXISTS


class InvalidPartitions(ApiError):
    """A partition count that cannot be."""

    code = ErrorCode.INVALID_PARTITIONS


class InvalidReplicationFactor(ApiError):
    """More replicas than this cluster keeps, or fewer than one."""

    code = ErrorCode.INVALID_REPLICATION_FACTOR


class InvalidReplicaAssignment(ApiError):
    """Replicas placed by the client where they cannot be."""

    code = ErrorCode.INVALID_REPLICA_ASSIGNMENT


class InvalidConfig(ApiError):
    """A configuration that is unknown or out of its range."""

    code = ErrorCode.INVALID_CONFIG


class PolicyViolation(ApiError):
    """A request above a limit of this cluster."""

    code = ErrorCode.POLICY_VIOLATION


class OutOfOrderSequence(ApiError):
    """A batch whose sequence does not follow the producer's last one."""

    code = ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


class InvalidProducerEpoch(ApiError):
    """A producer epoch that is not current; the code for versions that do not know 90."""

    code = ErrorCode.INVALID_PRODUCER_EPOCH


class InvalidTxnState(ApiError):
    """The transaction is in a state in which this request means a mistake of its sender."""

    code = ErrorCode.INVALID_TXN_STATE


class InvalidProducerIdMapping(ApiError):
    """The transactional id is unknown, or has another producer id."""

    code = ErrorCode.INVALID_PRODUCER_ID_MAPPING


class InvalidTransactionTimeout(ApiError):
    """A transaction timeout below 1 ms or above ``transaction.max.timeout.ms``."""

    code = ErrorCode.INVALID_TRANSACTION_TIMEOUT


class ConcurrentTransactions(ApiError):
    """The transaction before is still ending; clients retry until it has ended."""

    code = ErrorCode.CONCURRENT_TRANSACTIONS


class TransactionCoordinatorFenced(ApiError):
    """A marker of a coordinator that another one has replaced."""

    code = ErrorCode.TRANSACTION_COORDINATOR_FENCED


class OperationNotAttempted(ApiError):
    """Another item of the same request was refused, so this one was not tried."""

    code = ErrorCode.OPERATION_NOT_ATTEMPTED


class UnknownProducerId(ApiError):
    """A producer id without state."""

    code = ErrorCode.UNKNOWN_PRODUCER_ID


class FencedLeaderEpoch(ApiError):
    """A leader epoch older than the partition's."""

    code = ErrorCode.FENCED_LEADER_EPOCH


class UnknownLeaderEpoch(ApiError):
    """A leader epoch newer than the partition's."""

    code = ErrorCode.UNKNOWN_LEADER_EPOCH


class TopicDeletionDisabled(ApiError):
    """Topics cannot be deleted: ``delete.topic.enable`` is false."""

    code = ErrorCode.TOPIC_DELETION_DISABLED


class UnsupportedCompressionType(ApiError):
    """A compression that this request version may not carry."""

    code = ErrorCode.UNSUPPORTED_COMPRESSION_TYPE


class InvalidTimestamp(ApiError):
    """A record's time lies further ahead than message.timestamp.after.max.ms allows."""

    code = ErrorCode.INVALID_TIMESTAMP


class InvalidRecord(ApiError):
    """A record that is well framed and breaks a rule of its log."""

    code = ErrorCode.INVALID_RECORD


class ProducerFenced(ApiError):
    """A newer instance with the same transactional id has taken over; row 588.4."""

    code = ErrorCode.PRODUCER_FENCED


class TransactionalIdNotFound(ApiError):
    """Nothing is known of this transactional id."""

    code = ErrorCode.TRANSACTIONAL_ID_NOT_FOUND


class TransactionAbortable(ApiError):
    """The transaction must be aborted; the producer may go on with the next."""

    code = ErrorCode.TRANSACTION_ABORTABLE


class InvalidRegularExpression(ApiError):
    """A pattern that does not compile."""

    code = ErrorCode.INVALID_REGULAR_EXPRESSION


class TransactionTimedOut(UnknownProducerId):
    """This epoch's transaction timed out, its producer was not fenced (KIP-588: 59 to older clients)."""
