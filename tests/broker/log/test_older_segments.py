"""A segment as it was before a cleaner's pass, in the place of what the pass left."""

from pathlib import Path

import pytest

from fencepost.broker.log.damage import DamagedLog
from fencepost.broker.log.repair import inspect
from fencepost.broker.log.segment_sums import is_summed
from tests.broker.log.builders import open_log
from tests.broker.log.sums import opened, segments
from tests.broker.log.test_cleaner import CONFIG, clean, play


def test_a_segment_from_before_a_pass_that_is_back_is_damage(tmp_path: Path) -> None:
    """Larger than the one that took its place, each batch of it sound: what the pass left is lost."""
    log = open_log(tmp_path, CONFIG)
    play(log)
    log.flush()
    path = segments(log.directory)[0]
    before, end = path.read_bytes(), int(segments(log.directory)[1].stem)
    for _ in range(2):
        clean(log)
    log.close()
    assert is_summed(path)
    assert len(before) > path.stat().st_size
    following = int(segments(log.directory)[1].stem)
    assert following > end, "several segments became one"
    path.write_bytes(before)
    words = f"no segment has offsets {end} to {following - 1}, and the one before them has other bytes"
    with pytest.raises(DamagedLog, match=words) as raised:
        opened(log.directory, CONFIG)
    found = inspect(log.directory, machine_went_down=False)
    assert raised.value.damage == found.damage
    assert found.end == end
    assert path.read_bytes() == before
