"""Strangers in the storm: clients that know producer ids and not the cluster's secret; and an operator.

Stranger    writes batches under others' producer ids with epochs that were never given out, in transactions
            (where a partition verifies none) and outside, and markers of any epoch, outcome, claimed version
            and force. So partitions are wedged, and leaders change over them.
Operator    forces what is wedged, and aborts by hand what is open on a partition; from time to time in the
            storm, often after it. By hand nothing is ended that the coordinator will end.
"""

import random
from collections.abc import Mapping
from typing import Final

from fencepost.records.end_marker import IMAGE_VERSION_MAX, NO_VERSION, EndMarker
from fencepost.records.types import ImageVersion, NodeId, ProducerId
from tests.simulation.agenda import Agenda
from tests.simulation.broker import Broker
from tests.simulation.coordinator import Coordinator
from tests.simulation.facts import Place
from tests.simulation.ledger import Ledger
from tests.simulation.partition import Stray
from tests.simulation.post import Post

NEVER_GIVEN: Final = 20  # an epoch above all that a coordinator of the simulation gives out
FOREIGN_COORDINATOR_EPOCH: Final = 2**31 - 1
OPERATOR_S: Final = (0.5, 3.0)
OPERATOR_HEALED_S: Final = 0.3
VERSIONS: Final = (NO_VERSION, 1, 1_000, IMAGE_VERSION_MAX, IMAGE_VERSION_MAX + 1, -1)


class Strangers:
    """See the module. ``rate``: of a stranger's requests, per second."""

    def __init__(
        self,
        agenda: Agenda,
        rng: random.Random,
        ledger: Ledger,
        post: Post,
        voters: Mapping[NodeId, Coordinator],
        leaders: Mapping[Place, Broker],
        rate: float,
    ) -> None:
        self._agenda = agenda
        self._rng = rng
        self._ledger = ledger
        self._post = post
        self._voters = voters
        self._leaders = leaders
        self._rate = rate
        self.healed = False
        agenda.after(rng.expovariate(rate), self._act)
        agenda.after(rng.uniform(*OPERATOR_S), self._operate)

    def _act(self) -> None:
        if self.healed:
            return
        self._agenda.after(self._rng.expovariate(self._rate), self._act)
        place = self._rng.choice(sorted(self._leaders))
        known = sorted(
            {each for p, leader in self._leaders.items() for each, _, _ in leader.partitions[p].producers()}
        )
        if not known:
            return
        producer_id = self._rng.choice(known[-6:])
        leader = self._leaders[place]
        if self._rng.random() < 0.6:
            self._mark(leader, place, producer_id)
            return
        pair = (producer_id, NEVER_GIVEN + self._rng.randrange(3))
        stray = Stray(pair, transactional=self._rng.random() < 0.5)
        self._post.carry(lambda: leader.stray(place, stray))

    def _mark(self, leader: Broker, place: Place, producer_id: ProducerId) -> None:
        epochs = [epoch for each, epoch, _ in leader.partitions[place].producers() if each == producer_id]
        marker = EndMarker(
            producer_id=producer_id,
            producer_epoch=max(0, (epochs or [0])[0] + self._rng.randint(-1, 2)),
            committed=self._rng.random() < 0.5,
            coordinator_epoch=FOREIGN_COORDINATOR_EPOCH,
            version=ImageVersion(self._rng.choice(VERSIONS)),
        )
        self._post.carry(lambda: leader.write_foreign(place, marker))

    def _operate(self) -> None:
        wait_s = OPERATOR_HEALED_S if self.healed else self._rng.uniform(*OPERATOR_S)
        self._agenda.after(wait_s, self._operate)
        for voter in self._voters.values():
            voter.force_all()
        for place, leader in self._leaders.items():
            for producer_id, epoch, is_open in leader.partitions[place].producers():
                if is_open and epoch >= NEVER_GIVEN:
                    self._abort(leader, place, producer_id, epoch)

    def _abort(self, leader: Broker, place: Place, producer_id: ProducerId, epoch: int) -> None:
        """``transactions abort``."""
        marker = EndMarker(
            producer_id=producer_id,
            producer_epoch=epoch,
            committed=False,
            coordinator_epoch=FOREIGN_COORDINATOR_EPOCH,
        )
        self._post.carry(lambda: leader.write_foreign(place, marker))
