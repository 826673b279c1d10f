"""Faults of single requests, armed by a test, carried out by the proxy before each node (testing/proxy.py).

``delay``         the request reaches the node later, and with it all that follows on its connection.
``fail``          the client is given the error, and the node never sees the request.
``drop_answer``   the node did it and answered; the client's connection is closed instead.
``disconnect``    the client's connection is closed, and the node never sees the request.

Chosen    by API (``"EndTxn"``), and by ``match``: client_id, transactional_id, group or topic (also in a
          request that has the topic's id). Of several that fit the first that was armed counts.
Times     None: until ``clear``, or to the end of its ``with`` block.
"""

import threading
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, fields, is_dataclass
from types import TracebackType
from typing import Any, Final, Literal

import msgspec

from fencepost.testing.cluster_failed import ClusterFailed
from fencepost.wire.dispatch import Api
from fencepost.wire.registry import APIS
from fencepost.wire.requests import ErrorCode

MATCHED: Final = ("client_id", "transactional_id", "group", "topic")
FIRE_S_MAX: Final = 30.0
_NAMES: Final = {
    "transactional_id": "transactional_id",
    "transactional_ids": "transactional_id",
    "group_id": "group",
    "group_ids": "group",
    "group": "group",
    "groups": "group",
    "topic": "topic",
    "topics": "topic",
    "topic_id": "topic",
    "name": "topic",
    "names": "topic",
}
"""Attributes of requests, and what their text is."""

Action = Literal["delay", "fail", "drop_answer", "disconnect"]


@dataclass(eq=False, kw_only=True)
class Fault:
    """One armed fault; a context manager that clears it. ``fired`` counts."""

    api: Api[Any, Any]
    action: Action
    match: Mapping[str, str]
    topic_id: str | None = None
    times: int | None = None
    ms: float = 0
    code: int = 0
    fired: int = 0
    _changed: threading.Condition = field(default_factory=threading.Condition)
    _cleared: bool = False

    def __str__(self) -> str:
        """As a test would write it."""
        detail = {"delay": f", {self.ms:g} ms", "fail": f", {self.code}"}.get(self.action, "")
        chosen = "".join(f", {name}={value!r}" for name, value in self.match.items())
        return f"{self.action}({self.api.name}{detail}{chosen}), fired {self.fired} times"

    def __enter__(self) -> "Fault":
        """It was armed when it was made."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Clear it."""
        self.clear()

    @property
    def is_armed(self) -> bool:
        """It will fire for the next request that fits."""
        return not self._cleared and (self.times is None or self.fired < self.times)

    def clear(self) -> None:
        """It fires no more. May be called again."""
        self._cleared = True

    def wait_fired(self, count: int = 1, *, timeout_s: float = FIRE_S_MAX) -> None:
        """Wait until it has fired so often. Raises ClusterFailed."""
        with self._changed:
            if not self._changed.wait_for(lambda: self.fired >= count, timeout_s):
                raise ClusterFailed(f"after {timeout_s:g} s not {count} times: {self}")

    def fits(self, client_id: str | None, request: Any) -> bool:
        """Whether a decoded request is one of those."""
        if not self.match:
            return True
        said = {"client_id": {client_id}} | facts(request)
        if self.topic_id is not None and self.topic_id in said.get("topic", ()):
            said["topic"].add(self.match["topic"])
        return all(value in said.get(name, ()) for name, value in self.match.items())

    def fire(self) -> bool:
        """Count it. False: it is not armed any more."""
        with self._changed:
            if not self.is_armed:
                return False
            self.fired += 1
            self._changed.notify_all()
            return True


class Faults:
    """``cluster.faults``. Each method arms a fault and returns it; ``times`` is None for ever."""

    def __init__(self) -> None:
        self.topic_id: Callable[[str], uuid.UUID | None] = lambda _name: None
        self._all: list[Fault] = []

    def delay(
        self, api: str, ms: float, *, match: Mapping[str, str] | None = None, times: int | None = None
    ) -> Fault:
        """The request reaches the node ``ms`` milliseconds later."""
        return self._arm(api, "delay", match, times, ms=ms)

    def fail(
        self,
        api: str,
        code: int | str,
        *,
        match: Mapping[str, str] | None = None,
        times: int | None = None,
    ) -> Fault:
        """The client is answered with this error (Kafka's number or name), and nothing is done."""
        number = _number_of(code) if isinstance(code, str) else int(code)
        return self._arm(api, "fail", match, times, code=number)

    def drop_answer(
        self, api: str, *, match: Mapping[str, str] | None = None, times: int | None = None
    ) -> Fault:
        """The request is done, and its client never learns it: its connection is closed."""
        return self._arm(api, "drop_answer", match, times)

    def disconnect(
        self, api: str, *, match: Mapping[str, str] | None = None, times: int | None = None
    ) -> Fault:
        """The client's connection is closed, and nothing is done."""
        return self._arm(api, "disconnect", match, times)

    def clear(self) -> list[Fault]:
        """No fault is armed any more; returns those that were."""
        armed = [each for each in self._all if each.is_armed]
        for each in armed:
            each.clear()
        self._all = []
        return armed

    def of_key(self, key: int) -> list[Fault]:
        """Those armed for an API key."""
        return [each for each in self._all if each.api.key == key and each.is_armed]

    def _arm(
        self,
        api: str,
        action: Action,
        match: Mapping[str, str] | None,
        times: int | None,
        *,
        ms: float = 0,
        code: int = 0,
    ) -> Fault:
        unknown = sorted(set(match or {}) - set(MATCHED))
        if unknown:
            raise ClusterFailed(f"match has no {', '.join(unknown)}; it has {', '.join(MATCHED)}")
        if times is not None and times < 1:
            raise ClusterFailed(f"times: expected 1 or more, or None, got {times}")
        fault = Fault(api=_api_of(api), action=action, match=dict(match or {}), times=times, ms=ms, code=code)
        self._all = [*(each for each in self._all if each.is_armed), fault]
        return fault


def facts(request: Any) -> dict[str, set[str | None]]:
    """What a decoded request says of transactional ids, groups and topics."""
    found: dict[str, set[str | None]] = {}
    for what, text in _walk(request, None):
        found.setdefault(what, set()).add(text)
    return found


def _walk(value: Any, what: str | None) -> Iterator[tuple[str, str]]:
    if isinstance(value, str | uuid.UUID):
        if what is not None:
            yield what, str(value)
    elif isinstance(value, bytes | bytearray | memoryview | int | float | None):
        return
    elif names := _fields(value):
        for name in names:
            yield from _walk(getattr(value, name), _NAMES.get(name, what))
    elif isinstance(value, Mapping):
        yield from _walk((*value.keys(), *value.values()), what)
    elif isinstance(value, Iterable):
        for each in value:
            yield from _walk(each, what)


def _fields(value: Any) -> tuple[str, ...]:
    if isinstance(value, msgspec.Struct):
        return value.__struct_fields__
    if is_dataclass(value):
        return tuple(each.name for each in fields(value))
    return tuple(getattr(value, "_fields", ()))


def _api_of(name: str) -> Api[Any, Any]:
    for api in APIS.values():
        if api.name == name:
            return api
    raise ClusterFailed(
        f"no API is named {name!r}; known are {', '.join(each.name for each in APIS.values())}"
    )


def _number_of(name: str) -> int:
    try:
        return int(ErrorCode[name])
    except KeyError:
        raise ClusterFailed(f"no error is named {name!r}; give Kafka's name, or its number") from None
