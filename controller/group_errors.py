"""Refusals of consumer groups and their offsets. Source: Kafka ``Errors``."""

from fencepost.controller.errors import ApiError, ErrorCode


class OffsetMetadataTooLarge(ApiError):
    """The text committed with an offset is longer than ``offset.metadata.max.bytes``."""

    code = ErrorCode.OFFSET_METADATA_TOO_LARGE


class IllegalGeneration(ApiError):
    """The request is of another generation than the group's current one."""

    code = ErrorCode.ILLEGAL_GENERATION


class InconsistentGroupProtocol(ApiError):
    """The protocol type differs from the group's, or no protocol is supported by all members."""

    code = ErrorCode.INCONSISTENT_GROUP_PROTOCOL


class InvalidGroupId(ApiError):
    """A group id that is empty, or longer than a key of the image may be."""

    code = ErrorCode.INVALID_GROUP_ID


class UnknownMemberId(ApiError):
    """The group has no such member: it joins again with a new id."""

    code = ErrorCode.UNKNOWN_MEMBER_ID


class InvalidSessionTimeout(ApiError):
    """A session timeout outside ``group.min.session.timeout.ms`` and ``group.max.session.timeout.ms``."""

    code = ErrorCode.INVALID_SESSION_TIMEOUT


class RebalanceInProgress(ApiError):
    """The group's members join again: so must this one."""

    code = ErrorCode.REBALANCE_IN_PROGRESS


class TopicAuthorizationFailed(ApiError):
    """The principal may not use this topic."""

    code = ErrorCode.TOPIC_AUTHORIZATION_FAILED


class GroupAuthorizationFailed(ApiError):
    """The principal may not use this group."""

    code = ErrorCode.GROUP_AUTHORIZATION_FAILED


class NonEmptyGroup(ApiError):
    """The group has members, so it is not deleted."""

    code = ErrorCode.NON_EMPTY_GROUP


class GroupIdNotFound(ApiError):
    """Nothing is known of this group."""

    code = ErrorCode.GROUP_ID_NOT_FOUND


class MemberIdRequired(ApiError):
    """The first JoinGroup of a dynamic member: it joins again with the id that the answer gives (KIP-394)."""

    code = ErrorCode.MEMBER_ID_REQUIRED

    def __init__(self, member_id: str) -> None:
        super().__init__(f"join again with member id {member_id!r}")
        self.member_id = member_id


class GroupMaxSizeReached(ApiError):
    """The group has as many members, or as many bytes of them, as it may have."""

    code = ErrorCode.GROUP_MAX_SIZE_REACHED


class FencedInstanceId(ApiError):
    """A newer member with the same ``group.instance.id`` has taken this one's place (KIP-345)."""

    code = ErrorCode.FENCED_INSTANCE_ID


class GroupSubscribedToTopic(ApiError):
    """Offsets of a topic to which members of the group are subscribed are not deleted."""

    code = ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC


class UnstableOffsetCommit(ApiError):
    """An open transaction has an offset for this partition: retry when it has ended (KIP-447)."""

    code = ErrorCode.UNSTABLE_OFFSET_COMMIT
