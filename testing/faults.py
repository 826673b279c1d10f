"""Faults of single requests, armed by a test, carried out by the proxy before each node (testing/proxy.py).

``delay``         the request reaches the node later, and with it all that follows on its connection.
``fail``          the client is given the error, and the node never sees the request.
``drop_answer``   the node did it and answered; the client's connection is closed instead.
``disconnect``    the client's connection is closed, and the node never sees the request.

Chosen    by API (``"EndTxn"``), and by ``match``: client_id, transactional_id, group or topic (also in a
          request that has the topic's id). Of several that fit the first that was armed counts.
Times     None: until ``clear``, or to the end of its ``with`` block.
Where     the proxies are a process of their own (testing/proxies.py): what is armed is in force on return,
          and each method and property here asks that process. Once all are cleared, what is known stays.
"""

import threading
import uuid
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from types import TracebackType
from typing import Any, Final, Literal, Protocol

from fencepost.testing.armory import State
from fencepost.testing.cluster_failed import ClusterFailed
from fencepost.wire.dispatch import Api
from fencepost.wire.registry import APIS
from fencepost.wire.requests import ErrorCode

__tracebackhide__ = True  # as in lease.py

MATCHED: Final = ("client_id", "transactional_id", "group", "topic")
FIRE_S_MAX: Final = 30.0
WAIT_S_MAX: Final = 86_400.0
DELAY_MS_MAX: Final = 3_600_000.0
CODE_MAX: Final = 199
"""Above Kafka's: they end at 133 in 4.1."""

Action = Literal["delay", "fail", "drop_answer", "disconnect"]


class Ask(Protocol):
    """A question to the process of the proxies. Raises ClusterFailed."""

    def __call__(self, verb: str, *, waits_s: float = 0, **words: object) -> Any:
        """``waits_s``: how long it may wait before it answers."""


@dataclass(eq=False, kw_only=True)
class Fault:
    """One armed fault; a context manager that clears it. Its methods raise ClusterFailed."""

    number: int
    api: Api[Any, Any]
    action: Action
    match: Mapping[str, str]
    times: int | None
    detail: str
    ask: Ask
    _fired: int | None = None  # once it is known for good

    def __str__(self) -> str:
        """As a test would write it."""
        return f"{described(self.api, self.action, self.detail, self.match)}, fired {self.fired} times"

    def __enter__(self) -> "Fault":
        """It was armed when it was made."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Clear it."""
        self.clear()

    @property
    def fired(self) -> int:
        """How often."""
        return self._state()[1]

    @property
    def is_armed(self) -> bool:
        """It will fire for the next request that fits."""
        return self._state()[2]

    def clear(self) -> None:
        """It fires no more. May be called again."""
        if self._fired is None:
            self.ask("clear", number=self.number)

    def wait_fired(self, count: int = 1, *, timeout_s: float = FIRE_S_MAX) -> None:
        """Wait until it has fired so often. Raises ClusterFailed: it did not in time, or never will."""
        _whole("count", count)
        _number("timeout_s", timeout_s, WAIT_S_MAX)
        if self.times is not None and count > self.times:
            raise ClusterFailed(f"times={self.times}: it never fires {count} times: {self}")
        if self._fired is None:
            said = {"number": self.number, "count": count, "timeout_s": timeout_s}
            _, fired, is_armed = self.ask("wait", waits_s=timeout_s, **said)
        else:
            fired, is_armed = self._fired, False
        if fired < count:
            when = f"after {timeout_s:g} s" if is_armed else "cleared, it has fired"
            raise ClusterFailed(f"{when} not {count} times: {self}")

    def settle(self, fired: int) -> None:
        """It is over, and fired so often."""
        self._fired = fired

    def _state(self) -> State:
        if self._fired is not None:
            return self.number, self._fired, False
        number, fired, is_armed = self.ask("state", number=self.number)
        return number, fired, is_armed


class Faults:
    """``cluster.faults``. Each method arms a fault and returns it; ``times`` is None for ever."""

    def __init__(self, ask: Ask) -> None:
        self.topic_id: Callable[[str], uuid.UUID | None] = lambda _name: None
        self._ask = ask
        self._live: dict[int, Fault] = {}
        self._one_at_a_time = threading.Lock()

    def delay(
        self, api: str, ms: float, *, match: Mapping[str, str] | None = None, times: int | None = None
    ) -> Fault:
        """The request reaches the node ``ms`` milliseconds later: 0 to DELAY_MS_MAX."""
        _number("ms", ms, DELAY_MS_MAX)
        return self._arm(api, "delay", match, times, detail=f", {ms:g} ms", ms=ms)

    def fail(
        self,
        api: str,
        code: int | str,
        *,
        match: Mapping[str, str] | None = None,
        times: int | None = None,
    ) -> Fault:
        """The client is answered with this error (Kafka's number or name), and nothing is done.

        A number may be one that no node here answers with: -1, and 1 to CODE_MAX.
        """
        number = _code_of(code)
        return self._arm(api, "fail", match, times, detail=f", {number}", code=number)

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
        with self._one_at_a_time:
            return self.settle(self._ask("clear_all")) if self._live else []

    def settle(self, states: Iterable[State]) -> list[Fault]:
        """What became of all faults; returns those that were armed until then."""
        left = []
        for number, fired, was_armed in states:
            fault = self._live.pop(number)
            fault.settle(fired)
            if was_armed:
                left.append(fault)
        return left

    def _arm(
        self,
        api: str,
        action: Action,
        match: Mapping[str, str] | None,
        times: int | None,
        *,
        detail: str = "",
        ms: float = 0,
        code: int = 0,
    ) -> Fault:
        matched = _checked(match)
        if times is not None:
            _whole("times", times)
        chosen = _api_of(api)
        topic_id = self.topic_id(matched["topic"]) if "topic" in matched else None
        with self._one_at_a_time:
            number = self._ask(
                "arm",
                key=chosen.key,
                action=action,
                text=described(chosen, action, detail, matched),
                match=matched,
                topic_id=None if topic_id is None else str(topic_id),
                times=times,
                ms=ms,
                code=code,
            )
            self._live[number] = Fault(
                number=number,
                api=chosen,
                action=action,
                match=matched,
                times=times,
                detail=detail,
                ask=self._ask,
            )
            return self._live[number]


def described(api: Api[Any, Any], action: str, detail: str, match: Mapping[str, str]) -> str:
    """A fault as a test would write it."""
    chosen = "".join(f", {name}={value!r}" for name, value in match.items())
    return f"{action}({api.name}{detail}{chosen})"


def _api_of(name: str) -> Api[Any, Any]:
    known = {api.name: api for api in APIS.values()}
    if name not in known:
        raise ClusterFailed(f"no API is named {name!r}{_meant(name, known)}; known are {', '.join(known)}")
    return known[name]


def _code_of(code: int | str) -> int:
    text = str(code)
    if text in ErrorCode.__members__ and text != "NONE":
        return int(ErrorCode[text])
    if not text.removeprefix("-").isdecimal():
        meant = _meant(text, ErrorCode.__members__)
        raise ClusterFailed(f"no error is named {code!r}{meant}; give Kafka's name, or its number")
    if not (int(text) == ErrorCode.UNKNOWN_SERVER_ERROR or 1 <= int(text) <= CODE_MAX):
        raise ClusterFailed(f"no error of Kafka has the number {text}; they are -1, and 1 to {CODE_MAX}")
    return int(text)


def _checked(match: Mapping[str, str] | None) -> dict[str, str]:
    if not isinstance(match or {}, Mapping):
        raise ClusterFailed(f'match: expected a mapping such as {{"topic": "orders"}}, got {match!r}')
    matched = dict(match or {})
    unknown = sorted(map(str, set(matched) - set(MATCHED)))
    if unknown:
        raise ClusterFailed(f"match has no {', '.join(unknown)}; it has {', '.join(MATCHED)}")
    for name, value in matched.items():
        if not isinstance(value, str):
            raise ClusterFailed(f"match: expected text for {name}, got {value!r}")
    return matched


def _whole(what: str, value: object) -> None:
    if not isinstance(value, int) or isinstance(value, bool) or value < 1:
        also = ", or None" if what == "times" else ""
        raise ClusterFailed(f"{what}: expected 1 or more{also}, got {value!r}")


def _number(what: str, value: object, most: float) -> None:
    if not isinstance(value, int | float) or isinstance(value, bool) or not 0 <= value <= most:
        raise ClusterFailed(f"{what}: expected a number from 0 to {most:.0f}, got {value!r}")


def _meant(name: object, known: Iterable[str]) -> str:
    by_letters = {each.replace("_", "").lower(): each for each in known}
    close = get_close_matches(str(name).replace("_", "").lower(), by_letters, n=1)
    return f" (is it {by_letters[close[0]]}?)" if close else ""
