"""Producer snapshots held against the batches before them, of producers that have no transactions too."""

import pytest

from fencepost.audit.walks.columns import FLAG_COMPACTED, FLAG_DISPLACED, FLAG_HOLE, FLAG_OPAQUE
from fencepost.audit.walks.snapshots import SNAPSHOTS
from tests.audit.walks.feed import Row, feed, said
from tests.audit.walks.named import Cases

BEGAN_MS = 1_700_000_000_000
CASES: Cases["State"] = Cases()
case = CASES.case


class State:
    """A log of three producers that wrote ten records each in turn, and its snapshot at the end."""

    def __init__(self, rounds: int = 2, *, flags: int = 0) -> None:
        self.rows: list[Row] = []
        self.end = 0
        for turn in range(rounds):
            for producer in range(3):
                self.data(producer, 10 * turn, flags=flags)
        self.entries = [
            self.entry(producer, 10 * rounds - 1, self.end - 10 * (2 - producer) - 1) for producer in range(3)
        ]

    def data(self, producer: int, sequence: int, **columns: object) -> Row:
        row = {
            "topic": "orders", "partition": 0, "rank": 1, "at": self.end, "last_offset": self.end + 9,
            "node": 1,
            "path": "/n1/orders-0/0.log", "position": 10 * self.end, "producer_id": producer,
            "producer_epoch": 4, "base_sequence": sequence, "timestamp_ms": BEGAN_MS + self.end, "flags": 0,
            **columns,
        }  # fmt: skip
        self.end += 10
        self.rows.append(row)
        return row

    def entry(self, producer: int, sequence: int, last: int, **columns: object) -> Row:
        row = {
            "topic": "orders", "partition": 0, "rank": 0, "at": self.end, "node": 1,
            "position": 46 * producer,
            "path": f"/n1/orders-0/{self.end}.snapshot", "producer_id": producer, "producer_epoch": 4,
            "last_sequence": sequence, "last_offset": last, "timestamp_ms": BEGAN_MS + last - 9,
            "first_offset": -1, "copy_first": 0, **columns,
        }  # fmt: skip
        self.rows.append(row)
        return row


@case()
def a_snapshot_as_the_log_has_it() -> State:
    return State()


@case()
def a_log_that_goes_on_after_the_snapshot() -> State:
    state = State()
    state.data(0, 20, producer_epoch=4)
    state.data(2, 0, producer_epoch=5)
    return state


@case("integrity.snapshot")
def a_sequence_is_another() -> State:
    state = State()
    state.entries[1]["last_sequence"] -= 1
    return state


@case("integrity.snapshot")
def a_last_offset_is_another() -> State:
    state = State()
    state.entries[1]["last_offset"] -= 1
    return state


@case("integrity.snapshot")
def a_producer_of_which_the_log_has_nothing() -> State:
    state = State()
    state.rows = [row for row in state.rows if row["rank"] == 0 or row["producer_id"] != 1]
    return state


@case()
def a_producer_that_wrote_before_the_log_begins() -> State:
    state = State()
    state.entry(7, 9, 29, copy_first=30)
    return state


@case("integrity.snapshot")
def a_coordinator_epoch_is_not_that_of_the_last_marker() -> State:
    state = State()
    state.data(1, -1, control_type=1, coordinator_epoch=3)
    for entry in state.entries:
        entry["at"] = state.end
    state.entries[1]["coordinator_epoch"] = 4
    return state


def led(first: int, coordinator_epoch: int) -> State:
    """A marker of coordinator epoch 3, data after it, and a copy that begins at ``first``."""
    state = State()
    state.data(1, -1, control_type=1, coordinator_epoch=3)
    state.data(1, 20)
    for entry in state.entries:
        entry["at"] = state.end
    state.entries[1] |= {
        "coordinator_epoch": coordinator_epoch, "copy_first": first, "last_sequence": 29,
        "last_offset": state.end - 1, "timestamp_ms": BEGAN_MS + state.end - 10,
    }  # fmt: skip
    return state


@case()
def a_broker_that_started_again_behind_the_last_marker() -> State:
    """Seen in Apache Kafka 4.1 after a kill: it reads the producers' states out of what its log still has."""
    return led(70, -1)


@case()
def a_broker_that_has_not_started_again_behind_the_last_marker() -> State:
    return led(70, 3)


@case("integrity.snapshot")
def a_coordinator_epoch_of_no_marker_where_the_last_one_is_not_kept() -> State:
    return led(70, 4)


@case("integrity.snapshot")
def no_coordinator_epoch_where_the_last_marker_is_kept() -> State:
    return led(60, -1)


@case("integrity.snapshot")
def a_producer_is_there_twice() -> State:
    state = State()
    state.entry(1, 19, state.end - 11)
    return state


@case("integrity.snapshot")
def an_epoch_is_above_the_logs() -> State:
    state = State()
    state.entries[1]["producer_epoch"] += 1
    return state


@case("integrity.snapshot")
def an_epoch_is_below_the_logs() -> State:
    state = State()
    state.entries[1]["producer_epoch"] -= 1
    return state


@case()
def the_marker_of_a_higher_epoch_was_compacted_away() -> State:
    state = State(flags=FLAG_COMPACTED)
    state.entries[1].update(producer_epoch=5, last_sequence=-1, last_offset=-1)
    return state


@case("integrity.snapshot")
def a_producer_is_not_in_it() -> State:
    state = State()
    state.rows.remove(state.entries[1])
    return state


@case()
def the_producer_that_wrote_longest_ago_is_not_in_it() -> State:
    state = State()
    state.rows.remove(state.entries[0])
    return state


@case()
def a_producer_that_is_older_than_all_but_one_whose_transaction_is_open() -> State:
    """A broker forgets no producer while its transaction is open."""
    state = State()
    state.entries[0]["first_offset"] = 30
    state.rows.remove(state.entries[1])
    return state


@case()
def a_copy_that_never_held_the_producer() -> State:
    state = State(1)
    state.rows.remove(state.entries[1])
    for each in state.entries:
        each["copy_first"] = 20
    return state


def cleaned(**held: object) -> State:
    """Of a compacted log a cleaner has been through all, producer 1's last batch is left: ``held``."""
    state = State(flags=FLAG_COMPACTED)
    for each in state.entries:
        each["copy_first"] = state.end
    own = {"held_producer_id": 1, "held_epoch": 4, "held_sequence": 10, "held_offset": state.end - 20}
    state.entries[1].update(own | held)
    return state


@case()
def a_batch_that_a_cleaner_has_left_as_the_snapshot_has_it() -> State:
    return cleaned()


@case("integrity.snapshot")
def a_sequence_is_not_that_of_a_batch_that_a_cleaner_has_left() -> State:
    return cleaned(held_sequence=11)


@case("integrity.snapshot")
def an_epoch_is_below_that_of_a_batch_that_a_cleaner_has_left() -> State:
    return cleaned(held_epoch=5)


@case()
def an_epoch_is_above_that_of_a_batch_that_a_cleaner_has_left() -> State:
    """Its marker's, which is gone."""
    return cleaned(held_epoch=3)


@case("integrity.snapshot")
def a_batch_that_a_cleaner_has_left_is_of_another_producer() -> State:
    return cleaned(held_producer_id=2)


@case()
def of_the_last_batch_a_cleaner_has_left_nothing() -> State:
    return cleaned(held_producer_id=None, held_sequence=0)


@case()
def a_producer_comes_only_after_the_snapshot() -> State:
    state = State()
    state.data(9, 0)
    return state


@pytest.mark.parametrize("flag", [FLAG_OPAQUE, FLAG_HOLE, FLAG_DISPLACED])
def test_what_comes_after_a_batch_that_is_not_as_it_was_is_not_judged(flag: int) -> None:
    state = State()
    state.rows[2]["flags"] = flag
    state.entries[1]["last_sequence"] -= 1
    assert said(feed(SNAPSHOTS, state.rows)) == []


@pytest.mark.parametrize("sizes", [(1_000_000,), (1,), (3, 1)])
@pytest.mark.parametrize("name", CASES)
def test_what_is_found_in_a_producer_snapshot(name: str, sizes: tuple[int, ...]) -> None:
    make, expected = CASES[name]
    found = feed(SNAPSHOTS, make().rows, sizes)
    assert said(found) == expected
    assert all(each["path"].endswith(".snapshot") and each["producer_id"] == 1 for each in found)
