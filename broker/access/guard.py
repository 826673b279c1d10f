"""A guard: in the place of a request's endpoint it refuses, or calls the endpoint with what is allowed.

Rows        of a request about several resources those that are not allowed are taken out and answered with
            their code; if none is left, the endpoint is not called.
"""

from collections.abc import Callable
from typing import Any, TypeAlias

from fencepost.broker.access.door import Door
from fencepost.controller.acl_types import Operation, ResourceType
from fencepost.controller.errors import ApiError
from fencepost.wire.dispatch import Context, Endpoint, Reply, Then

Guard: TypeAlias = Callable[[Door, Endpoint[Any, Any], Any, Context, Reply[Any]], None]
"""(door, endpoint, request, context, reply). May raise ApiError, as an endpoint may."""

Sure: TypeAlias = Callable[[Door, Any, Context], bool]
"""(door, request, context): the guard would call the endpoint with the request as it is, and deny nothing."""


def split(
    rows: tuple[Any, ...], is_allowed: Callable[[Any], bool]
) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
    """The rows that are allowed, and the others. A resource that is named again is not looked up again."""
    verdicts = [is_allowed(each) for each in rows]
    if all(verdicts):
        return rows, ()
    allowed = tuple(each for each, is_one in zip(rows, verdicts, strict=True) if is_one)
    return allowed, tuple(each for each, is_one in zip(rows, verdicts, strict=True) if not is_one)


def remembered(
    door: Door, context: Context, operation: Operation, of: ResourceType = ResourceType.TOPIC
) -> Callable[[str], bool]:
    """``door.allows`` by the name of a resource, once for each name."""
    known: dict[str, bool] = {}

    def allows(name: str) -> bool:
        found = known.get(name)
        if found is None:
            found = known[name] = door.allows(context, operation, of, name)
        return found

    return allows


def mapped(reply: Reply[Any], change: Callable[[Any], Any]) -> Reply[Any]:
    """A reply that gets what ``change`` makes of a response, or its refusal; an error is passed on.

    ``change`` may refuse: the ACLs that decided when the request came may be in doubt when it is answered.
    """

    def answer(outcome: Any, throttle_ms: int) -> None:
        if not isinstance(outcome, ApiError):
            try:
                outcome = change(outcome)
            except ApiError as refusal:
                outcome = refusal
        reply(outcome, throttle_ms)

    return Then(answer, reply)


def nothing_sure(_door: Door, _request: Any, _context: Context) -> bool:
    """Of a key whose guard does more than to allow a request as it is."""
    return False


def at_once(guard: Guard, is_allowed: Sure = nothing_sure) -> Guard:
    """Call the endpoint without the guard where all is allowed, to a super user or by ACLs: as mostly.

    Not for a request whose answer shows what is allowed, nor for one whose decisions are in the audit trail.
    """

    def of_principal(
        door: Door, endpoint: Endpoint[Any, Any], request: Any, context: Context, reply: Reply[Any]
    ) -> None:
        if context.principal in door.rules.super_users or is_allowed(door, request, context):
            endpoint(request, context, reply)
        else:
            guard(door, endpoint, request, context, reply)

    return of_principal


def once_known(guard: Guard) -> Guard:
    """Where the ACLs are not here yet the request is parked, and decided when they are.

    What fails then has no connection around it any more: that is closed here.
    """

    def of_request(
        door: Door, endpoint: Endpoint[Any, Any], request: Any, context: Context, reply: Reply[Any]
    ) -> None:
        def decide() -> None:
            try:
                guard(door, endpoint, request, context, reply)
            except ApiError as refusal:
                reply(refusal)
            except Exception as error:  # re-raised: the client finds out before the loop's handler has it
                reply.close(f"a request that waited for the ACLs failed: {error!r}")
                raise

        if not door.is_parked(context, decide):
            guard(door, endpoint, request, context, reply)

    return of_request


def for_brokers(guard: Guard) -> Guard:
    """On the controller listener: a broker has checked its client, and CLUSTER_ACTION is what lets it ask."""

    def of_broker(
        door: Door, endpoint: Endpoint[Any, Any], request: Any, context: Context, reply: Reply[Any]
    ) -> None:
        if door.allows_cluster(context, Operation.CLUSTER_ACTION):
            endpoint(request, context, reply)
        else:
            guard(door, endpoint, request, context, reply)

    return of_broker
