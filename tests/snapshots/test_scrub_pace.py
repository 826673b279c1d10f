"""The pace of a scrub, by bytes and by CPU time, on a clock of its own."""

import time

import pytest

from fencepost.snapshots.scrub_pace import BYTES_PER_S, PAUSE, SLICE_BYTES, SLICE_S, ScrubPace, ScrubStopped
from tests.together import table


class Machine:
    """How much CPU the thread has used, and how long it slept."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.used_s = 100.0
        self.slept: list[float] = []
        self.goes_on = True
        monkeypatch.setattr(time, "thread_time", lambda: self.used_s)
        self.pace = ScrubPace(lambda: self.goes_on, self.slept.append)


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> Machine:
    return Machine(monkeypatch)


def test_it_sleeps_after_so_many_bytes(machine: Machine) -> None:
    machine.pace(SLICE_BYTES - 1)
    assert machine.slept == []
    machine.pace(1)
    assert machine.slept == [SLICE_BYTES / BYTES_PER_S]
    machine.pace(SLICE_BYTES - 1)
    assert len(machine.slept) == 1, "the next slice begins from nothing"
    machine.pace(SLICE_BYTES)
    assert machine.slept[1] == (2 * SLICE_BYTES - 1) / BYTES_PER_S


def test_it_sleeps_after_so_much_cpu(machine: Machine) -> None:
    machine.pace(0)
    machine.used_s += SLICE_S / 2
    machine.pace(0)
    assert machine.slept == []
    machine.used_s += SLICE_S / 2 + 1e-9
    machine.pace(5)
    assert machine.slept == [pytest.approx(PAUSE * SLICE_S, rel=1e-4)]
    machine.used_s += SLICE_S / 2
    machine.pace(0)
    assert len(machine.slept) == 1


def test_what_the_thread_did_before_its_first_slice_does_not_count(machine: Machine) -> None:
    machine.used_s += 1_000
    machine.pace(0)
    assert machine.slept == []


@table(("size", "is_over"), [(SLICE_BYTES - 1, False), (SLICE_BYTES, True)])
def test_it_ends_at_the_end_of_a_slice_alone(size: int, is_over: bool) -> None:
    pace = ScrubPace(lambda: False, lambda _: None)
    if is_over:
        with pytest.raises(ScrubStopped):
            pace(size)
    else:
        pace(size)
