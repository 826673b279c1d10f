"""The clocks of the processes: monotonic ones, each at its own rate, and wall clocks, which jump.

pysyncobj reads one clock for all that run in a Python process (``use_clock``): here that of the simulated
process whose event it is.
"""

from typing import Final

from fencepost.controller.clocks import Reading
from tests.simulation.agenda import Agenda

WALL_MS: Final = 1_790_000_000_000  # what wall clocks show at virtual time 0, but for their skew


def reading(agenda: Agenda, skew_ms: int) -> Reading:
    """What a process reads of its machine, which never reboots."""
    now_ms = int(agenda.now * 1000)
    return Reading("the boot", now_ms, WALL_MS + now_ms + skew_ms)


class Clocks:
    """``rate``: that of the process that runs, in its seconds per second of the agenda."""

    def __init__(self, agenda: Agenda) -> None:
        self._agenda = agenda
        self.rate = 1.0

    def now(self) -> float:
        """What the process that runs reads."""
        return self._agenda.now * self.rate
