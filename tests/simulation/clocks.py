"""The monotonic clocks of the processes: each goes at its own rate.

pysyncobj reads one clock for all that run in a Python process (``use_clock``): here that of the simulated
process whose event it is.
"""

from tests.simulation.agenda import Agenda


class Clocks:
    """``rate``: that of the process that runs, in its seconds per second of the agenda."""

    def __init__(self, agenda: Agenda) -> None:
        self._agenda = agenda
        self.rate = 1.0

    def now(self) -> float:
        """What the process that runs reads."""
        return self._agenda.now * self.rate
