"""The faults that are armed, where they are carried out: in the process of the proxies (testing/proxy.py).

Chosen    of several faults that fit a request the first that was armed counts.
State     (number, how often it fired, whether it is armed); numbers are from 1 on, and never used again.
"""

import asyncio
import contextlib
import itertools
import uuid
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, fields, is_dataclass
from typing import Any, Final

import msgspec

from fencepost.testing.cluster_failed import ClusterFailed

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

State = tuple[int, int, bool]


@dataclass(slots=True, eq=False, kw_only=True)
class Rule:
    """One fault. ``topic_id``: of the topic that ``match`` names, for requests that have the id."""

    number: int
    key: int
    action: str
    text: str
    match: Mapping[str, str]
    topic_id: str | None
    times: int | None
    ms: float
    code: int
    fired: int = 0
    is_cleared: bool = False

    @property
    def is_armed(self) -> bool:
        """It will fire for the next request that fits."""
        return not self.is_cleared and (self.times is None or self.fired < self.times)

    @property
    def state(self) -> State:
        """See above."""
        return self.number, self.fired, self.is_armed

    def fits(self, client_id: str | None, request: Any) -> bool:
        """Whether a decoded request is one of those."""
        if not self.match:
            return True
        said = {"client_id": {client_id}} | facts(request)
        if self.topic_id is not None and self.topic_id in said.get("topic", ()):
            said["topic"].add(self.match["topic"])
        return all(value in said.get(name, ()) for name, value in self.match.items())


class Armory:
    """Every fault since ``clear_all``. Used by one event loop."""

    def __init__(self) -> None:
        self._numbers = itertools.count(1)
        self._rules: dict[int, Rule] = {}
        self._armed: list[Rule] = []
        self._changed = asyncio.Event()

    def arm(self, **said: Any) -> int:
        """Returns the fault's number; for ``said`` see Rule."""
        rule = Rule(number=next(self._numbers), **said)
        self._rules[rule.number] = rule
        self._armed = [*self.armed(), rule]
        return rule.number

    def armed(self) -> list[Rule]:
        """Those that will fire."""
        return [each for each in self._armed if each.is_armed]

    def of_key(self, key: int) -> list[Rule]:
        """Those armed for an API key."""
        return [each for each in self._armed if each.key == key and each.is_armed]

    def fire(self, rule: Rule) -> None:
        """Count it."""
        rule.fired += 1
        self._changed.set()

    def state(self, number: int) -> State:
        """Raises ClusterFailed if there is none."""
        return self._rule(number).state

    def clear(self, number: int) -> None:
        """It fires no more. May be called again."""
        self._rule(number).is_cleared = True
        self._changed.set()

    def clear_all(self) -> list[State]:
        """No fault is armed any more, and all are forgotten; how they were before that."""
        states = [each.state for each in self._rules.values()]
        for each in self._rules.values():
            each.is_cleared = True
        self._rules.clear()
        self._armed = []
        self._changed.set()
        return states

    async def wait(self, number: int, count: int, timeout_s: float) -> State:
        """The state once it has fired so often or never will, or after the time."""
        rule = self._rule(number)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(timeout_s):
                while rule.fired < count and rule.is_armed:
                    self._changed.clear()
                    await self._changed.wait()
        return rule.state

    def _rule(self, number: int) -> Rule:
        if number not in self._rules:
            raise ClusterFailed(f"no fault has number {number}")
        return self._rules[number]


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
