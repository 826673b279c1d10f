"""``transaction.version`` is lowered and raised in the middle of transactions, with the same binaries.

What is open, prepared for two-phase commit, kept by another instance, or ending with a broker away, at small
epochs and where the producer id changes, ends as its client says, with V1's requests or with V2's.
"""

from collections.abc import Iterator
from typing import Final, NamedTuple

import pytest

from fencepost.controller.errors import ErrorCode
from tests.harness.nodes import NO_QUOTA, Nodes, running, wait_for
from tests.processes.test_transactions_v2 import restart_leader, says
from tests.processes.txn_client import NONE, TWO_PHASE, Pair, client, read

pytestmark = pytest.mark.slow

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
        state = "ending" if self.ending else "prepared" if self.two_phase else "open"
        return f"{way}-{state}-{self.epoch}"


STORIES: Final = (
    Story(v2=True, then_v2=False, epoch=LAST_EPOCH, ending=True),
    Story(v2=False, then_v2=False),
    Story(v2=True, then_v2=True),
    Story(v2=True, then_v2=False),
    Story(v2=False, then_v2=True),
    Story(v2=True, then_v2=False, ending=True),
    Story(v2=False, then_v2=False, ending=True),
    Story(v2=True, then_v2=True, two_phase=True),
    Story(v2=True, then_v2=False, two_phase=True),
    Story(v2=False, then_v2=False, two_phase=True),
)


@pytest.fixture(scope="module")
def nodes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Nodes]:
    with running(tmp_path_factory.mktemp("downgrade") / "cluster", NO_QUOTA, TWO_PHASE) as nodes:
        yield nodes


@pytest.mark.row("939.12")
def test_transactions_of_every_kind_survive_a_downgrade_and_the_upgrade_after_it(nodes: Nodes) -> None:
    under_way = {story: Life(nodes, story) for story in STORIES}
    away = nodes.followers()[0]
    nodes.kill(away)
    for life in under_way.values():
        life.ends_if_it_is_to()
    before = {story: life.client.stored() for story, life in under_way.items()}
    nodes.run("features", "downgrade", "--feature", "transaction.version=0")
    assert {story: life.client.stored() for story, life in under_way.items()} == before
    nodes.start(away)
    wait_for("clients learn that it is at 0", lambda: says(nodes, 0))
    nodes.await_followed()
    restart_leader(nodes)
    for life in under_way.values():
        life.ends_what_was_open()
        life.writes(SECOND)
    nodes.run("features", "upgrade", "--feature", "transaction.version=2")
    wait_for("clients learn that it is at 2", lambda: says(nodes, 2))
    restart_leader(nodes)
    for life in under_way.values():
        life.ends(committed=False)
        life.writes(THIRD)
        life.ends(committed=True)
    for story, life in under_way.items():
        assert read(life.client) == sorted([FIRST, THIRD] * PARTITIONS), story
        assert life.producer_ids == 1 + (story.epoch == LAST_EPOCH), story
    assert nodes.complaints() == []


class Life:
    """One transactional id. What it is to end is written when this is made."""

    def __init__(self, nodes: Nodes, story: Story) -> None:
        self.client = client(nodes, story.name, PARTITIONS)
        self._story, self._v2 = story, story.v2
        self._pair: Pair = NONE
        self._held: set[Pair] = set()
        self._is_ended = False
        self._sequence = 0
        if story.epoch:
            self._hold(self.client.init(two_phase=story.two_phase)[0])
            self.client.crash_until(story.epoch - 1, keep=False)
        self._hold(self.client.init(two_phase=story.two_phase)[0])
        assert self._pair[1] == story.epoch
        self.writes(FIRST)

    @property
    def producer_ids(self) -> int:
        return len({producer_id for producer_id, _ in self._held})

    def writes(self, value: bytes) -> None:
        """A record in each partition."""
        if not self._v2:
            self.client.add(self._pair, *EVERY_PARTITION)
        for partition in EVERY_PARTITION:
            code = self.client.write(self._pair, value, partition, self._sequence, v2=self._v2)
            assert code == ErrorCode.NONE, (self._story, code)
        self._sequence += 1

    def ends_if_it_is_to(self) -> None:
        """A broker is away, so the markers cannot all be written."""
        if self._story.ending:
            self.ends(committed=True)
            self._is_ended = True

    def ends_what_was_open(self) -> None:
        """The first transaction commits. A client that goes on with the other protocol is a new instance."""
        if self._story.two_phase:
            kept, ongoing = self.client.init(keep=True)
            assert ongoing == self._pair
            self._hold(kept)
        self._v2 = self._story.then_v2
        if not self._is_ended:
            self.ends(committed=True)

    def ends(self, *, committed: bool) -> None:
        """The pair that follows is its own from then on."""
        following = self.client.end(self._pair, committed=committed, v2=self._v2)
        if following is None and self._pair[1] == LAST_EPOCH:
            following, _ = self.client.init(two_phase=self._story.two_phase, pair=self._pair)
        self._hold(following or self._pair)

    def _hold(self, pair: Pair) -> None:
        assert pair == self._pair or pair not in self._held, f"{pair} came back"
        self._sequence = self._sequence if pair == self._pair else 0
        self._pair = pair
        self._held.add(pair)
