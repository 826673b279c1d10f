"""What the inspection of a stopped node's log says where it ends too early: the place, in every number."""

from pathlib import Path
from uuid import UUID

from fencepost.broker.log.checkpoints import EPOCHS_FILE
from fencepost.broker.log.partition_log import PartitionLog
from fencepost.broker.log.producer_snapshot import snapshot_path, snapshots_in
from fencepost.broker.log.repair import cut, inspect
from fencepost.records.types import Offset, Term
from tests.broker.log.builders import NOW_MS, SMALL, batch, filled, open_log
from tests.broker.log.sums import segments
from tests.together import table

END = Offset(120)


def closed(directory: Path) -> Path:
    log = filled(directory)
    assert log.end == END
    log.close()
    return log.directory


@table(("deleted_before", "is_damaged"), [(0, False), (119, False), (120, False), (121, True), (500, True)])
def test_a_log_that_ends_before_its_deleted_records_did(
    tmp_path: Path, deleted_before: int, is_damaged: bool
) -> None:
    directory = closed(tmp_path)
    last = segments(directory)[-1]
    found = inspect(directory, machine_went_down=False, deleted_before=Offset(deleted_before))
    assert (found.segments, found.start, found.end, found.torn) == (len(segments(directory)), 0, END, None)
    assert (found.damage is not None) == is_damaged
    if found.damage is None:
        return
    size = last.stat().st_size
    assert (found.damage.segment, found.damage.position, found.damage.size) == (last, size, size)
    assert (found.damage.offset, found.damage.whole) == (END, None)
    assert f"records before offset {deleted_before} were deleted" in found.damage.reason
    assert found.lost is not None
    assert (found.lost.size, found.lost.batches, found.lost.first) == (0, 0, None)
    cut(found.damage, deleted_before=Offset(deleted_before))
    assert snapshots_in(directory) == []
    again = open_log(tmp_path, SMALL)
    assert (again.start, again.end) == (deleted_before, deleted_before)
    again.close()


def test_without_any_segment_it_says_where_the_log_would_be(tmp_path: Path) -> None:
    empty = inspect(tmp_path, machine_went_down=True)
    assert (empty.segments, empty.start, empty.end, empty.damage) == (0, 0, 0, None)
    deleted = inspect(tmp_path, machine_went_down=True, deleted_before=Offset(5)).damage
    assert deleted is not None
    path = tmp_path / f"{0:020d}.log"
    assert (deleted.segment, deleted.position, deleted.size, deleted.offset) == (path, 0, 0, 0)
    snapshot_path(tmp_path, Offset(7)).write_bytes(b"")
    gone = inspect(tmp_path, machine_went_down=True).damage
    assert gone is not None
    path = tmp_path / f"{7:020d}.log"
    assert (gone.segment, gone.position, gone.size, gone.offset) == (path, 0, 0, 7)
    assert gone.reason == "the segments are gone"


def test_a_log_that_lost_what_was_on_the_disk_ends_at_its_last_byte(tmp_path: Path) -> None:
    directory = closed(tmp_path)
    assert snapshots_in(directory)[-1] == END
    *_, before, last = segments(directory)
    for path in directory.glob(f"{last.stem}*"):
        if path.suffix != ".snapshot":
            path.unlink()
    found = inspect(directory, machine_went_down=False).damage
    assert found is not None
    size = before.stat().st_size
    assert (found.segment, found.position, found.size) == (before, size, size)
    assert found.offset == int(last.stem)
    assert f"everything before offset {END} was on the disk" in found.reason


def test_behind_the_recovery_point_a_crash_may_have_lost_the_line_of_an_epoch(tmp_path: Path) -> None:
    """The very batch that begins there is one of them."""
    directory = closed(tmp_path)
    path = directory / EPOCHS_FILE
    before = path.read_bytes()
    log = open_log(tmp_path, SMALL)
    log.append(batch(), NOW_MS, Term(1))
    log._let_go()
    path.write_bytes(before)
    lost = inspect(directory, machine_went_down=True)
    assert (lost.damage, lost.torn, lost.end) == (None, None, END + 1)
    changed = inspect(directory, machine_went_down=False).damage
    assert changed is not None
    assert changed.offset == END


def test_a_new_log_begins_where_it_is_to(tmp_path: Path) -> None:
    log = PartitionLog.open(tmp_path / "topic-0", SMALL, NOW_MS, UUID(int=5), start=Offset(50))
    assert (log.start, log.end) == (50, 50)
    assert log.append(batch(), NOW_MS, Term(0)).base_offset == 50
    log.close()
    again = PartitionLog.open(tmp_path / "topic-0", SMALL, NOW_MS, UUID(int=5), start=Offset(70))
    assert (again.start, again.end) == (50, 51), "it is not new"
    again.close()
