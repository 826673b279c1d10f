"""What all transactional producers of a simulation share."""

import random
from collections.abc import Callable, Mapping

from fencepost.records.types import NodeId
from tests.simulation.agenda import Agenda
from tests.simulation.broker import Broker
from tests.simulation.coordinator import Coordinator
from tests.simulation.facts import Place
from tests.simulation.ledger import Ledger
from tests.simulation.post import Post


class World:
    """The simulated cluster as producers reach it, and what they may do in it."""

    def __init__(
        self,
        agenda: Agenda,
        rng: random.Random,
        ledger: Ledger,
        post: Post,
        voters: Mapping[NodeId, Coordinator],
        brokers: Mapping[Place, Broker],
        numbers: Callable[[], int],
    ) -> None:
        self.agenda = agenda
        self.rng = rng
        self.ledger = ledger
        self.post = post
        self.voters = voters
        self.brokers = brokers
        self.numbers = numbers
        self.keep_late_ends = False
        self.keep_late_adds = True
        self.closing = False  # no further transaction begins
