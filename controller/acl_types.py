"""What an ACL is: who may, or may not, do what to which resources. The numbers are Kafka's.

Source   Kafka ResourceType, PatternType, AclOperation, AclPermissionType, AclBinding, AclBindingFilter.
"""

import enum
import hashlib
from typing import Final
from uuid import UUID

import msgspec

WILDCARD: Final = "*"
EVERYONE: Final = "User:*"
CLUSTER_NAME: Final = "kafka-cluster"
UNKNOWN: Final = 0
ANY: Final = 1


class ResourceType(enum.IntEnum):
    """What an ACL is about."""

    TOPIC = 2
    GROUP = 3
    CLUSTER = 4
    TRANSACTIONAL_ID = 5
    DELEGATION_TOKEN = 6
    USER = 7


class PatternType(enum.IntEnum):
    """How the name of an ACL is compared. ``MATCH`` is of filters alone: what applies to a resource."""

    MATCH = 2
    LITERAL = 3
    PREFIXED = 4


class Operation(enum.IntEnum):
    """What is done to a resource."""

    ALL = 2
    READ = 3
    WRITE = 4
    CREATE = 5
    DELETE = 6
    ALTER = 7
    DESCRIBE = 8
    CLUSTER_ACTION = 9
    DESCRIBE_CONFIGS = 10
    ALTER_CONFIGS = 11
    IDEMPOTENT_WRITE = 12
    CREATE_TOKENS = 13
    DESCRIBE_TOKENS = 14
    TWO_PHASE_COMMIT = 15


class Permission(enum.IntEnum):
    """Whether an ACL allows or denies."""

    DENY = 2
    ALLOW = 3


IMPLIED_BY: Final = {
    Operation.DESCRIBE: (Operation.READ, Operation.WRITE, Operation.DELETE, Operation.ALTER),
    Operation.DESCRIBE_CONFIGS: (Operation.ALTER_CONFIGS,),
}
"""What else allows an operation, beside itself and ALL. Nothing but itself and ALL denies it."""


class Acl(msgspec.Struct, frozen=True):
    """One ACL. ``principal`` is ``TYPE:NAME`` or EVERYONE, ``host`` an address or WILDCARD."""

    resource_type: int
    pattern_type: int
    name: str
    principal: str
    host: str
    operation: int
    permission: int

    @property
    def acl_id(self) -> UUID:
        """The id of this ACL, which its content alone makes: one that is there is found by it.

        Kafka's are random. The first 128 bits of a SHA-256 are as good: none is ever met twice.
        """
        return UUID(bytes=hashlib.sha256(_ENCODER.encode(self)).digest()[:16])


_ENCODER: Final = msgspec.msgpack.Encoder()


class AclFilter(msgspec.Struct, frozen=True):
    """Which ACLs: None and ANY match everything."""

    resource_type: int = ANY
    name: str | None = None
    pattern_type: int = ANY
    principal: str | None = None
    host: str | None = None
    operation: int = ANY
    permission: int = ANY

    def matches(self, acl: Acl) -> bool:
        """As Kafka's AclBindingFilter.matches."""
        return (
            self.resource_type in (ANY, acl.resource_type)
            and self._matches_name(acl)
            and self.principal in (None, acl.principal)
            and self.host in (None, acl.host)
            and self.operation in (ANY, acl.operation)
            and self.permission in (ANY, acl.permission)
        )

    def _matches_name(self, acl: Acl) -> bool:
        pattern, name = self.pattern_type, self.name
        if pattern not in (ANY, PatternType.MATCH, acl.pattern_type):
            return False
        if name is None or name == acl.name:
            return True
        if pattern != PatternType.MATCH:
            return False
        if acl.pattern_type == PatternType.PREFIXED:
            return name.startswith(acl.name)
        return acl.name == WILDCARD


class CreateAcls(msgspec.Struct, frozen=True):
    """API key 30: ACLs to add. One that is there already is no error."""

    acls: tuple[Acl, ...]


class AclResult(msgspec.Struct, frozen=True):
    """What became of one ACL, or of one filter: an error, or none."""

    error_code: int = 0
    error_message: str | None = None


class CreateAclsAnswer(msgspec.Struct, frozen=True):
    """The result for each ACL in the request, in its order."""

    results: tuple[AclResult, ...]


class DeleteAcls(msgspec.Struct, frozen=True):
    """API key 31: ACLs to remove are those that match one of the filters."""

    filters: tuple[AclFilter, ...]


class AclsDeleted(msgspec.Struct, frozen=True):
    """What one filter removed, or why it removed nothing."""

    acls: tuple[Acl, ...] = ()
    error_code: int = 0
    error_message: str | None = None


class DeleteAclsAnswer(msgspec.Struct, frozen=True):
    """The result for each filter in the request, in its order."""

    results: tuple[AclsDeleted, ...]


class DescribeAclsAnswer(msgspec.Struct, frozen=True):
    """API key 29: the ACLs that match, ordered by resource."""

    acls: tuple[Acl, ...]
