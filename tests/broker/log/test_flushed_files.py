"""What of the files beside a log is flushed, and in which order: what counts is there after a crash."""

from collections.abc import Callable
from pathlib import Path
from uuid import UUID

import pytest

from fencepost.broker.log.checkpoints import LeaderEpochs, save_topic_id
from fencepost.broker.log.cleaned_end import mend_cleaned_end, save_cleaned_end
from fencepost.broker.log.damage import Damage
from fencepost.broker.log.log_starts import LogStarts
from fencepost.broker.log.offset_checkpoint import save_offsets
from fencepost.broker.log.producer_snapshot import SNAPSHOT_SUFFIX
from fencepost.broker.log.repair import cut
from fencepost.broker.log.segment_sums import (
    begin_indexes,
    end_indexes,
    forget_batches,
    note_snapshot,
    save_sums,
)
from fencepost.broker.log.swaps import SWAP, write_swap_sums
from fencepost.records.types import Offset, Term
from fencepost.snapshots.checksums import NOTHING
from tests.broker.log.builders import append, batch, open_log
from tests.disk_calls import watched
from tests.together import Together

SEGMENT = Path(f"{0:020d}.log")
SUMS = f"{0:020d}.checksums"


def durable(name: str) -> list[str]:
    return [f"flush {name}.tmp", f"{name}.tmp -> {name}", "flush log"]


def in_memory(name: str) -> list[str]:
    return [f"{name}.tmp -> {name}"]


def raised(directory: Path) -> None:
    LogStarts(directory).raise_to({"topic-0": Offset(5)})


def mended(directory: Path) -> None:
    (directory / "cleaned.metadata").write_bytes(b"0\n7\n")
    mend_cleaned_end(directory)


STARTS, CLEANED = "log-start-offset-checkpoint", "cleaned.metadata"
CALLS: dict[str, tuple[Callable[[Path], object], list[str]]] = {
    "topic": (lambda log: save_topic_id(log, UUID(int=5)), durable("partition.metadata")),
    "epochs": (lambda log: LeaderEpochs(log).save(), in_memory("leader-epoch-checkpoint")),
    "epochs-cut": (lambda log: LeaderEpochs(log).save(durable=True), durable("leader-epoch-checkpoint")),
    "an-epoch": (
        lambda log: LeaderEpochs(log).assign(Term(1), Offset(5)),
        in_memory("leader-epoch-checkpoint"),
    ),
    "offsets": (lambda log: save_offsets(log / "cleaner", {"topic-0": Offset(3)}), durable("cleaner")),
    "starts": (raised, [*durable(f"{STARTS}.copy"), *durable(STARTS)]),
    "cleaned": (
        lambda log: save_cleaned_end(log, Offset(5)),
        [*durable(f"{CLEANED}.copy"), *durable(CLEANED)],
    ),
    "cleaned-mended": (mended, [*durable(f"{CLEANED}.copy"), *durable(CLEANED)]),
    "sums": (lambda log: save_sums(log / SEGMENT, NOTHING), in_memory(SUMS)),
    "snapshot-noted": (lambda log: note_snapshot(log / SEGMENT, Offset(5), 7), in_memory(SUMS)),
    "sums-forgotten": (lambda log: forget_batches(log / SEGMENT), durable(SUMS)),
    "indexes-begun": (lambda log: begin_indexes(log / SEGMENT), durable(SUMS)),
    "indexes-made": (lambda log: end_indexes(log / SEGMENT, NOTHING), durable(SUMS)),
    "sums-of-a-swap": (lambda log: write_swap_sums(log, Offset(0), NOTHING), durable(f"{SUMS}{SWAP}")),
}


def test_each_small_file_is_flushed_as_far_as_it_counts(tmp_path: Path) -> None:
    with Together() as cases:
        for name, (call, expected) in CALLS.items():
            directory = tmp_path / name / "log"
            directory.mkdir(parents=True)
            with cases.case(name), pytest.MonkeyPatch.context() as patch:
                done = watched(patch, [])
                call(directory)
                assert done == expected


def test_a_snapshot_is_behind_all_that_it_speaks_of(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = open_log(tmp_path)
    append(log, batch(7, 0))
    done = watched(monkeypatch, [])
    log.close()
    name, snapshot = f"{0:020d}", f"{1:020d}{SNAPSHOT_SUFFIX}"
    assert done == [
        "flush topic-0",
        f"flush {name}.index",
        f"flush {name}.timeindex",
        f"flush {name}.txnindex",
        "flush leader-epoch-checkpoint",
        f"{name}.checksums.tmp -> {name}.checksums",
        f"{name}.checksums.tmp -> {name}.checksums",
        f"flush {snapshot}.tmp",
        f"{snapshot}.tmp -> {snapshot}",
        "flush topic-0",
    ]


def test_a_log_that_is_cut_is_cut_on_the_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What counts goes first; the names last."""
    log = open_log(tmp_path)
    append(log, batch(7, 0), batch(7, 1))
    log.close()
    name = f"{0:020d}"
    path = log.directory / f"{name}.log"
    size = path.stat().st_size // 2
    done = watched(monkeypatch, [])
    cut(Damage(path, size, 2 * size, Offset(1), "damaged"))
    assert done == [
        f"delete {2:020d}{SNAPSHOT_SUFFIX}",
        f"delete {SUMS}",
        "flush topic-0",
        f"flush {name}.log",
        *(f"delete {name}{suffix}" for suffix in (".index", ".timeindex", ".txnindex")),
        "flush topic-0",
    ]
    done.clear()
    cut(Damage(path, 0, size, Offset(0), "damaged"), deleted_before=Offset(9))
    assert done[-1] == "flush topic-0"
    assert f"delete {name}.log" in done
    assert [each.name for each in log.directory.glob("*.log")] == [f"{9:020d}.log"]
