"""A voter's archive says when its node ended cleanly: then nothing came after what is there."""

from pathlib import Path

import pytest

from fencepost.records.types import NodeId
from fencepost.snapshots.clean_shutdown import CLEAN_SHUTDOWN_FILE
from tests.quorum.rig import Rig


def is_recorded(rig: Rig, node: int) -> bool:
    return (rig.root / f"node-{node}" / "archive" / CLEAN_SHUTDOWN_FILE).exists()


def test_the_archive_of_a_voter_that_ended_cleanly_says_so_until_it_starts(three: Rig) -> None:
    assert not is_recorded(three, 2)
    three.drivers.pop(NodeId(2)).close()
    three.disconnect(2)
    assert is_recorded(three, 2)
    three.start(2)
    assert not is_recorded(three, 2)
    three.connect(2)
    three.allocate(1)
    three.settle()
    three.crash(2)
    assert not is_recorded(three, 2)


def test_a_full_disk_at_the_end_is_taken_for_a_kill(three: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(_part: Path, _file: Path) -> None:
        raise OSError("no space left on device")

    monkeypatch.setattr(Path, "replace", full)
    three.drivers.pop(NodeId(2)).close()
    monkeypatch.undo()
    three.disconnect(2)
    assert not is_recorded(three, 2)
    three.start(2)
