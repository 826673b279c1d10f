"""``python -m fencepost.bench.load``: the load generator, a process of its own.

Commands control it (see ``fencepost.bench.process``): Setup first, then Start, any of
Window and FirstSuccess, and Stop, as often as wanted. Attempts are kept in memory while the load runs, and
written to the history by Stop and Flush only: nothing but the load itself happens while it is measured.
"""

import asyncio
import gc
import os
import random
import time
from pathlib import Path
from typing import Any, Final

import msgspec
import uvloop

from fencepost.bench.history import OK
from fencepost.bench.load_client import PAUSE_S_MAX, Client, Course
from fencepost.bench.process import serve_async
from fencepost.controller.producer_ids import AllocateProducerIds
from fencepost.records.types import BrokerEpoch, BrokerId

EXPIRE_S: Final = 0.010  # how often requests are checked for their timeout
POLL_S: Final = 0.005
STOP_SECONDS_MAX: Final = 5.0  # beyond the clients' own timeouts
TICKS_PER_SECOND: Final = os.sysconf("SC_CLK_TCK")
LINES_AT_ONCE: Final = 2000  # written between two turns of the loop: about a millisecond
ATTEMPTS_MAX: Final = 4_000_000  # in memory, about 150 bytes each; past it the load ends


class Setup(msgspec.Struct, frozen=True, tag=True):
    """Command: what to load, and how. The response is null."""

    nodes: dict[int, tuple[str, int]]  # controller listeners by node id
    leader: int  # tried first; one of them
    askers: list[tuple[int, int]]  # (broker id, epoch); client k uses number k modulo their count
    history: str  # the file; attempts are appended
    timeout_s: float
    pids: dict[str, int]  # whose CPU time a Window measures, beside ours
    pause_s_max: float = PAUSE_S_MAX


class Start(msgspec.Struct, frozen=True, tag=True):
    """Begin the load. Answered with the moment before it, nanoseconds."""

    clients: int


class Window(msgspec.Struct, frozen=True, tag=True):
    """Wait ``warm_up_s``, then measure for ``seconds``. Answered with Measured."""

    warm_up_s: float
    seconds: float


class Measured(msgspec.Struct, frozen=True):
    """A window, and the CPU seconds that were used in it: by each process, and by all of the machine's."""

    begin_ns: int
    end_ns: int
    cpu_s: dict[str, float]
    machine_cpu_s: float


class FirstSuccess(msgspec.Struct, frozen=True, tag=True):
    """When was the first success of a request sent after this received? Waits; null if there is none."""

    after_ns: int
    timeout_s: float


class Flush(msgspec.Struct, frozen=True, tag=True):
    """Write the history while the load runs. Answered with null."""


class Stop(msgspec.Struct, frozen=True, tag=True):
    """Send no more, wait for what is under way, write the history. Answered with null."""


Command = Setup | Start | Window | FirstSuccess | Flush | Stop


class _Failed(Exception):
    """The load is worth nothing; says why."""


class _Load:
    def __init__(self, setup: Setup) -> None:
        self._setup = setup
        self._rng = random.Random()
        self._history = Path(setup.history)
        self._encoder = msgspec.json.Encoder()
        self._course = self._new_course()
        self._clients: list[Client] = []
        self._expiring: asyncio.TimerHandle | None = None
        self._node = setup.leader  # tried first: the node of the last grant
        self._pids = {**setup.pids, "load": os.getpid()}

    def _new_course(self) -> Course:
        return Course(self._setup.nodes, self._setup.timeout_s, self._rng, self._setup.pause_s_max)

    async def execute(self, command: Command) -> Any:
        match command:
            case Start():
                return self._start(command.clients)
            case Window():
                return await self._window(command)
            case FirstSuccess():
                return await self._first_success(command)
            case Flush():
                return await self._flush()
            case Stop():
                return await self._stop()
        raise _Failed(f"unexpected command {command}")

    def _start(self, count: int) -> int:
        self._course = self._new_course()
        askers = [AllocateProducerIds(BrokerId(b), BrokerEpoch(epoch)) for b, epoch in self._setup.askers]
        self._clients = [
            Client(self._course, number, askers[number % len(askers)]) for number in range(count)
        ]
        started_ns = time.monotonic_ns()
        for client in self._clients:
            client.start(self._node)
        self._expire()
        return started_ns

    def _expire(self) -> None:
        now_ns = time.monotonic_ns()
        for client in self._clients:
            client.expire(now_ns)
        if len(self._course.attempts) > ATTEMPTS_MAX:
            self._course.fail(f"more than {ATTEMPTS_MAX} attempts without a Flush")
        self._expiring = asyncio.get_running_loop().call_later(EXPIRE_S, self._expire)

    async def _window(self, command: Window) -> Measured:
        await asyncio.sleep(command.warm_up_s)
        began, machine_began = self._cpu_seconds(), machine_cpu_seconds()
        begin_ns = time.monotonic_ns()
        await asyncio.sleep(command.seconds)
        end_ns = time.monotonic_ns()
        ended, machine_ended = self._cpu_seconds(), machine_cpu_seconds()
        self._require_sound()
        spent = {name: ended[name] - began[name] for name in began.keys() & ended.keys()}
        return Measured(begin_ns, end_ns, spent, machine_ended - machine_began)

    def _cpu_seconds(self) -> dict[str, float]:
        return {name: used for name, pid in self._pids.items() if (used := cpu_seconds(pid)) is not None}

    async def _first_success(self, command: FirstSuccess) -> int | None:
        deadline = time.monotonic() + command.timeout_s
        attempts = self._course.attempts
        seen = len(attempts)
        while seen and attempts[seen - 1].received_ns > command.after_ns:
            seen -= 1
        while time.monotonic() < deadline:
            self._require_sound()
            for attempt in attempts[seen:]:
                if attempt.outcome == OK and attempt.sent_ns > command.after_ns:
                    return attempt.received_ns
            seen = len(attempts)
            await asyncio.sleep(POLL_S)
        return None

    async def _stop(self) -> None:
        self._course.stopping = True
        deadline = time.monotonic() + self._setup.timeout_s + STOP_SECONDS_MAX
        while not all(client.idle for client in self._clients) and time.monotonic() < deadline:
            if self._course.failure:
                break
            await asyncio.sleep(POLL_S)
        busy = sum(not client.idle for client in self._clients)
        for client in self._clients:
            client.close()
        if self._expiring is not None:
            self._expiring.cancel()
        await self._flush()
        self._require_sound()
        if busy:
            raise _Failed(f"{busy} clients did not come to rest in {STOP_SECONDS_MAX:.0f} s")

    async def _flush(self) -> None:
        attempts, self._course.attempts = self._course.attempts, []
        if granted := next((attempt for attempt in reversed(attempts) if attempt.outcome == OK), None):
            self._node = granted.node
        with self._history.open("ab") as file:
            for first in range(0, len(attempts), LINES_AT_ONCE):
                file.write(self._encoder.encode_lines(attempts[first : first + LINES_AT_ONCE]))
                await asyncio.sleep(0)

    def _require_sound(self) -> None:
        if self._course.failure is not None:
            raise _Failed(self._course.failure)


def cpu_seconds(pid: int) -> float | None:
    """The CPU time that a process has used, from /proc/PID/stat; None if it is gone."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text("ascii", "replace")
    except OSError:
        return None
    fields = text[text.rindex(")") + 2 :].split()  # the name before it may hold anything
    return (int(fields[11]) + int(fields[12])) / TICKS_PER_SECOND


def machine_cpu_seconds() -> float:
    """The CPU time that all programs and the kernel have used, from /proc/stat; 0 where there is none."""
    try:
        fields = Path("/proc/stat").read_text("ascii").split("\n", 1)[0].split()
    except OSError:
        return 0.0
    user, nice, system, _idle, _waiting, interrupts, soft_interrupts, *_ = map(int, fields[1:])
    return (user + nice + system + interrupts + soft_interrupts) / TICKS_PER_SECOND


class _Commands:
    def __init__(self) -> None:
        self._load: _Load | None = None

    async def execute(self, command: Command) -> Any:
        if isinstance(command, Setup):
            self._load = _Load(command)
            return None
        if self._load is None:
            raise _Failed("Setup comes first")
        return await self._load.execute(command)


def _collect_nothing() -> None:
    """Attempts are no garbage, and there is no other: a collection would only walk over all of them."""
    gc.collect()
    gc.freeze()
    gc.disable()


if __name__ == "__main__":
    _collect_nothing()
    uvloop.run(serve_async(Command, _Commands().execute, (_Failed, OSError)))
