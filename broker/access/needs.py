"""What each API key needs: one table, for both listeners. A key without a row is never served.

Operation   what a principal needs, on which resource; the guard says where it differs for parts of a request.
Code        of the refusal. It stands at the resource where the answer has a place for it.
Source      Kafka KafkaApis and ControllerApis of 4.1, which are right where the documentation differs.
"""

from collections.abc import Mapping
from functools import partial
from typing import Any, Final, NamedTuple

from fencepost.broker.access import cluster, data, explanations, groups, topics, transactions
from fencepost.broker.access.audited import ADMINISTRATIVE, audited
from fencepost.broker.access.door import Door
from fencepost.broker.access.guard import Guard, Sure, at_once, for_brokers, nothing_sure, once_known
from fencepost.broker.access.unguarded import SHOWN
from fencepost.controller.acl_types import Operation, ResourceType
from fencepost.controller.errors import ErrorCode
from fencepost.records.invariant import InvariantViolation
from fencepost.wire.dispatch import CONTROLLER, Api, Endpoint, ListenerKind, Service

_TOPIC, _GROUP, _CLUSTER, _ID = (
    ResourceType.TOPIC,
    ResourceType.GROUP,
    ResourceType.CLUSTER,
    ResourceType.TRANSACTIONAL_ID,
)
_CODES: Final = {
    _TOPIC: ErrorCode.TOPIC_AUTHORIZATION_FAILED,
    _GROUP: ErrorCode.GROUP_AUTHORIZATION_FAILED,
    _CLUSTER: ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
    _ID: ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
}


class Need(NamedTuple):
    """One operation on one type of resource. ``note``: when, if not always."""

    operation: Operation
    of: ResourceType
    note: str = ""

    @property
    def code(self) -> ErrorCode:
        """What the client is answered where it is missing."""
        return _CODES[self.of]


class Row(NamedTuple):
    """One API key. ``forwarded``: brokers send it to the controller, for clients whom they have checked.

    ``is_allowed``: of the keys of each transaction.
    """

    guard: Guard
    needs: tuple[Need, ...]
    forwarded: bool = False
    is_allowed: Sure = nothing_sure


def _cluster(*any_of: Operation, forwarded: bool = False) -> Row:
    note = "one of them" if len(any_of) > 1 else ""
    return Row(cluster.needs(*any_of), tuple(Need(each, _CLUSTER, note) for each in any_of), forwarded)


_OP: Final = Operation
_MEMBER: Final = Row(groups.needs(_OP.READ), (Need(_OP.READ, _GROUP),))
_COMMIT: Final = (Need(_OP.READ, _GROUP), Need(_OP.READ, _TOPIC))
_TRANSACTIONAL: Final = Need(_OP.WRITE, _ID)

_ALTERED: Final = Row(
    topics.alter_configs,
    (
        Need(_OP.ALTER_CONFIGS, _TOPIC, "of a topic"),
        Need(_OP.ALTER_CONFIGS, _GROUP, "of a group"),
        Need(_OP.ALTER_CONFIGS, _CLUSTER, "of a broker"),
    ),
    forwarded=True,
)

ROWS: Final[Mapping[int, Row]] = {
    0: Row(
        data.produce,
        (Need(_OP.WRITE, _ID, "if it names one"), Need(_OP.WRITE, _TOPIC)),
        is_allowed=data.may_produce,
    ),
    1: Row(
        data.fetch,
        (Need(_OP.READ, _TOPIC), Need(_OP.CLUSTER_ACTION, _CLUSTER, "of a follower, in its place")),
    ),
    2: Row(data.list_offsets, (Need(_OP.DESCRIBE, _TOPIC),)),
    3: Row(
        topics.metadata,
        (
            Need(_OP.DESCRIBE, _TOPIC),
            Need(_OP.CREATE, _CLUSTER, "to create a topic so; or the next"),
            Need(_OP.CREATE, _TOPIC, "to create a topic so"),
        ),
        forwarded=True,
    ),
    8: Row(groups.commit, _COMMIT),
    9: Row(groups.fetch_offsets, (Need(_OP.DESCRIBE, _GROUP), Need(_OP.DESCRIBE, _TOPIC))),
    10: Row(
        transactions.find_coordinator,
        (Need(_OP.DESCRIBE, _GROUP, "of a group"), Need(_OP.DESCRIBE, _ID, "of a transactional id")),
    ),
    11: _MEMBER,
    12: _MEMBER,
    13: _MEMBER,
    14: _MEMBER,
    15: Row(groups.describe, (Need(_OP.DESCRIBE, _GROUP),)),
    16: Row(
        groups.list_,
        (Need(_OP.DESCRIBE, _CLUSTER, "shows all groups"), Need(_OP.DESCRIBE, _GROUP, "shows the group")),
    ),
    19: Row(
        topics.create,
        (
            Need(_OP.CREATE, _CLUSTER, "or the next"),
            Need(_OP.CREATE, _TOPIC),
            Need(_OP.DESCRIBE_CONFIGS, _TOPIC, "to see its settings"),
        ),
        forwarded=True,
    ),
    20: Row(
        topics.delete,
        (
            Need(_OP.DELETE, _CLUSTER, "or the next"),
            Need(_OP.DELETE, _TOPIC),
            Need(_OP.DESCRIBE, _TOPIC, "to see its name"),
        ),
        forwarded=True,
    ),
    21: Row(data.delete_records, (Need(_OP.DELETE, _TOPIC),)),
    22: Row(
        transactions.init_producer_id,
        (
            Need(_OP.WRITE, _ID, "of a transactional id"),
            Need(_OP.TWO_PHASE_COMMIT, _ID, "for two-phase commit"),
            Need(_OP.IDEMPOTENT_WRITE, _CLUSTER, "without an id; or the next"),
            Need(_OP.WRITE, _TOPIC, "without an id, on any topic"),
            Need(_OP.READ, _GROUP, "if it is group-aware"),
        ),
    ),
    23: Row(
        data.offset_for_leader_epoch,
        (Need(_OP.DESCRIBE, _TOPIC), Need(_OP.CLUSTER_ACTION, _CLUSTER, "in its place")),
    ),
    24: Row(
        transactions.add_partitions,
        (
            _TRANSACTIONAL,
            Need(_OP.WRITE, _TOPIC),
            Need(_OP.CLUSTER_ACTION, _CLUSTER, "versions 4 and 5, alone"),
        ),
        is_allowed=transactions.may_add_partitions,
    ),
    25: Row(transactions.add_offsets, (_TRANSACTIONAL, Need(_OP.READ, _GROUP))),
    26: Row(transactions.needs(_OP.WRITE), (_TRANSACTIONAL,), is_allowed=transactions.may_write),
    27: _cluster(_OP.CLUSTER_ACTION, _OP.ALTER),
    28: Row(groups.commit, (_TRANSACTIONAL, *_COMMIT)),
    29: _cluster(_OP.DESCRIBE, forwarded=True),
    30: _cluster(_OP.ALTER, forwarded=True),
    31: _cluster(_OP.ALTER, forwarded=True),
    32: Row(
        topics.describe_configs,
        (
            Need(_OP.DESCRIBE_CONFIGS, _TOPIC, "of a topic"),
            Need(_OP.DESCRIBE_CONFIGS, _GROUP, "of a group"),
            Need(_OP.DESCRIBE_CONFIGS, _CLUSTER, "of a broker"),
        ),
        forwarded=True,
    ),
    33: _ALTERED,
    35: _cluster(_OP.DESCRIBE),
    37: Row(topics.create_partitions, (Need(_OP.ALTER, _TOPIC),), forwarded=True),
    42: Row(groups.delete, (Need(_OP.DELETE, _GROUP),)),
    43: _cluster(_OP.ALTER),
    44: _ALTERED,
    46: _cluster(_OP.DESCRIBE),
    47: Row(groups.delete_offsets, (Need(_OP.DELETE, _GROUP), Need(_OP.READ, _TOPIC))),
    48: _cluster(_OP.DESCRIBE_CONFIGS),
    50: _cluster(_OP.DESCRIBE, forwarded=True),
    51: _cluster(_OP.ALTER, forwarded=True),
    55: _cluster(_OP.DESCRIBE, forwarded=True),
    57: _cluster(_OP.ALTER, forwarded=True),
    60: Row(cluster.describe_cluster, ()),
    61: Row(data.describe_producers, (Need(_OP.READ, _TOPIC),)),
    62: _cluster(_OP.CLUSTER_ACTION),
    63: _cluster(_OP.CLUSTER_ACTION),
    64: _cluster(_OP.ALTER, forwarded=True),
    65: Row(
        transactions.describe,
        (Need(_OP.DESCRIBE, _ID), Need(_OP.DESCRIBE, _TOPIC, "to see that it is in the transaction")),
        forwarded=True,
    ),
    66: Row(transactions.list_, (Need(_OP.DESCRIBE, _ID, "shows the transactional id"),), forwarded=True),
    67: _cluster(_OP.CLUSTER_ACTION),
    74: _cluster(_OP.DESCRIBE_CONFIGS),
    75: Row(topics.describe_partitions, (Need(_OP.DESCRIBE, _TOPIC),)),
    20021: Row(
        cluster.needs_by(cluster.migrate),
        (Need(_OP.DESCRIBE, _CLUSTER, "for its status"), Need(_OP.ALTER, _CLUSTER, "else")),
    ),
    20024: _cluster(_OP.CLUSTER_ACTION),
    20027: _cluster(_OP.ALTER),
    20029: _cluster(_OP.CLUSTER_ACTION),
    20043: _cluster(_OP.ALTER),
    20051: _cluster(_OP.CLUSTER_ACTION),
    20055: _cluster(_OP.ALTER),
    20057: Row(
        cluster.needs_by(cluster.log_levels),
        (Need(_OP.DESCRIBE, _CLUSTER, "to see it"), Need(_OP.ALTER, _CLUSTER, "to raise it")),
    ),
    20065: Row(
        explanations.explain,
        (
            Need(_OP.DESCRIBE, _ID),
            Need(_OP.DESCRIBE, _TOPIC, "to see that it is in the transaction"),
            Need(_OP.DESCRIBE, _GROUP, "to see its offsets in the transaction"),
        ),
    ),
    20066: _cluster(_OP.DESCRIBE),
}
"""By API key, those of ``listener.OWN_KEYS`` aside: they come before a principal is known."""

ALTERNATIVES: Final = frozenset(
    (
        "or the next",
        "to create a topic so; or the next",
        "without an id; or the next",
        "in its place",
        "one of them",
        "shows all groups",
        "to see its settings",
    )
)
"""Notes of what another right stands for: where it alone is missing, nothing was denied."""


def guarded(service: Service, door: Door, kind: ListenerKind) -> Service:
    """The service with a guard before each endpoint. A key without a row is our bug: it is not served."""
    return {key: (api, _guarded(api, endpoint, door, kind)) for key, (api, endpoint) in service.items()}


def _guarded(
    api: Api[Any, Any], endpoint: Endpoint[Any, Any], door: Door, kind: ListenerKind
) -> Endpoint[Any, Any]:
    row = ROWS.get(api.key)
    if row is None:
        raise InvariantViolation(f"no row in broker/access/needs.py says what {api.name} ({api.key}) needs")
    guard = for_brokers(row.guard) if row.forwarded and kind == CONTROLLER else row.guard
    if door.trail is not None:
        required = frozenset((each.operation, each.of) for each in row.needs if each.note not in ALTERNATIVES)
        guard = audited(guard, door.trail, api.key, api.name, required)
    guard = once_known(guard)
    if api.key not in ADMINISTRATIVE and api.key not in SHOWN:
        guard = at_once(guard, row.is_allowed)
    return partial(guard, door, endpoint)
