"""A door with these ACLs, and endpoints behind it that answer with what a test gives."""

import uuid
from collections.abc import Callable, Iterable
from typing import Any

from fencepost.broker.access.door import AuthorizerRules, Door
from fencepost.broker.access.needs import guarded
from fencepost.broker.access.trail import Trail
from fencepost.controller.acl_book import AclBook
from fencepost.controller.acl_types import (
    CLUSTER_NAME,
    Acl,
    Operation,
    PatternType,
    Permission,
    ResourceType,
)
from fencepost.controller.errors import ApiError
from fencepost.wire.dispatch import BROKER, Api, Context, ListenerKind, Reply
from fencepost.wire.registry import APIS

ALICE, ROOT, HOST = "User:alice", "User:root", "10.0.0.1"
TOPIC_ID = uuid.UUID(int=7)


def allow(operation: Operation, of: ResourceType, name: str = "*", **other: Any) -> Acl:
    name = CLUSTER_NAME if of == ResourceType.CLUSTER else name
    pattern = other.get("pattern", PatternType.LITERAL)
    permission = other.get("permission", Permission.ALLOW)
    return Acl(
        of, pattern, name, other.get("principal", ALICE), other.get("host", "*"), operation, permission
    )


def book_of(acls: Iterable[Acl]) -> AclBook:
    book, each = AclBook(), tuple(acls)
    book.load(((acl.acl_id, acl) for acl in each), len(each))
    return book


class Asked:
    """What came of one request: what its endpoint was given, and the answer."""

    def __init__(
        self,
        acls: Iterable[Acl],
        api: Api[Any, Any],
        request: Any,
        response: Any = None,
        *,
        principal: str = ALICE,
        kind: ListenerKind = BROKER,
        creates_topics: bool = True,
        names: dict[uuid.UUID, str] | None = None,
        topics: Iterable[str] = ("orders",),
        host: str = HOST,
        trail: Trail | None = None,
        super_user: str = ROOT,
        is_known: bool = True,
    ) -> None:
        self.given: list[Any] = []
        self.outcome: Any = None
        self.book = book_of(acls)
        self.is_known = is_known
        self.parked: list[Callable[[], None]] = []
        self.parked_max = 1
        self.names = names
        self._response = response
        self._unanswered: list[Reply[Any]] = []
        door = Door(
            AuthorizerRules(frozenset((super_user,)), False, creates_topics),
            lambda: self.book if self.is_known else None,
            topic_name=lambda topic_id: "orders" if self.names is None else self.names.get(topic_id),
            has_topic=lambda name: name in topics,
            park=self._park,
            trail=trail,
        )
        service = guarded({api.key: (APIS[api.key], self._endpoint)}, door, kind)
        try:
            service[api.key][1](request, Context(principal, "X", None, f"{host}:40000"), self)
        except ApiError as refusal:
            self.outcome = refusal

    def _park(self, then: Callable[[], None]) -> bool:
        if len(self.parked) >= self.parked_max:
            return False
        self.parked.append(then)
        return True

    def _endpoint(self, request: Any, context: Context, reply: Reply[Any]) -> None:
        self.given.append(request)
        if callable(self._response):
            reply(self._response(request))
        elif self._response is None:
            self._unanswered.append(reply)
        else:
            reply(self._response)

    def answer(self, response: Any) -> None:
        """What the parked request's endpoint answers."""
        self._unanswered.pop(0)(response)

    def __call__(self, outcome: Any, _throttle_ms: int = 0, /) -> None:
        assert self.outcome is None, "it is answered twice"
        self.outcome = outcome

    def close(self, reason: str, /) -> None:
        raise AssertionError(reason)
