"""The applications of a run as processes: started, killed, paused and ended by pid."""

import os
import random
import signal
import subprocess
import time
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final

from tests.checker.history import History
from tests.checker.settings import CLIENTS, Part

END_SECONDS_MAX: Final = 45.0
LOOK_SECONDS: Final = 0.1
AT_A_POINT_RATE: Final = 0.6  # of kills and short pauses: between two steps of a transaction
AGAIN_SECONDS: Final = 0.3  # after a process ended by itself
NEW_ID_RATE: Final = 0.3  # of killed applications: their transactions end by their timeout alone
SUBSTITUTE_RATE: Final = 0.3  # of long pauses
ACTIONS: Final = {"kill": 1, "leave": 4, "pause": 3, "pause past the session": 2, "double": 1}


def start(part: Part, module: str) -> subprocess.Popen[bytes]:
    """A process of this run; what it writes to its streams is beside the history."""
    with (part.path / f"{part.name}.log").open("wb") as log:
        return subprocess.Popen(part.command(module), stdout=log, stderr=log, stdin=subprocess.DEVNULL)


@dataclass(slots=True)
class Slot:
    """An application and those that take its place, with one transactional id after the other at most."""

    part: Part  # its name is the slot's
    incarnation: int = 0
    pause_seconds: float = 0.0  # of a process that stops itself
    life: int = 0  # of transactional ids
    process: subprocess.Popen[bytes] | None = None
    start_at: float = 0.0
    paused: dict[int, tuple[subprocess.Popen[bytes], float]] = field(default_factory=dict)  # by pid: until


class Slots:
    """All slots of a run."""

    def __init__(self, parts: list[Part], seed: int, history: History) -> None:
        self._slots = [Slot(each) for each in parts]
        self._random = random.Random(seed)
        self._history = history
        self._replaced: list[subprocess.Popen[bytes]] = []  # a substitute has their transactional id

    def tend(self) -> None:
        """Start what is due, wake what was paused long enough, and replace what ended by itself."""
        now = time.monotonic()
        away = {pid for slot in self._slots for pid in slot.paused}
        for process in self._replaced:
            if process.pid not in away and stopped(process):  # by itself, on its way out
                process.send_signal(signal.SIGCONT)
        for slot in self._slots:
            for pid, (process, until) in list(slot.paused.items()):
                if now >= until:
                    self._wake(slot, pid, process)
            if slot.process is not None and slot.process.pid not in slot.paused and stopped(slot.process):
                self._paused(slot, slot.process)
            if slot.process is not None and slot.process.poll() is not None:
                slot.process = None
                slot.start_at = now + AGAIN_SECONDS
            if slot.process is None and now >= slot.start_at:
                self._start(slot)

    def trouble(self) -> None:
        """Something happens to one of them."""
        slot = self._random.choice(self._slots)
        action = self._random.choices([*ACTIONS], weights=[*ACTIONS.values()])[0]
        process = slot.process
        if process is None or process.pid in slot.paused:
            return
        match action:
            case "kill":
                self._write("application_killed", process)
                if self._random.random() < AT_A_POINT_RATE:
                    process.send_signal(signal.SIGUSR2)
                    return
                process.kill()
                process.wait()
                if slot.part.group is not None and self._random.random() < NEW_ID_RATE:
                    slot.life += 1
                slot.process = None
                slot.start_at = time.monotonic() + self._random.uniform(0, 2)
            case "leave":
                process.terminate()
                self._write("application_terminated", process)
                self._replaced.append(process)
                slot.process = None
                slot.start_at = time.monotonic() + self._random.uniform(0, 3)
            case "double":  # both live, with one transactional id, and one instance id if they have any
                self._write("application_doubled", process)
                self._replaced.append(process)
                self._start(slot)
            case "pause":
                self._pause(slot, process, self._random.uniform(0.3, 2))
            case _:
                past = slot.part.session_ms / 1000 + self._random.uniform(0.5, 3)
                self._pause(slot, process, past)

    def wake(self) -> None:
        """All that are paused."""
        for slot in self._slots:
            for pid, (process, _) in list(slot.paused.items()):
                self._wake(slot, pid, process)
            slot.pause_seconds = 0.0  # of one that stops itself from now on

    def end(self) -> list[str]:
        """Each may end what it does; returns who did not, and was killed."""
        self.wake()
        self.tend()
        processes = [*self._replaced, *(each.process for each in self._slots if each.process is not None)]
        return ended(processes)

    def _start(self, slot: Slot) -> None:
        slot.incarnation += 1
        name = f"{slot.part.name}.{slot.incarnation}"
        transactional_id = f"{slot.part.name}-{slot.life}"
        seed = self._random.randrange(2**32)
        part = replace(slot.part, name=name, transactional_id=transactional_id, seed=seed)
        slot.process = start(part, CLIENTS[part.client])
        self._history.write("application_spawned", application=name, pid=slot.process.pid)

    def _pause(self, slot: Slot, process: subprocess.Popen[bytes], seconds: float) -> None:
        slot.pause_seconds = seconds
        is_past = seconds > slot.part.session_ms / 1000
        if is_past or self._random.random() < AT_A_POINT_RATE:
            process.send_signal(signal.SIGUSR1)
        else:
            os.kill(process.pid, signal.SIGSTOP)
            self._paused(slot, process)

    def _paused(self, slot: Slot, process: subprocess.Popen[bytes]) -> None:
        """It stands still; where that is past its session, a substitute may get its transactional id."""
        seconds = slot.pause_seconds
        slot.paused[process.pid] = (process, time.monotonic() + seconds)
        self._write("application_paused", process, seconds=seconds)
        if seconds > slot.part.session_ms / 1000 and self._random.random() < SUBSTITUTE_RATE:
            self._replaced.append(process)
            self._start(slot)

    def _wake(self, slot: Slot, pid: int, process: subprocess.Popen[bytes]) -> None:
        del slot.paused[pid]
        process.send_signal(signal.SIGCONT)
        self._write("application_woken", process)

    def _write(self, event: str, process: subprocess.Popen[bytes], **fields: float) -> None:
        self._history.write(event, pid=process.pid, **fields)


def stopped(process: subprocess.Popen[bytes]) -> bool:
    """By SIGSTOP."""
    try:
        return Path(f"/proc/{process.pid}/stat").read_text("ascii").rpartition(")")[2].split()[0] == "T"
    except FileNotFoundError:
        return False


def ended(processes: list[subprocess.Popen[bytes]]) -> list[str]:
    """SIGTERM to all, stopped ones included; returns the pids of those that had to be killed."""
    for process in processes:
        process.terminate()
    deadline = time.monotonic() + END_SECONDS_MAX
    living = processes
    while living and time.monotonic() < deadline:
        time.sleep(LOOK_SECONDS)
        living = [each for each in living if each.poll() is None]
        for process in living:
            if stopped(process):  # by itself, on its way out
                process.send_signal(signal.SIGCONT)
    for process in living:
        process.kill()
        process.wait()
    return [str(each.pid) for each in living]
