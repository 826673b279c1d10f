"""Authorization: which principal may do what to the cluster.

With no ACL file every principal may do everything, as in Kafka without an authorizer. With one,
what is not allowed is denied; super users may do everything.
Source      Kafka StandardAuthorizer (deny by default), ``super.users``; rows 730.4.
"""

import enum
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from fencepost.controller.errors import ClusterAuthorizationFailed

ACLS_MAX: Final = 10_000  # lines in one file
ANONYMOUS: Final = "User:ANONYMOUS"


class Operation(enum.StrEnum):
    """Operations on the cluster resource that this project checks (Kafka AclOperation)."""

    CLUSTER_ACTION = "CLUSTER_ACTION"
    ALTER = "ALTER"
    CREATE = "CREATE"
    DELETE = "DELETE"
    DESCRIBE = "DESCRIBE"
    IDEMPOTENT_WRITE = "IDEMPOTENT_WRITE"
    TWO_PHASE_COMMIT = "TWO_PHASE_COMMIT"  # of any transactional id: Kafka's is of single ones


IMPLIED_BY: Final = {
    Operation.DESCRIBE: (Operation.ALTER, Operation.CLUSTER_ACTION),
    Operation.CREATE: (Operation.CLUSTER_ACTION,),
    Operation.DELETE: (Operation.CLUSTER_ACTION,),
}
"""What also allows an operation. Kafka: ALTER implies DESCRIBE. CLUSTER_ACTION implies what a broker
forwards for its clients in its own name: DescribeQuorum, CreateTopics, DeleteTopics."""


class AclSyntaxError(ValueError):
    """A line of the ACL file that cannot be read. Says the line, what came, what was expected."""


@dataclass(frozen=True, slots=True)
class Acls:
    """Allowed (principal, operation) pairs; ``allowed is None`` means no authorizer."""

    allowed: frozenset[tuple[str, Operation]] | None = None
    super_users: frozenset[str] = frozenset()

    @classmethod
    def parse(cls, text: str, super_users: Iterable[str] = ()) -> "Acls":
        """Read lines ``User:NAME OPERATION``; blank lines and ``#`` comments are skipped.

        Raises AclSyntaxError.
        """
        allowed: set[tuple[str, Operation]] = set()
        lines = text.splitlines()
        if len(lines) > ACLS_MAX:
            raise AclSyntaxError(f"{len(lines)} lines, at most {ACLS_MAX} are read")
        for number, line in enumerate(lines, start=1):
            words = line.partition("#")[0].split()
            if not words:
                continue
            known = ", ".join(Operation)
            if len(words) != 2 or not words[0].startswith("User:") or words[1] not in set(Operation):
                raise AclSyntaxError(
                    f"line {number}: expected 'User:NAME OPERATION', an operation of {known}; got {line!r}"
                )
            allowed.add((words[0], Operation(words[1])))
        return cls(frozenset(allowed), frozenset(super_users))

    def allows(self, principal: str, operation: Operation) -> bool:
        """Whether ``principal`` may do ``operation``."""
        if self.allowed is None or principal in self.super_users:
            return True
        implying = (operation, *IMPLIED_BY.get(operation, ()))
        return any((principal, each) in self.allowed for each in implying)

    def require(self, principal: str, operation: Operation) -> None:
        """Raises ClusterAuthorizationFailed unless ``principal`` may do ``operation``."""
        if not self.allows(principal, operation):
            raise ClusterAuthorizationFailed(principal=principal, operation=operation)
