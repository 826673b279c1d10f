"""Every row of a transactional id that its clients can lead to in a few steps, and what they were answered.

From an id that is unknown, one that an instance holds, and one that Kafka wrote: an instance begins, goes on,
keeps what is open, adds, ends with either protocol, repeats, times out; markers are written. Steps that are
refused lead nowhere. Two rows are one if they differ in times alone.
"""

from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any, Final

from fencepost.controller.errors import ApiError, ConcurrentTransactions
from fencepost.controller.transactions.states import State, Transaction, get
from tests.controller.transactions.kafka_rules import FRESH, NONE, Known, Pair
from tests.controller.transactions.worlds import ID, TIMEOUT_MS, Coordinator, transaction

STEPS_MAX: Final = 5
EPOCHS: Final = (5, 32764, 32765, 32766)
FIRST_FRESH: Final = 1000


class Told(Coordinator):
    """A coordinator with one transactional id, and what clients know of it."""

    def __init__(self, *rows: Transaction) -> None:
        super().__init__(*rows, next_producer_id=FIRST_FRESH)
        held = tuple((each.producer_id, each.producer_epoch) for each in rows)
        self.named = False  # an InitProducerId had the pair
        self.knows_instance = all(each.instance_epoch != -1 for each in rows)
        self.instance: tuple[Pair, ...] = held if self.knows_instance else ()
        self.last: Pair | None = None
        self.late: Pair | None = None
        self.unnamed: Pair | None = None
        self.is_given = True

    def known(self) -> Known:
        """Of the row only Kafka's own fields are read, and which producer ids it names."""
        row = get(self.view, ID)
        if row is None:
            return Known()
        own = (row.producer_id, row.producer_epoch)
        other = (row.next_producer_id, row.next_producer_epoch)
        named = (row.producer_id, row.previous_producer_id, row.next_producer_id)
        return Known(
            row.state,
            own,
            own if row.next_producer_epoch == -1 else other,
            row.previous_producer_id,
            self.last,
            self.instance,
            self.is_given,
            self.late,
            self.unnamed,
            frozenset((*named, *(each.producer_id for each in row.fences))) - {-1},
        )

    def begin(self, **asked: Any) -> None:
        self.knows_instance = True
        try:
            pair = self.init(**asked)
        except ConcurrentTransactions:
            if self.written and self.row().state is State.PREPARE_ABORT and self.is_given:
                self._new_instance()
            raise
        self._new_instance(pair)

    def _new_instance(self, *given: Pair) -> None:
        self.instance, self.is_given = given, bool(given)
        self.last = self.late = self.unnamed = None

    def keep_open(self, *, two_phase: bool) -> None:
        pair = self.keep(two_phase=two_phase)[:2]
        self.knows_instance = True
        self._new_instance(pair)

    def go_on(self, pair: Pair) -> None:
        was_open = self.row().state is State.ONGOING
        was_given = self.is_given
        try:
            answer = self.init(*pair)
        except ConcurrentTransactions:
            if was_open:
                self._aborted(pair)
            raise
        self.named = True
        if not self.knows_instance and answer[1] == 0:
            self.knows_instance, self.instance = True, ()
        self._bumped(pair, answer, ends_late=was_given)

    def finish(self, pair: Pair, *, committed: bool, bumps_epoch: bool) -> None:
        was_given = self.is_given
        answer = self.end(*pair, committed=committed, bumps_epoch=bumps_epoch)
        if answer is not None:
            self._bumped(pair, answer, ends_late=was_given)

    def run_late(self) -> None:
        client = self.known().client
        if self.time_out(TIMEOUT_MS):
            late, unnamed = (client, None) if self.named or self.knows_instance else (None, client)
            self._aborted(client)
            self.late, self.unnamed = late, unnamed

    def _aborted(self, client: Pair) -> None:
        """By the coordinator: no producer has the next pair. From here on Kafka's row says its instance."""
        if not self.knows_instance:
            self.instance, self.knows_instance = (client,), True
        self.last, self.late, self.unnamed, self.is_given = None, None, None, False

    def _bumped(self, pair: Pair, answer: Pair, *, ends_late: bool) -> None:
        if answer in self.instance:
            return
        if self.knows_instance:
            self.instance = (*self.instance, answer)
        self.last, self.is_given = pair, True
        if ends_late:
            self.late = self.unnamed = None
        elif pair == self.unnamed and answer[0] != pair[0]:
            self.late, self.unnamed = pair, None  # it named its epoch


Step = Callable[[Told], object]


def _client(world: Told) -> Pair:
    return world.known().client


def _older(world: Told) -> Pair:
    """The newest pair that the holder of the id had before, or invents."""
    older = [each for each in world.instance if each != world.known().client]
    return older[-1] if older else (42, 0)


STEPS: Final[dict[str, Step]] = {
    "begin": lambda world: world.begin(),
    "begin with two phases": lambda world: world.begin(two_phase=True, init_version=6),
    "keep": lambda world: world.keep_open(two_phase=False),
    "keep with two phases": lambda world: world.keep_open(two_phase=True),
    "go on": lambda world: world.go_on(_client(world)),
    "go on again": lambda world: world.go_on(_older(world)),
    "add v1": lambda world: world.add(*_client(world)),
    "add v2": lambda world: world.add(*_client(world), for_client=True),
    "commit v1": lambda world: world.finish(_client(world), committed=True, bumps_epoch=False),
    "abort v1": lambda world: world.finish(_client(world), committed=False, bumps_epoch=False),
    "commit v2": lambda world: world.finish(_client(world), committed=True, bumps_epoch=True),
    "abort v2": lambda world: world.finish(_client(world), committed=False, bumps_epoch=True),
    "abort v2 again": lambda world: world.finish(_older(world), committed=False, bumps_epoch=True),
    "markers": Coordinator.complete,
    "time out": Told.run_late,
}


def reachable(start: Transaction | None, steps_max: int = STEPS_MAX) -> Iterator[tuple[str, Told]]:
    """Each row once, with the steps that lead there, the shortest first. The row is not to be changed."""
    first = Told(*([] if start is None else [start]))
    seen = {_looks(first)}
    worlds: list[tuple[tuple[str, ...], Told]] = [((), first)]
    while worlds:
        further: list[tuple[tuple[str, ...], Told]] = []
        for path, world in worlds:
            yield ", ".join(path), world
            for name in STEPS if len(path) < steps_max else ():
                after = _stepped(world, name)
                look = _looks(after)
                if look not in seen:
                    seen.add(look)
                    further.append(((*path, name), after))
        worlds = further


def _stepped(world: Told, name: str) -> Told:
    after = world.copy()
    if get(world.view, ID) is not None or name.startswith(("begin", "keep")):
        with suppress(ApiError):
            STEPS[name](after)
    return after


def _looks(world: Told) -> object:
    row = get(world.view, ID)
    if row is None:
        return None
    return (
        world.known(), row.transaction_timeout_ms, row.client_transaction_version, row.instance_epoch,
        row.last_producer_epoch, row.init_version, row.timed_out, row.partitions,
    )  # fmt: skip


def starts(epoch: int) -> dict[str, Transaction | None]:
    """Rows to begin with. Kafka's says nothing of instances; 32767 is Kafka's fence of a producer."""
    kafkas = {"instance_epoch": -1, "init_version": -1}
    return {
        "unknown": None,
        "held": transaction(epoch=epoch),
        "from Kafka": transaction(State.ONGOING, epoch=epoch, **kafkas),
    }


def pairs_of(row: Known) -> list[Pair]:
    """Every producer id and epoch that may be presented, and some that no producer has."""
    ids = {42, row.transaction[0], row.client[0], row.previous, *row.remembered, FRESH, 7, -1}
    ids |= {producer_id for producer_id, _ in row.instance}
    named = {row.transaction[1], row.client[1], *(epoch for _, epoch in row.instance)}
    epochs = {-1, 0, 1, 32764, 32765, 32766, 32767}
    epochs |= {each + by for each in named for by in (-2, -1, 0, 1, 2) if -1 <= each + by <= 32767}
    return [NONE, *((producer_id, epoch) for producer_id in sorted(ids) for epoch in sorted(epochs))]
