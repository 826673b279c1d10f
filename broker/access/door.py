"""The door of a listener: what a request's principal may do, by the ACLs that the node has now.

Host        the address that the connection comes from, as ACLs name it.
Not ready   a broker that has no ACLs yet lets super users in alone; others' requests are parked until it has
            them, and after some seconds answered with a code that clients retry.
Source      Kafka AuthHelper; AclEntry.supportedOperations.
"""

import uuid
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from fencepost.broker.access.trail import Noted, Trail
from fencepost.controller.acl_book import AclBook, authorize, authorize_some
from fencepost.controller.acl_errors import (
    ClusterOperationDenied,
    GroupAuthorizationFailed,
    TransactionalIdAuthorizationFailed,
)
from fencepost.controller.acl_types import CLUSTER_NAME, Operation, ResourceType
from fencepost.controller.errors import CoordinatorLoadInProgress
from fencepost.settings.config import NodeConfig
from fencepost.wire.dispatch import Context

OPERATIONS: Final = {
    ResourceType.TOPIC: (
        Operation.READ,
        Operation.WRITE,
        Operation.CREATE,
        Operation.DELETE,
        Operation.ALTER,
        Operation.DESCRIBE,
        Operation.DESCRIBE_CONFIGS,
        Operation.ALTER_CONFIGS,
    ),
    ResourceType.GROUP: (
        Operation.READ,
        Operation.DELETE,
        Operation.DESCRIBE,
        Operation.DESCRIBE_CONFIGS,
        Operation.ALTER_CONFIGS,
    ),
    ResourceType.CLUSTER: (
        Operation.CREATE,
        Operation.ALTER,
        Operation.DESCRIBE,
        Operation.CLUSTER_ACTION,
        Operation.DESCRIBE_CONFIGS,
        Operation.ALTER_CONFIGS,
        Operation.IDEMPOTENT_WRITE,
    ),
}
"""What the operations of a resource may be, for those who request which are authorized (KIP-430)."""


@dataclass(frozen=True, slots=True)
class AuthorizerRules:
    """What a node's properties say beside the ACLs."""

    super_users: frozenset[str]
    allow_if_no_acl: bool
    creates_topics: bool  # auto.create.topics.enable


def rules_of(config: NodeConfig) -> AuthorizerRules | None:
    """None without an authorizer."""
    if not config.has_authorizer:
        return None
    return AuthorizerRules(frozenset(config.super_users), config.allow_if_no_acl, config.auto_create_topics)


class Door:
    """One listener's. ``book``: the ACLs, None while they are not here yet. ``trail``: see audited.py.

    ``park``: calls what it is given when they are here, or it is too late; False if too many wait already.
    """

    def __init__(
        self,
        rules: AuthorizerRules,
        book: Callable[[], AclBook | None],
        *,
        topic_name: Callable[[uuid.UUID], str | None],
        has_topic: Callable[[str], bool],
        park: Callable[[Callable[[], None]], bool] | None = None,
        trail: Trail | None = None,
    ) -> None:
        self.trail = trail
        self.noted: list[Noted] | None = None  # what the request that a guard looks at is denied: audited.py
        self.notes_all = False  # and what is allowed
        self.rules = rules
        self.topic_name = topic_name
        self.has_topic = has_topic
        self._book = book
        self._park = park

    def is_parked(self, context: Context, then: Callable[[], None]) -> bool:
        """The ACLs that decide about the principal are not here yet, and ``then`` is called when they are."""
        if self._park is None or self._book() is not None or context.principal in self.rules.super_users:
            return False
        return self._park(then)

    @property
    def changes(self) -> int:
        """The number of the last change of the ACLs that decide now."""
        book = self._book()
        return -1 if book is None else book.changes

    def allows(self, context: Context, operation: Operation, of: ResourceType, name: str) -> bool:
        """Raises CoordinatorLoadInProgress while the ACLs are not here."""
        rules, principal = self.rules, context.principal
        found = principal in rules.super_users
        if not found:
            book = self._book()
            if book is None:
                raise CoordinatorLoadInProgress(_NOT_HERE)
            verdict = book.remembered_verdict(principal, context.host, operation, of, name)
            found = rules.allow_if_no_acl if verdict is None else verdict
        if self.noted is not None and (self.notes_all or not found):
            self.noted.append(Noted(operation, of, name, found))
        return found

    def is_remembered(self, context: Context, operation: Operation, of: ResourceType, name: str) -> bool:
        """An ACL allows it, for certain; where this is False ``allows`` says whether it is allowed.

        By the ACLs that are here now, as ``allows``: what it remembers ends with any change of them.
        """
        book = self._book()
        if book is None:
            return False
        return book.remembered_verdict(context.principal, context.host, operation, of, name) is True

    def checker(self, context: Context, operation: Operation, of: ResourceType) -> Callable[[str], bool]:
        """``allows`` by the name of a resource, for another thread: by the ACLs that are here now.

        Raises CoordinatorLoadInProgress while they are not.
        """
        rules, book, host = self.rules, self._known(context), context.host

        def may(name: str) -> bool:
            resource = (of, name)
            return authorize(
                book, rules.super_users, rules.allow_if_no_acl, context.principal, host, operation, resource
            )

        return may

    def allows_topic(self, context: Context, operation: Operation, name: str) -> bool:
        """See ``allows``."""
        return self.allows(context, operation, ResourceType.TOPIC, name)

    def allows_cluster(self, context: Context, operation: Operation) -> bool:
        """See ``allows``."""
        return self.allows(context, operation, ResourceType.CLUSTER, CLUSTER_NAME)

    def allows_some_topic(self, context: Context, operation: Operation) -> bool:
        """Any topic will do (KIP-679)."""
        rules = self.rules
        return authorize_some(
            self._known(context),
            rules.super_users,
            rules.allow_if_no_acl,
            context.principal,
            context.host,
            operation,
            ResourceType.TOPIC,
        )

    def operations(self, context: Context, of: ResourceType, name: str) -> int:
        """The operations that are authorized, as Kafka's bit field."""
        return sum(1 << each for each in OPERATIONS[of] if self.allows(context, each, of, name))

    def cluster_operations(self, context: Context) -> int:
        """The same of the cluster; 0 for who may not describe it."""
        if not self.allows_cluster(context, Operation.DESCRIBE):
            return 0
        return self.operations(context, ResourceType.CLUSTER, CLUSTER_NAME)

    def require_cluster(self, context: Context, *any_of: Operation) -> None:
        """Raises ClusterOperationDenied unless one of the operations is allowed."""
        if not any(self.allows_cluster(context, each) for each in any_of):
            needed = " or ".join(each.name for each in any_of)
            raise ClusterOperationDenied(f"{context.principal} lacks {needed} on the cluster")

    def require_group(self, context: Context, operation: Operation, group_id: str) -> None:
        """Raises GroupAuthorizationFailed."""
        if not self.allows(context, operation, ResourceType.GROUP, group_id):
            raise GroupAuthorizationFailed(f"{context.principal} lacks {operation.name} on the group")

    def require_transactional_id(self, context: Context, operation: Operation, transactional_id: str) -> None:
        """Raises TransactionalIdAuthorizationFailed."""
        if not self.allows(context, operation, ResourceType.TRANSACTIONAL_ID, transactional_id):
            lacks = f"{context.principal} lacks {operation.name} on the transactional id"
            raise TransactionalIdAuthorizationFailed(lacks)

    def _known(self, context: Context) -> AclBook:
        book = self._book()
        if book is not None:
            return book
        if context.principal in self.rules.super_users:
            return _NO_ACLS
        raise CoordinatorLoadInProgress(_NOT_HERE)


_NO_ACLS: Final = AclBook()
_NOT_HERE: Final = "this node does not have the ACLs yet"
