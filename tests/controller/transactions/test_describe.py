"""What tools read of transactions: one id, all that match, in slices."""

import msgspec
import pytest

from fencepost.controller.errors import ErrorCode, InvalidRegularExpression
from fencepost.controller.replay import replay_record
from fencepost.controller.transactions.describe import (
    DESCRIBED_PARTITIONS_MAX,
    PATTERN_CHARACTERS_MAX,
    DescribedTransaction,
    ListedTransaction,
    ListTransactions,
    OpenTimes,
    Selection,
    describe,
    describe_many,
    list_slice,
    open_time_slice,
)
from fencepost.controller.transactions.states import State, record_of
from fencepost.records.types import ProducerId
from tests.controller.transactions.worlds import (
    AUDIT,
    ID,
    NOW_MS,
    ORDERS,
    TIMEOUT_MS,
    Coordinator,
    partitions,
    transaction,
)
from tests.together import table

LOGGED = list(State)[:6]
OPEN = (State.ONGOING, State.PREPARE_COMMIT, State.PREPARE_ABORT)


@table("state", LOGGED, ids=lambda state: state.wire_name)
def test_an_id_is_described(state: State) -> None:
    open_ = state in OPEN
    assert describe(Coordinator(transaction(state)).view, ID) == DescribedTransaction(
        transactional_id=ID,
        state=state.wire_name,
        transaction_timeout_ms=TIMEOUT_MS,
        started_ms=NOW_MS - 1000 if open_ else -1,
        producer_id=ProducerId(42),
        producer_epoch=5,
        partitions=(partitions(ORDERS, 0, 1),) if open_ else (),
    )


@pytest.mark.parametrize(
    ("transactional_id", "code"),
    [
        ("", ErrorCode.INVALID_REQUEST),
        ("nobody", ErrorCode.TRANSACTIONAL_ID_NOT_FOUND),
        ("x" * 5000, ErrorCode.TRANSACTIONAL_ID_NOT_FOUND),
    ],
    ids=["empty", "unknown", "longer-than-any"],
)
def test_an_id_that_there_is_not(transactional_id: str, code: ErrorCode) -> None:
    described = describe(Coordinator(transaction()).view, transactional_id)
    assert described == DescribedTransaction(transactional_id, code)
    assert (described.state, described.transaction_timeout_ms, described.partitions) == ("", 0, ())


@pytest.mark.parametrize(
    ("count", "described"),
    [
        pytest.param(DESCRIBED_PARTITIONS_MAX // 2, 2, id="two that reach the limit together"),
        pytest.param(DESCRIBED_PARTITIONS_MAX // 2 - 1, 3, id="one partition below it"),
        pytest.param(DESCRIBED_PARTITIONS_MAX, 1, id="one that reaches it alone"),
    ],
)
def test_the_partitions_of_one_answer_are_bounded(count: int, described: int) -> None:
    """One id may be asked for thousands of times, too."""
    view = Coordinator(transaction(State.ONGOING, partitions=(partitions(ORDERS, *range(count)),))).view
    rows = describe_many(view, (ID,) * 5 + ("none",))
    assert [row.error_code for row in rows] == [ErrorCode.NONE] * described + [
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    ] * (6 - described)


@table("state", LOGGED, ids=lambda state: state.wire_name)
def test_a_partition_whose_marker_is_written_is_no_longer_described(state: State) -> None:
    """find-hanging looks there; what is open is whole until it ends."""
    row = transaction(state, partitions=(partitions(AUDIT, 0), partitions(ORDERS, 0, 1)))
    marked = frozenset({(AUDIT, 0), (ORDERS, 1)})
    described = describe(Coordinator(row).view, ID, lambda _: marked)
    prepared = state in (State.PREPARE_COMMIT, State.PREPARE_ABORT)
    assert described.partitions == (
        (partitions(ORDERS, 0),) if prepared else Coordinator(row).row().partitions
    )


ROWS = {
    "audit-1": (State.EMPTY, 1, -1),
    "orders-1": (State.ONGOING, 2, NOW_MS - 10_000),
    "orders-2": (State.PREPARE_COMMIT, 3, NOW_MS - 20_000),
    "orders-3": (State.COMPLETE_ABORT, 4, NOW_MS - 30_000),
}


def everybody() -> Coordinator:
    coordinator = Coordinator()
    for transactional_id, (state, producer_id, started_ms) in ROWS.items():
        row = transaction(state, producer_id, started_ms=started_ms)
        path = {
            State.EMPTY: [],
            State.ONGOING: [State.ONGOING],
            State.PREPARE_COMMIT: [State.ONGOING, State.PREPARE_COMMIT],
            State.COMPLETE_ABORT: [State.ONGOING, State.PREPARE_ABORT, State.COMPLETE_ABORT],
        }[state]
        for each in [State.EMPTY, *path]:
            changed = {"transactional_id": transactional_id, "state": each}
            replay_record(coordinator.view, record_of(msgspec.structs.replace(row, **changed)))
    return coordinator


@table(
    ("asked", "found"),
    [
        pytest.param(ListTransactions(), list(ROWS), id="no-filter"),
        pytest.param(ListTransactions(("Ongoing",)), ["orders-1"], id="one-state"),
        pytest.param(ListTransactions(("Ongoing", "Empty")), ["audit-1", "orders-1"], id="two-states"),
        pytest.param(ListTransactions(("Nowhere",)), [], id="an-unknown-state-matches-nothing"),
        pytest.param(ListTransactions(("Nowhere", "Empty")), ["audit-1"], id="an-unknown-state-and-a-known"),
        pytest.param(ListTransactions(("Dead",)), [], id="dead-is-never-stored"),
        pytest.param(ListTransactions((), (ProducerId(3), ProducerId(9))), ["orders-2"], id="producer-ids"),
        pytest.param(ListTransactions(duration_ms=0), ["orders-1", "orders-2"], id="open-for-any-time"),
        pytest.param(ListTransactions(duration_ms=9_999), ["orders-1", "orders-2"], id="open-for-longer"),
        pytest.param(ListTransactions(duration_ms=10_000), ["orders-2"], id="not-for-exactly-that-long"),
        pytest.param(ListTransactions(duration_ms=20_000), [], id="open-for-longer-than-any"),
        pytest.param(ListTransactions(pattern="orders-[12]"), ["orders-1", "orders-2"], id="a-pattern"),
        pytest.param(ListTransactions(pattern="orders"), [], id="a-pattern-is-of-the-whole-id"),
        pytest.param(ListTransactions(pattern=""), list(ROWS), id="an-empty-pattern-lets-all-pass"),
        pytest.param(
            ListTransactions(("Ongoing", "PrepareCommit"), (ProducerId(3),), 0, ".*"),
            ["orders-2"],
            id="all-at-once",
        ),
    ],
)
@table("rows_max", [1, 3, 100])
def test_a_list_is_what_every_filter_lets_pass(
    asked: ListTransactions, found: list[str], rows_max: int
) -> None:
    """Row 939.7."""
    coordinator = everybody()
    selection = Selection(asked)
    assert selection.unknown_state_filters == tuple(n for n in asked.state_filters if n == "Nowhere")
    listed: list[ListedTransaction] = []
    after: str | None = None
    for _ in range(len(ROWS) + 1):
        rows, after = list_slice(coordinator.view, selection, after=after, rows_max=rows_max, now_ms=NOW_MS)
        listed += rows
        if after is None:
            break
    assert after is None
    assert [row.transactional_id for row in listed] == found
    for row in listed:
        state, producer_id, _ = ROWS[row.transactional_id]
        assert (row.producer_id, row.state) == (producer_id, state.wire_name)


@pytest.mark.parametrize(
    "pattern",
    ["(", r"(a)\1", "(?=a)", "x" * (PATTERN_CHARACTERS_MAX + 1)],
    ids=["unbalanced", "a-backreference", "a-lookahead", "one-character-too-long"],
)
def test_a_pattern_that_is_none(pattern: str, capfd: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(InvalidRegularExpression):
        Selection(ListTransactions(pattern=pattern))
    assert "re2" not in capfd.readouterr().err


def test_a_pattern_that_would_hold_pythons_own_for_ever() -> None:
    coordinator = Coordinator()
    coordinator.init(of="a" * 400)
    selection = Selection(ListTransactions(pattern="(a|a)*b" + "(a*)*" * 50))
    assert list_slice(coordinator.view, selection, after=None, rows_max=9, now_ms=NOW_MS) == ((), None)


@pytest.mark.parametrize("rows_max", [1, 2, 100])
def test_the_longest_that_is_open(rows_max: int) -> None:
    """Row 939.9: only Ongoing counts, what is ended is out of its producer's hands."""
    coordinator = Coordinator()
    times, after = open_time_slice(
        coordinator.view, OpenTimes(), after=None, rows_max=rows_max, now_ms=NOW_MS
    )
    assert (times, after) == (OpenTimes(), None)
    for number, timeout_ms in enumerate((60_000, 1_000, 30_000)):
        pair = coordinator.init(of=f"p-{number}", timeout_ms=timeout_ms)
        coordinator.add(*pair, of=f"p-{number}")
        coordinator.now_ms += 10
    for number in range(2):
        pair = coordinator.init(of=f"t-{number}", two_phase=True, init_version=6)
        coordinator.add(*pair, of=f"t-{number}")
        coordinator.now_ms += 1
    for _ in range(6):
        times, after = open_time_slice(
            coordinator.view, times, after=after, rows_max=rows_max, now_ms=coordinator.now_ms
        )
        if after is None:
            break
    assert times == OpenTimes(longest_ms=32, two_phase=2, two_phase_longest_ms=2)


@pytest.mark.row("939.6")
def test_a_list_says_what_waits_for_an_external_coordinator_and_for_how_long() -> None:
    coordinator = Coordinator()
    for name, two_phase in (("plain", False), ("two", True), ("two-idle", True), ("kept", True)):
        pair = coordinator.init(of=name, two_phase=two_phase, init_version=6 if two_phase else 4)
        if name != "two-idle":
            coordinator.add(*pair, of=name)
    coordinator.now_ms += 500
    coordinator.keep(of="kept", two_phase=True)
    coordinator.keep(of="plain")

    def listed() -> dict[str, tuple[int, bool]]:
        rows, _ = list_slice(
            coordinator.view, Selection(ListTransactions()), after=None, rows_max=9, now_ms=coordinator.now_ms
        )
        return {each.transactional_id: (each.two_phase_ms, each.is_kept) for each in rows}

    assert listed() == {
        "kept": (500, True),
        "plain": (-1, True),
        "two": (500, False),
        "two-idle": (-1, False),
    }
    coordinator.end(*coordinator.keep(of="kept", two_phase=True)[:2], committed=True, of="kept")
    assert listed()["kept"] == (500, False), "its markers are on their way"
    coordinator.complete("kept")
    assert listed()["kept"] == (-1, False)
