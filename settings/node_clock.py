"""The clocks of one node's machine, and what the node keeps of them; controller/clocks.py decides.

Files       below the node's directory. ``clock.json``: how far the wall clock is before the boot-time clock,
            and the boot, with a checksum. ``clock.accepted``: an operator says that the wall clock is right
            (``storage accept-clock``); the node takes that word once, and removes the file.
Warnings    one line when the clock jumps, one when that is over.
Source      Linux /proc/sys/kernel/random/boot_id, CLOCK_BOOTTIME.
"""

import asyncio
import time
import zlib
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Final

import msgspec
import structlog
from structlog.typing import FilteringBoundLogger

from fencepost.controller.clocks import JUMP_MS, KeptClock, Reading, TrustedClock
from fencepost.records.named_errors import naming
from fencepost.settings.durable_file import write_durably

CLOCK: Final = "clock.json"
ACCEPTED: Final = "clock.accepted"
LOOK_S: Final = 5.0
KEEP_S: Final = 600.0  # between two times that the file is written, unless the clock jumps or is back
FILE_BYTES_MAX: Final = 4096
_BOOT_ID: Final = Path("/proc/sys/kernel/random/boot_id")
_BOOTTIME: Final = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)

NEXT: Final = (
    "nothing is deleted or expired until the clock is back, a majority of voters that did not jump agrees "
    "with it, or you type: fencepost storage accept-clock"
)


NEXT_IF_DAMAGED: Final = (
    "whether the clock jumped is not known: nothing is deleted or expired until a majority of voters agrees "
    "with it, or you type: fencepost storage accept-clock"
)


class _File(msgspec.Struct, frozen=True, kw_only=True):
    clock: KeptClock
    crc32: int


class DamagedClock(ValueError):
    """``clock.json`` is not what was written."""


def machine_clocks(boot_id: str) -> Reading:
    """Read them now."""
    return Reading(boot_id, time.clock_gettime_ns(_BOOTTIME) // 1_000_000, time.time_ns() // 1_000_000)


def machine_reader() -> Callable[[], Reading]:
    """What reads this machine's clocks."""
    return partial(machine_clocks, _boot_id())


def read_kept(directory: Path) -> KeptClock | None:
    """What the node's last process kept; None if none has. Raises DamagedClock, OSError."""
    file = directory / CLOCK
    try:
        with naming(file), open(file, "rb") as stream:
            raw = stream.read(FILE_BYTES_MAX)
    except FileNotFoundError:
        return None
    try:
        found = msgspec.json.decode(raw, type=_File)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise DamagedClock(f"{file}: {error}") from error
    if found.crc32 != _checksum(found.clock):
        raise DamagedClock(f"{file}: its checksum does not fit")
    return found.clock


def accept(directory: Path) -> None:
    """Leave the operator's word for the node's process. Raises OSError."""
    write_durably(directory / ACCEPTED, "")


class NodeClock:
    """See the module. ``read``: the clocks, for tests."""

    def __init__(
        self,
        directory: Path,
        log: FilteringBoundLogger | None = None,
        *,
        read: Callable[[], Reading] | None = None,
    ) -> None:
        """Raises OSError."""
        self._directory = directory
        self._log = log or structlog.get_logger()
        self._read: Callable[[], Reading] = read or machine_reader()
        now, kept, damage = self._read(), None, ""
        try:
            kept = read_kept(directory)
        except DamagedClock as error:
            damage = str(error)
            self._log.error("clock_file_damaged", reason=damage, next=NEXT_IF_DAMAGED)
        self._clock = TrustedClock(kept, now, is_doubted=bool(damage))
        self.moved: list[Callable[[int], None]] = []  # called with how many ms a test moves it on
        self._jumped = bool(damage)  # as the log says
        self._kept_at_ms: int | None = None  # by the boot-time clock

    def now_ms(self) -> int:
        """Milliseconds since the Unix epoch: the wall clock, or what it would show had it not jumped."""
        return self._clock.now_ms(self._read())

    def may_delete(self) -> bool:
        """Whether the clock is one by which something may be deleted or expired."""
        now = self._read()
        self._report(now)
        return self._clock.is_believed(now)

    def unjumped_ms(self) -> int | None:
        """The time, for others; None while the clock is not believed."""
        now = self._read()
        return now.wall_ms if self._clock.is_believed(now) else None

    def agree(self, majority_ms: int) -> None:
        """Voters that did not jump, a majority, say what time it is."""
        now = self._read()
        self._report(now)
        if self._clock.agree(now, majority_ms):
            self._over("clock_agrees_with_a_majority", now)

    def look(self) -> None:
        """Every ``LOOK_S``, and at the start: report, take the operator's word, keep for the next start."""
        now = self._read()
        self._report(now)
        accepted = self._directory / ACCEPTED
        if accepted.exists():
            if not self._clock.is_believed(now):
                self._clock.accept(now)
                self._over("clock_accepted", now)
            self._keep(now)  # before the word is gone: a kill in between takes it again
            try:
                accepted.unlink(missing_ok=True)
            except OSError as error:
                self._log.warning("clock_file_not_written", reason=str(error))
        if self._kept_at_ms is None or now.boottime_ms - self._kept_at_ms >= KEEP_S * 1000:
            self._keep(now)

    def _report(self, now: Reading) -> None:
        is_believed, jump_ms = self._clock.is_believed(now), self._clock.jump_ms(now)
        if is_believed != self._jumped:
            return
        if is_believed:
            self._over("clock_is_back", now)
            return
        self._jumped = True
        off = f"{abs(jump_ms) / JUMP_MS:.1f} hours {'ahead' if jump_ms > 0 else 'back'}"
        self._log.warning("clock_jumped", by=off, next=NEXT)
        self._keep(now)

    def _over(self, event: str, now: Reading) -> None:
        self._jumped = False
        self._log.info(event, next="what is past its time is deleted and expired again")
        self._keep(now)

    def _keep(self, now: Reading) -> None:
        if self._clock.is_doubted:
            return  # or the next process would believe it
        kept = self._clock.kept(now)
        content = msgspec.json.encode(_File(clock=kept, crc32=_checksum(kept))).decode()
        self._kept_at_ms = now.boottime_ms
        try:
            write_durably(self._directory / CLOCK, content + "\n")
        except OSError as error:  # a full disk: what is there is older, and still true
            self._log.warning("clock_file_not_written", reason=str(error))


def watch_clock(loop: asyncio.AbstractEventLoop, clock: NodeClock) -> Callable[[], None]:
    """Let the clock look, now and every ``LOOK_S``. Returns what ends that."""

    timer: asyncio.TimerHandle | None = None

    def look() -> None:
        nonlocal timer
        timer = loop.call_later(LOOK_S, look)
        clock.look()

    def stop() -> None:
        if timer is not None:
            timer.cancel()

    look()
    return stop


def _checksum(clock: KeptClock) -> int:
    return zlib.crc32(msgspec.json.encode(clock))


def _boot_id() -> str:
    try:
        return _BOOT_ID.read_text("ascii").strip()
    except OSError:
        return ""
