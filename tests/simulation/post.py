"""The network between clients, brokers and voters: whole requests and answers, late, lost or twice.

Between two ends there is no order: a client opens another connection when its patience ends, and what is on
the first may still arrive. Calls are made at the receiver; whether it is there is the receiver's to say.
"""

import random
from collections.abc import Callable
from dataclasses import dataclass, replace

from tests.simulation.agenda import Agenda


@dataclass(frozen=True, slots=True, kw_only=True)
class PostWeather:
    """Probabilities are per request or answer, rates per second. Spans are (shortest, longest) in seconds."""

    latency_s: tuple[float, float] = (0.0003, 0.004)
    lost: float = 0.02
    late: float = 0.03
    late_s: tuple[float, float] = (0.05, 3.0)
    lost_outcomes: float = 0.0  # of answers to EndTxn and InitProducerId, beside ``lost``
    twice: float = 0.03  # and the second copy is late
    broker_deaths: float = 0.15
    broker_downtime_s: tuple[float, float] = (0.05, 2.0)
    client_dies: float = 0.01  # at each of its steps; another instance takes its place
    second_instance: float = 0.01  # somebody starts one beside the first, at each of its steps
    dawdles: float = 0.01  # a client's pause between two steps is longer than its transaction may be open
    naps: float = 0.03  # between two transactions it sleeps until its transactional id may have expired
    transactions_v2: float = 0.0  # a producer's instance uses transactions V2
    keeps: float = 0.0  # it begins with KeepPreparedTxn, and ends what the one before it left open

    def calmed(self) -> "PostWeather":
        """The same distances, no faults."""
        return replace(
            self,
            lost=0.0,
            lost_outcomes=0.0,
            late=0.0,
            twice=0.0,
            broker_deaths=0.0,
            client_dies=0.0,
            second_instance=0.0,
            dawdles=0.0,
            naps=0.0,
        )


class Post:
    """Carries calls."""

    def __init__(self, agenda: Agenda, rng: random.Random, weather: PostWeather) -> None:
        self.weather = weather
        self._agenda = agenda
        self._rng = rng

    def carry(self, deliver: Callable[[], None]) -> None:
        """Make the call where it goes to, later; or never; or twice."""
        weather, rng = self.weather, self._rng
        if rng.random() < weather.lost:
            return
        is_late = rng.random() < weather.late
        self._agenda.after(rng.uniform(*(weather.late_s if is_late else weather.latency_s)), deliver)
        if rng.random() < weather.twice:
            self._agenda.after(rng.uniform(*weather.late_s), deliver)
