"""A guard whose decisions are in the audit trail (trail.py).

Noted       what the ACLs answered until the endpoint is called: what an answer leaves out was not requested.
Not denied  what another right stands for: CREATE on the cluster, where CREATE on the topic is enough.
Changes     the requests of ADMINISTRATIVE, by what was allowed and is no DESCRIBE. What brokers forward is in
            the trail twice: in the client's name at its broker, and in the broker's at the controller.
"""

from typing import Any, Final

from fencepost.broker.access.door import Door
from fencepost.broker.access.guard import Guard
from fencepost.broker.access.trail import Act, Noted, Trail
from fencepost.controller.acl_errors import ClusterOperationDenied
from fencepost.controller.acl_types import Operation, ResourceType
from fencepost.wire.dispatch import Context, Endpoint, Reply

ADMINISTRATIVE: Final = frozenset(
    (19, 20, 21, 30, 31, 33, 37, 42, 43, 44, 47, 51, 57, 64, 20021, 20027, 20043, 20055, 20057)
)
"""Keys of requests that change topics, settings, groups, ACLs, users, features or brokers."""

_CHANGES: Final = frozenset(
    (Operation.CREATE, Operation.DELETE, Operation.ALTER, Operation.ALTER_CONFIGS, Operation.CLUSTER_ACTION)
)


def audited(guard: Guard, trail: Trail, key: int, name: str, required: frozenset[tuple[int, int]]) -> Guard:
    """``required``: the (operation, type of resource) that no other right stands for."""
    is_administrative = key in ADMINISTRATIVE

    def of_request(
        door: Door, endpoint: Endpoint[Any, Any], request: Any, context: Context, reply: Reply[Any]
    ) -> None:
        def begun(request: Any, context: Context, reply: Reply[Any]) -> None:
            noted, door.noted = door.noted, None
            if noted:
                _write(trail, noted, context, name, required)
            endpoint(request, context, reply)

        door.noted, door.notes_all = [], is_administrative
        needed: frozenset[tuple[int, int]] | None = required
        try:
            guard(door, begun, request, context, reply)
        except ClusterOperationDenied:
            needed = None
            raise
        finally:
            noted, door.noted = door.noted, None
            if noted:
                _write(trail, noted, context, name, needed)

    return of_request


def _write(
    trail: Trail, noted: list[Noted], context: Context, name: str, required: frozenset[tuple[int, int]] | None
) -> None:
    """``required`` None: what is denied on the cluster is why the request is refused."""
    for operation, of, resource, is_allowed in noted:
        act = Act(context.principal, context.host, name, operation, of, resource)
        if is_allowed:
            if operation in _CHANGES:
                trail.administered(act)
        elif of != ResourceType.CLUSTER or required is None or (operation, of) in required:
            trail.denied(act)
