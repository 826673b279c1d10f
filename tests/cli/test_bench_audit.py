"""Clients were told the truth: what was refused is not in the archive, what was granted is."""

import pytest

from fencepost.bench.archive_audit import Findings, compare
from fencepost.bench.history import Attempt
from fencepost.cluster.console import Unreadable
from fencepost.records.types import BrokerEpoch, BrokerId, Offset, ProducerId, Term
from fencepost.snapshots.history import Allocation
from fencepost.snapshots.segments import Hole
from tests.together import table

BROKERS = {0: BrokerId(100), 1: BrokerId(101)}


def granted(start: int, sent: int, *, client: int = 0) -> Attempt:
    return Attempt(client, 1, sent, sent + 5, "ok", start, 10)


def told(outcome: str, sent: int, *, client: int = 0) -> Attempt:
    return Attempt(client, 1, sent, sent + 5, outcome)


def kept(first: int | None, *, broker: int = 100, length: int = 10) -> Allocation:
    start = None if first is None else ProducerId(first)
    end = ProducerId((first or 0) + length)
    return Allocation(Offset(first or 0), Term(1), 0, BrokerId(broker), BrokerEpoch(1), start, end)


CASES = [
    pytest.param([], [], (0, 0), id="nothing"),
    pytest.param([granted(0, 0), granted(10, 10)], [kept(0), kept(10)], (0, 0), id="all-granted-all-kept"),
    pytest.param([told("refused:41", 0), granted(0, 10)], [kept(0)], (0, 0), id="refused-and-not-done"),
    pytest.param([told("unknown", 0), granted(0, 10)], [kept(0)], (0, 0), id="unknown-and-not-done"),
    pytest.param([told("unknown", 0), granted(10, 10)], [kept(0), kept(10)], (0, 0), id="unknown-and-done"),
    pytest.param([told("unknown", 0), granted(0, 10)], [kept(0), kept(10)], (0, 0), id="unknown-done-later"),
    pytest.param([told("refused:41", 0)], [kept(0)], (1, 0), id="refused-and-done"),
    pytest.param(
        [told("refused:41", 0), granted(10, 10), told("unknown", 20)], [kept(0), kept(10)], (1, 0),
        id="the-unknown-one-was-sent-after-the-next-grant",
    ),
    pytest.param(
        [told("unknown", 0), granted(20, 10)], [kept(0), kept(10), kept(20)], (1, 0),
        id="one-unknown-done-twice",
    ),
    pytest.param(
        [told("unknown", 0, client=1), told("refused:41", 0)], [kept(0)], (1, 0),
        id="another-client's-unknown-explains-nothing",
    ),
    pytest.param([granted(0, 0)], [kept(0, broker=3)], (0, 1), id="kept-for-another-broker"),
    pytest.param([granted(0, 0)], [], (0, 1), id="granted-and-lost"),
    pytest.param([granted(0, 0), granted(10, 10)], [kept(10)], (0, 1), id="granted-and-lost-in-the-middle"),
    pytest.param([granted(0, 0), granted(10, 10)], [kept(0)], (0, 1), id="granted-and-lost-at-the-end"),
    pytest.param([granted(0, 0)], [kept(0, length=20)], (1, 1), id="a-block-of-another-length"),
    pytest.param([], [kept(0, broker=3)], (0, 0), id="a-broker-that-is-none-of-ours"),
]  # fmt: skip


@table(("attempts", "archived", "expected"), CASES)
def test_told_against_kept(
    attempts: list[Attempt], archived: list[Allocation | Hole], expected: tuple[int, int]
) -> None:
    assert compare(attempts, archived, BROKERS) == Findings(*expected)


@pytest.mark.parametrize(
    ("item", "words"),
    [
        pytest.param(Hole(Offset(3), Offset(7)), "offset 3 to 6", id="hole"),
        pytest.param(kept(None), "no known start", id="start-lost"),
    ],
)
def test_a_gap_in_the_archive_is_no_proof(item: Allocation | Hole, words: str) -> None:
    with pytest.raises(Unreadable, match=words):
        compare([], [item], BROKERS)
