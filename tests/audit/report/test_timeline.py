"""What happened to a transactional id, by its coordinator's records."""

import json
from dataclasses import replace
from typing import Any

import pytest

from fencepost.audit.report.timeline import Fenced, StateRow, Story, Written, events, parse_moment
from tests.audit.report.verdicts import HOSTILE
from tests.together import table

START = StateRow("/t.log", 0, 10, 1_000, "Empty", 4_000, 0, 60_000)
FENCE = Fenced(9_000, "a new instance", 4_000, 0, "app-2")


def row(offset: int, at_ms: int, state: str | None, **columns: Any) -> StateRow:
    """A record of producer 4000, epoch 0, unless fields say otherwise."""
    return START._replace(offset=offset, position=offset * 100, at_ms=at_ms, state=state)._replace(**columns)


ONGOING = row(11, 2_000, "Ongoing", started_ms=2_000, partitions=("t-0",))

CASES = [
    pytest.param([START], ["producer 4000 epoch 0 is its producer; timeout 1 min"], id="begins"),
    pytest.param([START, ONGOING], ["transaction began: t-0"], id="transaction-begins"),
    pytest.param(
        [ONGOING, row(12, 2_010, "Ongoing", started_ms=2_000, partitions=("t-0", "t-1"))],
        ["partitions added: t-1"],
        id="a-partition-is-added",
    ),
    pytest.param(
        [ONGOING, row(12, 2_500, "PrepareCommit", started_ms=2_000, partitions=("t-0",))],
        ["commit decided: markers go to t-0"],
        id="commit-is-decided",
    ),
    pytest.param(
        [ONGOING, row(12, 62_000, "PrepareAbort", started_ms=2_000, partitions=("t-0",), timed_out=True)],
        ["abort decided, its timeout is over: markers go to t-0"],
        id="timeout",
    ),
    pytest.param(
        [ONGOING, row(12, 2_600, "CompleteCommit", started_ms=2_000)],
        ["transaction committed, 600 ms after it began"],
        id="committed",
    ),
    pytest.param(
        [ONGOING, row(12, 2_600, "CompleteAbort", started_ms=-1)], ["transaction aborted"], id="aborted"
    ),
    pytest.param(
        [START, row(12, 9_000, "Empty", producer_epoch=1, fences=(FENCE,))],
        [
            "producer 4000 epoch 0 fenced by a new instance (app-2)",
            "epoch 0 of producer 4000 became 1",
        ],
        id="fenced",
    ),
    pytest.param(
        [START, row(12, 9_000, None)],
        ["forgotten: the coordinator knows nothing of the id any more"],
        id="forgotten",
    ),
    pytest.param(
        [START, row(12, 9_000, "Empty", is_regressed=True)],
        ["against all that came before: this pair had been left"],
        id="regressed",
    ),
    pytest.param(
        [START, row(12, 9_000, "PrepareEpochFence")], ["in state PrepareEpochFence"], id="some-other-state"
    ),
]


@table(("rows", "whats"), CASES)
def test_what_the_last_row_says_happened(rows: list[StateRow], whats: list[str]) -> None:
    extent = [each.what for each in events(rows) if each.offset == rows[-1].offset]
    assert extent == whats


def test_a_fence_is_told_once() -> None:
    rows = [
        START,
        row(11, 1_500, "Empty", producer_epoch=1, fences=(FENCE,)),
        ONGOING._replace(fences=(FENCE,)),
    ]
    assert sum("fenced by" in each.what for each in events(rows)) == 1


def test_an_event_names_the_record_that_says_so() -> None:
    last = list(events([START, ONGOING]))[-1]
    assert (last.path, last.position, last.offset, last.at_ms) == ("/t.log", 1_100, 11, 2_000)


STORY = Story(
    transactional_id=HOSTILE,
    events=tuple(events([START, ONGOING])),
    written=(Written(HOSTILE, 0, 4_000, 0, 12, 1, 0, 100, 112, 2_000, 2_600),),
    omitted=3,
)


def test_a_story_in_text() -> None:
    lines = list(STORY.lines())
    assert all(line.isprintable() for line in lines)
    assert lines[1:3] == [
        "  ... 3 older records",
        "  1970-01-01T00:00:01.000Z  producer 4000 epoch 0 is its producer; timeout 1 min",
    ]
    assert lines[-1].endswith(
        "producer 4000 epoch 0: 12 records, 1 commit; offsets 100 to 112, "
        "1970-01-01T00:00:02.000Z to 1970-01-01T00:00:02.600Z"
    )


def test_a_story_in_json() -> None:
    said = json.loads(json.dumps(STORY.document()))
    assert said["transactional_id"] == HOSTILE
    assert said["events"][1]["what"] == "transaction began: t-0"
    assert said["written"][0]["records"] == 12


@pytest.mark.parametrize(
    ("story", "status"),
    [
        pytest.param(STORY, 0, id="known"),
        pytest.param(replace(STORY, events=()), 1, id="unknown"),
        pytest.param(replace(STORY, events=(), is_partial=True), 3, id="perhaps-where-nothing-was-read"),
    ],
)
def test_the_exit_status_of_a_story(story: Story, status: int) -> None:
    assert story.exit_status == status


@table(
    ("text", "at_ms"),
    [
        pytest.param("1763704800123", 1_763_704_800_123, id="milliseconds"),
        pytest.param("2025-11-21T06:00:00.123Z", 1_763_704_800_123, id="utc"),
        pytest.param("2025-11-21T07:00:00.123+01:00", 1_763_704_800_123, id="zone"),
        pytest.param("2025-11-21 06:00:00.123", 1_763_704_800_123, id="no-zone-is-utc"),
        pytest.param("2025-11-21", 1_763_683_200_000, id="day"),
    ],
)
def test_moments_are_read(text: str, at_ms: int) -> None:
    assert parse_moment(text) == at_ms


def test_what_is_no_moment_is_refused() -> None:
    with pytest.raises(ValueError, match="yesterday is no time"):
        parse_moment("yesterday")
