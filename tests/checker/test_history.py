"""A history is read while it is written, and counted for the summary."""

from pathlib import Path

from tests.checker.evidence import Event, events_of
from tests.checker.history import History, Tail
from tests.checker.summary import summary_of


def test_each_event_is_read_once_when_its_line_is_whole(tmp_path: Path) -> None:
    history, tail = History(tmp_path, "a"), Tail(tmp_path)
    history.write("first", number=1)
    assert [each["event"] for each in tail.new()] == ["first"]
    with (tmp_path / "a.jsonl").open("a") as file:
        file.write('{"at":1e9,"event":"sec')
        file.flush()
        assert tail.new() == []
        file.write('ond"}\n')
    assert [each["event"] for each in tail.new()] == ["second"]
    assert [each["event"] for each in events_of(tmp_path)] == ["first", "second"]


def event(at: float, name: str, **fields: object) -> Event:
    return {"at": at, "event": name, **fields}


def test_the_summary_counts_commits_between_two_kills() -> None:
    ended = "transaction_ended"
    lines = summary_of(
        [
            event(1.0, ended, outcome="committed", group="a"),
            event(2.0, "node_killed"),
            event(3.0, ended, outcome="aborted"),
            event(3.5, ended, outcome="committed", group="b"),
            event(6.0, "node_killed"),
            event(7.0, ended, outcome="committed", group="b"),
            event(8.0, ended, outcome="committed", group="a"),
            event(9.0, "node_killed"),
        ]
    )
    assert "0 transactions: 1 aborted, 4 committed" in lines
    assert "longest time without a commit 3.5 s, of one group 7.0 s" in lines
    assert (
        "commits between two kills of nodes: 1 at least, median 2; a kill every 3.5 s, 4.0 s at most" in lines
    )
