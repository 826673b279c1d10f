"""What is answered otherwise than by Apache Kafka, and why: docs/authorization.md has the same sentences."""

from collections.abc import Callable
from typing import Final, NamedTuple

from fencepost.broker.access.needs import ROWS
from fencepost.controller.acl_types import Operation
from fencepost.wire.dispatch import CONTROLLER
from tests.rights.answers import Seen, key_of
from tests.rights.page import G, T, X

Case = tuple[str, str]
"""(request, state)."""
CLUSTER_ACTION: Final = "CLUSTER_ACTION on CLUSTER"


class Reason(NamedTuple):
    """``is_of``: (request, state, Kafka's, ours) is such a case."""

    text: str
    is_of: Callable[[str, str, Seen, Seen], bool]


def _is_silence(request: str, _state: str, kafka: Seen, ours: Seen) -> bool:
    return key_of(request) == 50 and kafka == Seen(names=("RequestTimeout",)) and ours == Seen((31,))


def _is_forwarded(request: str, state: str, kafka: Seen, ours: Seen) -> bool:
    may = (
        state.startswith((CLUSTER_ACTION, "everything but ")) and state != f"everything but {CLUSTER_ACTION}"
    )
    is_one = request.startswith(CONTROLLER) and ROWS[key_of(request)].forwarded
    return is_one and may and bool(kafka.codes) and not ours.codes


def _is_controllers_cluster(request: str, _state: str, kafka: Seen, ours: Seen) -> bool:
    return request.startswith(f"{CONTROLLER} 60 ") and kafka == Seen((31,)) and not ours.codes


REASONS: Final = (
    Reason(
        "DescribeUserScramCredentials of all users is not answered by Kafka where DESCRIBE on the cluster "
        "is missing; here it is answered with 31.",
        _is_silence,
    ),
    Reason(
        "On the controllers' listener CLUSTER_ACTION lets a broker do what it forwards (*f*).",
        _is_forwarded,
    ),
    Reason(
        "DescribeCluster of controllers, on their listener, needs ALTER on the cluster at Kafka; here it "
        "needs nothing, as brokers and commands find the active controller by it, at whichever controller "
        "answers: one that is behind has not seen the ACLs yet that let a broker in, and must still name the "
        "leader.",
        _is_controllers_cluster,
    ),
)

NOT_SHOWN: Final = {
    (19, Operation.DESCRIBE_CONFIGS, T): "the topic is not created, so it has no settings",
    (22, Operation.TWO_PHASE_COMMIT, X): "Kafka 4.1.1 has no version 6 of InitProducerId",
    (22, Operation.READ, G): "KIP-447's member of a group: ours alone",
}
"""Rows of the page that Kafka's answers say nothing of."""


def without_reason(differing: dict[Case, tuple[Seen, Seen]]) -> list[str]:
    """In words."""
    return [
        f"{request}, {state}: Kafka {kafka}; ours {ours}"
        for (request, state), (kafka, ours) in differing.items()
        if not any(reason.is_of(request, state, kafka, ours) for reason in REASONS)
    ]
