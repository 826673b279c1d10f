"""A cleaner's pass whose keys do not all fit: what lies behind the last that did is as it was."""

from dataclasses import replace
from pathlib import Path

import pytest

from fencepost.broker.log import compaction
from fencepost.broker.log.shapes import Aborted
from fencepost.records.types import Offset, ProducerId
from tests.broker.log.builders import end_transaction, open_log
from tests.broker.log.test_cleaner import CONFIG, clean, committed, keyed


def test_what_a_pass_had_no_room_for_is_aborted_as_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In the segment in which the room ends batches stay whole, and so do their markers' entries."""
    monkeypatch.setattr(compaction, "RECORDS_MAX", 2)
    log = open_log(tmp_path, replace(CONFIG, segment_bytes=2_000))
    for key, value in ((b"a", b"goes"), (b"a", b"1"), (b"b", b"2"), (b"c", b"no room")):
        keyed(log, -1, [(key, value)])
    keyed(log, 1, [(b"d", b"aborted")], transactional=True)
    end_transaction(log, 1, committed=False, version=1)
    while len(log.scrubbable.segments()) == 1:
        keyed(log, -1, [(b"e", b"x")])
    log.flush()
    before = committed(log), log.aborted(Offset(0), log.end)
    assert before[1] == (Aborted(ProducerId(1), Offset(4)),)
    done = clean(log, keys_max=1)
    assert (done.clean_end, done.keys, done.records_written) == (3, 2, done.records_read - 1)
    assert (committed(log), log.aborted(Offset(0), log.end)) == before
    log.close()


def test_a_segment_of_which_nothing_goes_is_left_as_it_is(tmp_path: Path) -> None:
    log = open_log(tmp_path, CONFIG)
    for number in range(40):
        keyed(log, -1, [(b"key-%d" % number, b"value")])
    log.flush()
    files = {path: path.stat().st_ino for path in log.directory.glob("*.log")}
    assert len(files) > 4
    done = clean(log)
    assert done.records_written == done.records_read > 0
    assert {path: path.stat().st_ino for path in log.directory.glob("*.log")} == files
    log.close()


@pytest.mark.parametrize(("more", "bases"), [(0, [0, 2, 4]), (-1, [0, 1, 2, 3, 4])])
def test_as_many_segments_become_one_as_fit_into_it(tmp_path: Path, more: int, bases: list[int]) -> None:
    """By their sizes before: two of one batch each; the last one is active."""
    log = open_log(tmp_path, replace(CONFIG, segment_bytes=1))
    for number in range(5):
        keyed(log, -1, [(b"key-%d" % number, b"value")])
    log.flush()
    log.config = replace(CONFIG, segment_bytes=2 * log.scrubbable.segments()[0].size + more)
    clean(log)
    assert [each.base for each in log.scrubbable.segments()] == bases
    assert len(committed(log)) == 5
    log.close()
