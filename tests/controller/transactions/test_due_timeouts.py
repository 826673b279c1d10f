"""Which transactions are past their timeouts, and how many of them share an entry."""

import msgspec

from fencepost.controller.transactions.expiry import decide_timeouts, due_timeouts
from fencepost.controller.transactions.states import State
from fencepost.records.logged import cost_of, encode_record
from tests.controller.transactions.worlds import ID, NOW_MS, TIMEOUT_MS, Coordinator, transaction
from tests.together import table

LOGGED = list(State)[:6]


@table(("short_by", "count"), [(0, 3), (1, 2)])
def test_as_many_time_out_as_the_entry_has_room_for(short_by: int, count: int) -> None:
    """At least one, whatever it takes."""
    ids = ("a", "b", "c")
    rows = [
        msgspec.structs.replace(transaction(State.ONGOING, number), transactional_id=each)
        for number, each in enumerate(ids, 50)
    ]
    view = Coordinator(*rows).view
    at_ms = NOW_MS + TIMEOUT_MS
    costs = []
    for each in ids:
        alone = decide_timeouts(view, at_ms, (each,), activated_ms=0)
        costs.append(alone.extra_cost + sum(cost_of(one, encode_record(one)[1]) for one in alone.records))
    view.room = sum(costs) - short_by
    decision = decide_timeouts(view, at_ms, ids, activated_ms=0)
    assert decision.response.transactional_ids == ids[:count]
    assert decision.response.more == (count < len(ids))
    view.room = 1
    assert decide_timeouts(view, at_ms, ids, activated_ms=0).response.transactional_ids == ids[:1]


@table("state", [*LOGGED, None])
def test_of_ids_that_are_named_only_open_ones_time_out(state: State | None) -> None:
    """Others have ended since they were found, or are gone."""
    rows = [] if state is None else [transaction(state)]
    decision = decide_timeouts(Coordinator(*rows).view, NOW_MS + TIMEOUT_MS, (ID,), activated_ms=0)
    assert decision.response.transactional_ids == ((ID,) if state is State.ONGOING else ())
    assert bool(decision.records) == (state is State.ONGOING)


@table("after", [None, (0, ""), (NOW_MS + TIMEOUT_MS, "p-1"), (NOW_MS + TIMEOUT_MS + 2, "p-9")])
def test_one_look_finds_each_once(after: tuple[int, str] | None) -> None:
    """Those that are due by their deadlines come first; the walk goes on behind them."""
    rows = [
        msgspec.structs.replace(
            transaction(State.ONGOING, 50 + number, started_ms=NOW_MS + number),
            transactional_id=f"p-{number}",
        )
        for number in range(3)
    ]
    view = Coordinator(*rows).view
    for at_ms, ids in ((0, ("p-0",)), (1, ("p-0", "p-1")), (2, ("p-0", "p-1", "p-2"))):
        found = due_timeouts(
            view, NOW_MS + TIMEOUT_MS + at_ms, activated_ms=NOW_MS - 1_000_000, grace_ms=0, after=after
        )
        assert (found.transactional_ids, found.more, found.after) == (ids, False, None)
