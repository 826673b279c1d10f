"""What a node's scrubs say of its files, and what ``storage verify`` would say of them when it is stopped."""

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, Final

from fencepost.quorum.journal import Journal
from fencepost.records.invariant import CorruptData, InvariantViolation
from fencepost.records.types import LOGS
from fencepost.settings.node_clock import read_kept
from fencepost.snapshots import snapshot
from fencepost.snapshots.archive_scrub import scrub_segment
from fencepost.snapshots.segments import ArchiveReader, archive_owner, list_segments, load_holes
from fencepost.snapshots.store import STORE_FAILURES, Store
from fencepost.snapshots.sums import StoreDamaged, Verdict
from tests.simulation.config import CLUSTER

_DAMAGE: Final = (CorruptData, StoreDamaged, InvariantViolation, ValueError, *STORE_FAILURES)


def scrubbed_in(directory: Path) -> Iterator[str]:
    """Events of a round, as node/archive_scrub.py makes it."""
    said: list[str] = []
    for log in LOGS:
        folder = directory / "archive" / log.directory
        for segment in list_segments(folder):
            try:
                load_holes(folder)
                if segment.sealed:
                    scrub_segment(segment, archive_owner(CLUSTER, log), lambda _bytes: None, said.append)
            except CorruptData:
                yield "archive_damaged"
    if said:
        yield "archive_sums_changed"


def left_in(directory: Path) -> Iterator[str]:
    """A sentence for each part that is damaged."""
    looks: dict[str, Callable[[], Any]] = {
        "store": partial(_look_at_store, directory / "store"),
        "clock": partial(read_kept, directory),
    }
    for folder in sorted((directory / "archive").iterdir()):
        looks[f"archive {folder.name}"] = partial(_look_at_archive, folder)
    for folder in snapshot.listed(directory / "snapshots"):
        looks[f"snapshot {folder.name}"] = partial(snapshot.load, folder)
    for name, look in looks.items():
        try:
            look()
        except _DAMAGE as error:
            yield f"{name}: {error}"


def _look_at_store(folder: Path) -> None:
    store = Store.open(folder, sync=False)
    try:
        if store.verify_image() is Verdict.DAMAGED:
            raise StoreDamaged("the image's rows are not those that were written")
        Journal(store)
    finally:
        store.abandon()


def _look_at_archive(folder: Path) -> None:
    for _ in ArchiveReader(folder).read():
        pass
