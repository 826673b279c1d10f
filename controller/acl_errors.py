"""Refusals of authorization by ACLs. Source: Kafka ``Errors``."""

from fencepost.controller.errors import ApiError, ErrorCode


class TopicAuthorizationFailed(ApiError):
    """The principal may not do this to the topic."""

    code = ErrorCode.TOPIC_AUTHORIZATION_FAILED


class GroupAuthorizationFailed(ApiError):
    """The principal may not do this to the group."""

    code = ErrorCode.GROUP_AUTHORIZATION_FAILED


class ClusterOperationDenied(ApiError):
    """The principal may not do this to the cluster: its ACLs say so, not a file."""

    code = ErrorCode.CLUSTER_AUTHORIZATION_FAILED


class SecurityDisabled(ApiError):
    """ACLs are managed only where an authorizer is configured."""

    code = ErrorCode.SECURITY_DISABLED


class TransactionalIdAuthorizationFailed(ApiError):
    """The principal may not use this transactional id."""

    code = ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
