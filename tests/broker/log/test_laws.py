"""True of every history: a log that is opened again, after a close or after a kill at any call into the
operating system, is the log that it was."""

import contextlib
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fencepost.broker.log.partition_log import PartitionLog
from fencepost.broker.log.shapes import LogConfig
from fencepost.controller.errors import ApiError
from fencepost.records.batch import batch_header
from tests.broker.log.builders import (
    NOW_MS,
    append,
    batch,
    contents,
    crash,
    end_transaction,
    read_all,
)
from tests.examples import examples

CONFIG = LogConfig(
    verification=False, segment_bytes=600, index_interval_bytes=150, retention_bytes=1500, retention_ms=-1
)
Step = tuple[Any, ...]

producer_ids = st.integers(0, 3)
steps = st.lists(
    st.one_of(
        st.tuples(st.just("data"), producer_ids, st.integers(0, 2), st.integers(1, 3), st.booleans()),
        st.tuples(st.just("marker"), producer_ids, st.integers(0, 2), st.booleans()),
        st.tuples(st.just("flush")),
        st.tuples(st.just("retain")),
        st.tuples(st.just("truncate"), st.integers(0, 5)),
        st.tuples(st.just("restart")),
    ),
    max_size=40,
)


class Played:
    """A log to which steps are applied; sequences and versions are those of well-behaved clients."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.log = self.open()
        self.version = 0

    def open(self) -> PartitionLog:
        return PartitionLog.open(self.directory / "topic-0", CONFIG, NOW_MS)

    def play(self, step: Step) -> None:
        log = self.log
        match step:
            case ("data", producer, epoch, count, transactional):
                row = log.producer(producer)
                is_current = row is not None and row.producer_epoch == epoch
                sequence = row.last_sequence + 1 if row is not None and is_current else 0
                with contextlib.suppress(ApiError):
                    append(
                        log, batch(producer, sequence, epoch=epoch, count=count, transactional=transactional)
                    )
            case ("marker", producer, epoch, committed):
                self.version += 1
                with contextlib.suppress(ApiError):
                    end_transaction(log, producer, epoch=epoch, committed=committed, version=self.version)
            case ("flush",):
                log.flush()
            case ("retain",):
                log.retain(NOW_MS)
            case ("truncate", back):
                log.truncate_to(max(log.start, log.end - back), NOW_MS)
            case ("restart",):
                log.close()
                self.log = self.open()


@settings(max_examples=examples(60))
@given(steps)
def test_opened_again_it_is_the_same(history: list[Step]) -> None:
    with tempfile.TemporaryDirectory() as made:
        directory = Path(made)
        played = Played(directory / "log")
        for step in history:
            played.play(step)
        before = contents(played.log)
        killed = PartitionLog.open(crash(played.log, directory / "killed") / "topic-0", CONFIG, NOW_MS)
        assert contents(killed) == before
        assert killed.repairs == ()
        if played.log.start == 0:
            bare = crash(played.log, directory / "bare") / "topic-0"
            for path in bare.iterdir():
                if path.suffix != ".log":
                    path.unlink()
            assert contents(PartitionLog.open(bare, CONFIG, NOW_MS)) == before, (
                "the log alone tells everything"
            )
        played.log.close()
        closed = played.open()
        assert contents(closed) == before
        assert closed.repairs == ()
        for log in (killed, closed):
            log.close()


class Killed(BaseException):
    """The process ends here."""


CALLS = [
    (os, "write"), (os, "ftruncate"), (os, "fsync"), (os, "fdatasync"),
    (Path, "unlink"), (Path, "replace"), (Path, "touch"), (Path, "rename"), (Path, "mkdir"),
]  # fmt: skip


@contextlib.contextmanager
def killed_at(call: int) -> Iterator[Callable[[], bool]]:
    """Raise Killed in place of call number ``call`` into the operating system; yields: was it reached?"""
    made = 0

    def counted(original: Callable[..., object]) -> Callable[..., object]:
        def replacement(*given: object, **named: object) -> object:
            nonlocal made
            made += 1
            if made >= call:
                raise Killed
            return original(*given, **named)

        return replacement

    with pytest.MonkeyPatch.context() as patch:
        for owner, name in CALLS:
            patch.setattr(owner, name, counted(getattr(owner, name)))
        yield lambda: made >= call


TALE: list[Step] = [
    *[("data", 1, 0, 2, True), ("data", 2, 0, 1, False), ("marker", 1, 0, False)] * 4,
    ("flush",),
    *[("data", 1, 0, 1, True), ("data", 2, 0, 3, False)] * 4,
    ("truncate", 9),
    *[("data", 1, 0, 1, True), ("data", 2, 0, 3, False), ("marker", 1, 0, True)] * 3,
    ("flush",),
    ("retain",),
    ("restart",),
    *[("data", 2, 1, 1, False), ("data", 3, 0, 1, True)],
    ("restart",),
]


def stored(log: PartitionLog) -> dict[int, bytes]:
    """Every batch by its offset."""
    raw = read_all(log)
    found: dict[int, bytes] = {}
    position = 0
    while position < len(raw):
        size = batch_header(raw, position).size
        found[batch_header(raw, position).base_offset] = raw[position : position + size]
        position += size
    return found


@pytest.mark.slow
def test_killed_at_any_call_what_was_acknowledged_is_there(tmp_path: Path) -> None:
    """After each kill every batch that was answered and not cut is there; opened twice it is the same."""
    call = 0
    was_reached = True
    while was_reached:
        call += 1
        directory = tmp_path / f"{call}"
        (directory / "topic-0").mkdir(parents=True)
        answered: dict[int, bytes] = {}
        with killed_at(call) as reached, contextlib.suppress(Killed):
            played = Played(directory)
            for step in TALE:
                if step[0] == "truncate":
                    cut = played.log.end - step[1]
                    answered = {offset: raw for offset, raw in answered.items() if offset < cut - 3}
                played.play(step)
                answered = stored(played.log)
        was_reached = reached()
        opened = PartitionLog.open(directory / "topic-0", CONFIG, NOW_MS)
        there = stored(opened)
        missing = {offset for offset in answered if offset >= opened.start} - set(there)
        assert not missing, f"killed at call {call}"
        assert all(there[offset] == raw for offset, raw in answered.items() if offset >= opened.start)
        assert not [repair for repair in opened.repairs if "cut" in repair]
        assert opened.start == 0 or opened._durability.newest_snapshot >= opened.start
        before = contents(opened)
        opened._let_go()
        again = PartitionLog.open(directory / "topic-0", CONFIG, NOW_MS)
        assert contents(again) == before
        assert again.repairs == ()
        again._let_go()
        shutil.rmtree(directory)
    assert call > 100
