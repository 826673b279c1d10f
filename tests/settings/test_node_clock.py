"""A node's clock on its disk: what a restart knows, the operator's word, one warning for each jump."""

import os
from pathlib import Path
from typing import Any, Final, cast

import pytest
from structlog.typing import FilteringBoundLogger

from fencepost.controller.clocks import Reading
from fencepost.settings import node_clock
from fencepost.settings.node_clock import ACCEPTED, CLOCK, KEEP_S, NodeClock, accept, read_kept

DAY_MS: Final = 24 * 3_600_000
WALL_MS: Final = 1_790_000_000_000


class Machine:
    """Its clocks, and the events that nodes on it log."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.boottime_ms = 1000
        self.skew_ms = 0
        self.events: list[str] = []

    def node(self) -> NodeClock:
        clock = NodeClock(self.directory, cast(FilteringBoundLogger, self), read=self._read)
        clock.look()
        return clock

    def _read(self) -> Reading:
        return Reading("boot", self.boottime_ms, WALL_MS + self.boottime_ms + self.skew_ms)

    def info(self, event: str, **_facts: Any) -> None:
        self.events.append(event)

    warning = error = info


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


def test_the_machines_clocks_are_read_and_its_boot_has_an_id() -> None:
    reading = node_clock.machine_clocks("boot")
    assert reading.boottime_ms > 0
    assert reading.wall_ms > 1_700_000_000_000
    assert node_clock._boot_id()


def test_one_warning_for_a_jump_whoever_asks_and_how_often(machine: Machine) -> None:
    clock = machine.node()
    assert clock.may_delete()
    machine.skew_ms = 8 * DAY_MS
    for _ in range(3):
        assert not clock.may_delete()
        clock.look()
    assert clock.unjumped_ms() is None
    assert clock.now_ms() == WALL_MS + machine.boottime_ms
    machine.skew_ms = 0
    assert clock.may_delete()
    assert clock.unjumped_ms() == clock.now_ms()
    assert machine.events == ["clock_jumped", "clock_is_back"]


def test_the_next_process_knows_a_jump_that_happened_while_none_ran(machine: Machine) -> None:
    machine.node()
    machine.skew_ms = -8 * DAY_MS
    clock = machine.node()
    assert not clock.may_delete()
    assert machine.events == ["clock_jumped"]
    assert clock.now_ms() == WALL_MS + machine.boottime_ms


def test_an_operators_word_is_taken_once(machine: Machine) -> None:
    clock = machine.node()
    machine.skew_ms = 8 * DAY_MS
    assert not clock.may_delete()
    accept(machine.directory)
    clock.look()
    assert clock.may_delete()
    assert not (machine.directory / ACCEPTED).exists()
    assert machine.node().may_delete()
    machine.skew_ms = 16 * DAY_MS
    assert not clock.may_delete()
    assert machine.events == ["clock_jumped", "clock_accepted", "clock_jumped"]


def test_a_word_is_left_for_the_next_start_and_changes_nothing_without_a_jump(machine: Machine) -> None:
    machine.node()
    machine.skew_ms = 8 * DAY_MS
    accept(machine.directory)
    assert machine.node().may_delete()
    accept(machine.directory)
    clock = machine.node()
    machine.skew_ms += 1000
    assert clock.may_delete()
    machine.skew_ms = 0
    assert not clock.may_delete()


def test_a_majority_is_believed_by_a_clock_that_jumped(machine: Machine) -> None:
    clock = machine.node()
    machine.skew_ms = 8 * DAY_MS
    clock.agree(WALL_MS)
    assert not clock.may_delete()
    clock.agree(WALL_MS + machine.boottime_ms + 8 * DAY_MS)
    assert clock.may_delete()
    assert machine.node().may_delete(), "it is kept"
    assert machine.events == ["clock_jumped", "clock_agrees_with_a_majority"]


def test_it_is_kept_again_after_a_while(machine: Machine) -> None:
    clock = machine.node()
    kept = read_kept(machine.directory)
    machine.boottime_ms += int(KEEP_S * 1000) - 1
    clock.look()
    assert read_kept(machine.directory) == kept
    machine.boottime_ms += 1
    clock.look()
    found = read_kept(machine.directory)
    assert found is not None
    assert found.trusted_ms == WALL_MS + machine.boottime_ms


def damaged(machine: Machine, position: int) -> bytes:
    """``clock.json``, of which a byte changed while no process ran."""
    machine.node()
    file = machine.directory / CLOCK
    raw = bytearray(file.read_bytes())
    raw[position] ^= 1
    file.write_bytes(raw)
    return bytes(raw)


@pytest.mark.parametrize("position", [0, 30, 60, 90, -4])
@pytest.mark.parametrize("skew_ms", [0, 8 * DAY_MS, -8 * DAY_MS])
def test_what_a_damaged_file_said_of_a_jump_is_not_taken_for_none(
    machine: Machine, position: int, skew_ms: int
) -> None:
    raw = damaged(machine, position)
    machine.skew_ms = skew_ms
    for _ in range(2):
        clock = machine.node()
        assert (clock.may_delete(), clock.unjumped_ms()) == (False, None)
        assert clock.now_ms() == WALL_MS + machine.boottime_ms + skew_ms
        assert (machine.directory / CLOCK).read_bytes() == raw, "or the next process would believe it"
    assert machine.events == ["clock_file_damaged"] * 2


def test_a_majority_or_an_operator_ends_the_doubt(machine: Machine) -> None:
    damaged(machine, 30)
    clock = machine.node()
    clock.agree(WALL_MS + machine.boottime_ms - 8 * DAY_MS)
    assert not clock.may_delete()
    clock.agree(WALL_MS + machine.boottime_ms)
    assert clock.may_delete()
    assert machine.node().may_delete(), "it is kept"
    damaged(machine, 30)
    clock = machine.node()
    accept(machine.directory)
    clock.look()
    assert clock.may_delete()
    assert machine.node().may_delete()
    assert machine.events == [
        "clock_file_damaged",
        "clock_agrees_with_a_majority",
        "clock_file_damaged",
        "clock_accepted",
    ]


@pytest.mark.skipif(os.getuid() == 0, reason="root may write everywhere")
def test_a_directory_that_cannot_be_written_is_said_and_stops_nothing(machine: Machine) -> None:
    clock = machine.node()
    machine.directory.chmod(0o500)
    try:
        machine.skew_ms = 8 * DAY_MS
        assert not clock.may_delete()
    finally:
        machine.directory.chmod(0o700)
    assert machine.events == ["clock_jumped", "clock_file_not_written"]
