"""Laws of group-aware InitProducerId, in any history of a group, its members' producers and others.

Lost      a pair that was assigned a partition, or has an offset of it pending, writes nothing from the moment
          on that another transactional id is to be given the partition.
Over      when that one is given it, no transaction of such a pair is open or prepared.
Follow    the index of owners is what a scan says, and a reader of the log's bytes holds the same rows.
"""

from contextlib import suppress
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from fencepost.controller.errors import ApiError
from fencepost.controller.transactions.group_init import RivalsEnding
from fencepost.controller.transactions.pairs import client_pair
from fencepost.controller.transactions.states import EXPIRABLE_STATES, PREPARED_STATES, State, get
from tests.controller.transactions.group_worlds import PRODUCER_A, PRODUCER_B, A, B, LoopCoordinator
from tests.examples import examples

Pair = tuple[int, int]
NAMES = (PRODUCER_A, PRODUCER_B, "plain")


class History:
    """What the clients of each id were answered, were assigned, and have pending."""

    def __init__(self) -> None:
        self.world = LoopCoordinator((0, 1), (2,))
        self.pairs: dict[str, list[Pair]] = {name: [] for name in NAMES}
        self.names: dict[Pair, str] = {}
        self.assigned: dict[Pair, set[int]] = {}
        self.pending: dict[Pair, set[int]] = {}
        self.lost: dict[Pair, set[int]] = {}
        self.given = {A: {0, 1}, B: {2}}

    def rebalance(self, owners: tuple[bool, bool, bool]) -> None:
        first = tuple(index for index in range(3) if owners[index])
        second = tuple(index for index in range(3) if not owners[index])
        self.given = {A: set(first), B: set(second)}
        self.world.rebalance(first, second)

    def init_as(self, name: str, who: str, behind: int, some: int) -> None:
        mine = set(sorted(self.given[who])[: 1 + some])
        said = self.world.said(*sorted(mine), by=who, generation=self.world.generation - behind)
        held = {pair: wanted for pair in self.names if (wanted := mine & self.held(pair))}
        others = {pair: wanted for pair, wanted in held.items() if self.names[pair] != name}
        ending_before = {each for each in NAMES if self.state(each) in PREPARED_STATES}
        try:
            pair = self.world.init_for(said, of=name)
        except RivalsEnding as ending:
            fenced = set(ending.transactional_ids) - ending_before
            for other, wanted in others.items():
                if self.names[other] in fenced:
                    self.lost.setdefault(other, set()).update(wanted)
            raise
        assert behind == 0, "an old generation is refused"
        for other, wanted in others.items():
            self.lost.setdefault(other, set()).update(wanted)
        for other, wanted in self.lost.items():
            is_last = self.pairs[self.names[other]][-1] == other
            if wanted & mine and is_last and self.names[other] != name:
                assert self.state(self.names[other]) in EXPIRABLE_STATES, "Over"
        self.answered(name, pair, mine)

    def state(self, name: str) -> State | None:
        row = get(self.world.view, name)
        return None if row is None else row.state

    def held(self, pair: Pair) -> set[int]:
        """The partitions that the pair was assigned, and those with an offset in its open transaction."""
        row = get(self.world.view, self.names[pair])
        is_open = row is not None and row.state is State.ONGOING and client_pair(row) == pair
        return self.assigned.get(pair, set()) | (self.pending.get(pair, set()) if is_open else set())

    def init(self, name: str, back: int | None) -> None:
        before = (-1, -1) if back is None else self.pair(name, back)
        pair = self.world.init(*before, of=name)
        if before in self.lost and get(self.world.view, name) is not None:
            assert pair[1] == 0, "a pair that lost its partition goes on"  # its id expired, and began anew
        self.answered(name, pair, set(self.assigned.get(before, ())))

    def answered(self, name: str, pair: Pair, held: set[int]) -> None:
        self.pairs[name].append(pair)
        self.names[pair] = name
        self.assigned.setdefault(pair, set()).update(held)

    def pair(self, name: str, back: int) -> Pair:
        pairs = self.pairs[name]
        return pairs[-1 - back % len(pairs)] if pairs else (-1, -1)

    def write(self, name: str, back: int) -> None:
        pair = self.pair(name, back)
        self.world.add(*pair, of=name)
        assert pair not in self.lost, "Lost"

    def commit(self, name: str, back: int, index: int) -> None:
        pair = self.pair(name, back)
        self.world.add_offsets(*pair, of=name)
        assert pair not in self.lost, "Lost"
        if self.world.commit_in(pair, 9, of=name, partition=index) == 0:
            self.pending.setdefault(pair, set()).add(index)

    def end(self, name: str, back: int, committed: bool) -> None:
        pair = self.pair(name, back)
        before = get(self.world.view, name)
        self.world.end(*pair, committed=committed, of=name)
        self.pending.pop(pair, None)
        changed = get(self.world.view, name) != before
        assert pair not in self.lost or not changed, "Lost"


names, backs = st.sampled_from(NAMES), st.sampled_from([0, 0, 0, 1, 2])
steps = st.one_of(
    st.tuples(st.just("rebalance"), st.tuples(st.booleans(), st.booleans(), st.booleans())),
    st.tuples(
        st.just("init_as"), names, st.sampled_from([A, B]), st.sampled_from([0, 0, 0, 1]), st.integers(0, 2)
    ),
    st.tuples(st.just("init_as"), names, st.sampled_from([A, B]), st.just(0), st.integers(0, 2)),
    st.tuples(st.just("init"), names, st.none() | backs),
    st.tuples(st.just("write"), names, backs),
    st.tuples(st.just("commit"), names, backs, st.integers(0, 2)),
    st.tuples(st.just("end"), names, backs, st.booleans()),
    st.tuples(st.just("complete"), names),
    st.tuples(st.just("complete"), names),
    st.tuples(st.just("time_out"), st.sampled_from([1_000, 61_000])),
)


@settings(deadline=None, max_examples=examples(300))
@given(st.lists(steps, max_size=40))
def test_a_pair_that_lost_a_partition_writes_nothing_more(history: list[tuple[Any, ...]]) -> None:
    play = History()
    for name, *arguments in history:
        with suppress(ApiError):
            if name in ("complete", "time_out"):
                getattr(play.world, name)(*arguments)
            else:
                getattr(play, name)(*arguments)
        play.world.check()
