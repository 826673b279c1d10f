"""Why a broker cannot go on: the refusals that no retry cures.

Source   KIP-730: an authorization failure is fatal (what Kafka shipped only logs it); row 730.8.
"""

from dataclasses import dataclass
from typing import Final

from fencepost.controller.errors import ApiError, ErrorCode

EXIT_FAILED: Final = 1
EXIT_UNAUTHORIZED: Final = 4


@dataclass(frozen=True, slots=True)
class ExitReason:
    """What the process says on stderr as it ends, and its exit code."""

    exit_code: int
    message: str


class BrokerRefused(Exception):
    """The cluster will not have this broker as it is configured. Ends the process."""

    def __init__(self, reason: ExitReason):
        super().__init__(reason.message)
        self.reason = reason


@dataclass(frozen=True, slots=True)
class Membership:
    """The cluster of this broker, and the principal with which it connects to the controllers."""

    principal: str  # "User:NAME", as the controllers' ACLs name it
    cluster_id: str

    def require_curable(self, error: ApiError, attempt: str) -> None:
        """Raises BrokerRefused if ``error``, the answer to ``attempt``, is not worth a retry.

        The refusal's own text does not travel on the wire, so it is said here what to configure.
        """
        if error.code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED:
            who = self.principal
            message = (
                f"the controllers refuse to {attempt}: principal {who} lacks CLUSTER_ACTION on the cluster; "
                f"add the line '{who} CLUSTER_ACTION' to the controllers' authorizer.acls.file, "
                f"or {who} to their super.users; where they have authorizer.class.name: fencepost acls add "
                f"--allow-principal {who} --operation ClusterAction --cluster"
            )
            raise BrokerRefused(ExitReason(EXIT_UNAUTHORIZED, message)) from error
        if error.code == ErrorCode.INCONSISTENT_CLUSTER_ID:
            message = (
                f"the controllers refuse to {attempt}: this broker's directory belongs to cluster "
                f"{self.cluster_id}, and they do not; set controller.quorum.bootstrap.servers to the "
                f"controllers of that cluster, or log.dirs to a directory formatted for theirs"
            )
            raise BrokerRefused(ExitReason(EXIT_FAILED, message)) from error
