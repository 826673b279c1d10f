"""Transactional ids in the middle of a transaction, while something else happens to the cluster."""

import copy
from typing import Final, NamedTuple

from fencepost.controller.errors import ErrorCode
from tests.harness.nodes import Nodes
from tests.processes.txn_client import NONE, Client, Pair, client, read

LAST_EPOCH: Final = 32766  # the highest that a producer is ever given
PARTITIONS: Final = 3  # one on each broker
EVERY_PARTITION: Final = range(PARTITIONS)
FIRST, SECOND, THIRD = b"first", b"second", b"third"


class Story(NamedTuple):
    """How one transactional id begins before the version is lowered.

    ``v2``         the protocol that begins; ``then_v2``: the one that goes on afterwards.
    ``epoch``      of the transaction that is under way; at LAST_EPOCH the producer id changes with it.
    ``two_phase``  it is prepared by a client that crashes; a new instance keeps it.
    ``ending``     EndTxn is answered, and a broker is away: its markers are missing.
    """

    v2: bool
    then_v2: bool
    epoch: int = 0
    two_phase: bool = False
    ending: bool = False

    @property
    def name(self) -> str:
        """A transactional id."""
        way = f"v{1 + self.v2}-v{1 + self.then_v2}"
        state = ("prepared-" if self.two_phase else "") + ("ending" if self.ending else "open")
        return f"{way}-{state}-{self.epoch}"


class Life:
    """One transactional id. What it is to end is written when this is made."""

    def __init__(self, nodes: Nodes, story: Story) -> None:
        self.client = client(nodes, story.name, PARTITIONS)
        self.story, self._v2 = story, story.v2
        self._pair: Pair = NONE
        self._held: set[Pair] = set()
        self._is_ended = False
        self._sequence = 0
        if story.epoch:
            self._hold(self.client.init(two_phase=story.two_phase)[0])
            self.client.crash_until(story.epoch - 1, keep=False, two_phase=story.two_phase)
        self._hold(self.client.init(two_phase=story.two_phase)[0])
        assert self._pair[1] == story.epoch
        self.begun = self._pair
        self.writes(FIRST)

    def on(self, nodes: Nodes) -> "Life":
        """The same client, of a copy of the cluster."""
        other = copy.copy(self)
        other.client = Client(nodes, self.client.name, self.client.topic)
        other._held = {*self._held}
        return other

    def goes_on(self) -> None:
        """The next transaction is aborted, the one after it commits."""
        self.writes(SECOND)
        self.ends(committed=False)
        self.writes(THIRD)
        self.ends(committed=True)

    def is_sound(self) -> None:
        """No record is lost, none comes twice, and the producer id changed where the epoch ran out."""
        assert read(self.client) == sorted([FIRST, THIRD] * PARTITIONS), self.story
        assert self.producer_ids == 1 + (self.story.epoch == LAST_EPOCH), self.story

    @property
    def pair(self) -> Pair:
        """What it presents from now on."""
        return self._pair

    @property
    def producer_ids(self) -> int:
        return len({producer_id for producer_id, _ in self._held})

    def writes(self, value: bytes) -> None:
        """A record in each partition."""
        if not self._v2:
            self.client.add(self._pair, *EVERY_PARTITION)
        for partition in EVERY_PARTITION:
            code = self.client.write(self._pair, value, partition, self._sequence, v2=self._v2)
            assert code == ErrorCode.NONE, (self.story, code)
        self._sequence += 1

    def keeps_if_it_is_to(self) -> None:
        """Its client is gone: another instance will end what it prepared."""
        if self.story.two_phase and not self._is_ended:
            kept, ongoing = self.client.init(keep=True)
            assert ongoing == self.begun
            self._hold(kept)

    def ends_if_it_is_to(self) -> None:
        """A broker is away, so the markers cannot all be written."""
        if self.story.ending:
            self.keeps_if_it_is_to()
            self.ends(committed=True)
            self._is_ended = True

    def ends_what_was_open(self) -> None:
        """The first transaction commits. A client that goes on with the other protocol is a new instance."""
        self.keeps_if_it_is_to()
        self._v2 = self.story.then_v2
        if not self._is_ended:
            self.ends(committed=True)

    def ends(self, *, committed: bool) -> None:
        """The pair that follows is its own from then on."""
        following = self.client.end(self._pair, committed=committed, v2=self._v2)
        if following is None and self._pair[1] == LAST_EPOCH:
            following, _ = self.client.init(two_phase=self.story.two_phase, pair=self._pair)
        self._hold(following or self._pair)

    def _hold(self, pair: Pair) -> None:
        assert pair == self._pair or pair not in self._held, f"{pair} came back"
        self._sequence = self._sequence if pair == self._pair else 0
        self._pair = pair
        self._held.add(pair)
