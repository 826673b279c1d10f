"""A long start says once a second how far it is; a short one says nothing."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from fencepost.quorum import journal as journals
from fencepost.quorum.journal import NO_OP, Journal
from fencepost.quorum.opened_store import open_journal
from fencepost.quorum.start_progress import PROGRESS_S, Progress
from fencepost.snapshots.store import Store
from tests.broker.fake_controller import captured_log

ENTRIES = 95


class Clock:
    """Each reading is ``step_s`` after the one before."""

    def __init__(self, step_s: float) -> None:
        self.now_s = 0.0
        self.step_s = step_s

    def __call__(self) -> float:
        self.now_s += self.step_s
        return self.now_s


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    opened = Store.open(tmp_path / "store", sync=False)
    opened.verify_image()
    journal = Journal(opened)
    for index in range(2, ENTRIES + 1):
        journal.add(NO_OP, index, 1)
    journal.flush()
    yield opened
    opened.close()


@pytest.mark.parametrize(
    ("step_s", "places"),
    [
        pytest.param(0.5, [20, 40, 60, 80], id="half-a-second-for-ten-entries"),
        pytest.param(2.0, [10, 20, 30, 40, 50, 60, 70, 80, 90], id="two-seconds"),
        pytest.param(0.01, [], id="a-short-start"),
    ],
)
def test_the_journal_says_how_far_it_is_read(
    store: Store, monkeypatch: pytest.MonkeyPatch, step_s: float, places: list[int]
) -> None:
    monkeypatch.setattr(journals, "READ_TOGETHER", 10)
    log, logged = captured_log()
    journal = open_journal(store, Clock(step_s), log)
    assert journal.last_index == ENTRIES
    assert [each["event"] for each in logged.entries] == ["journal_reading"] * len(places)
    assert [(each["at"], each["of"]) for each in logged.entries] == [(each, ENTRIES) for each in places]


def test_nothing_is_said_once_the_end_was_reached() -> None:
    log, logged = captured_log()
    progress = Progress("journal_applying", 5, Clock(PROGRESS_S), log)
    for place in (3, 5, 4, 3):
        progress.at(place)
    assert [each["at"] for each in logged.entries] == [3]
