"""Killed at any moment, an ingest leaves its tables as they were or as they become; the next goes on."""

import multiprocessing
from pathlib import Path
from signal import SIGKILL

import pytest

from fencepost.audit.decode import local
from fencepost.audit.tables.ingest import ingest
from tests.audit.faults import cluster
from tests.audit.tables.killed import ingest_killed_at
from tests.audit.tables.rows import in_memory, kept, meant, on_disk
from tests.audit.tables.workers import Here

pytestmark = pytest.mark.slow

MOMENTS_MAX = 400


def half_of(root: Path) -> dict[Path, bytes]:
    """Every segment cut in half; what it was."""
    whole = {path: path.read_bytes() for path in root.rglob("*.log")}
    for path, content in whole.items():
        path.write_bytes(content[: len(content) // 2])
    return whole


def grown(whole: dict[Path, bytes]) -> None:
    """Whole again, but for one that became another."""
    *others, changed = sorted(whole, key=lambda path: len(whole[path]))
    for path in others:
        path.write_bytes(whole[path])
    changed.write_bytes(whole[changed][: len(whole[changed]) // 3])


@pytest.mark.row("card.8")
def test_killed_before_each_thing_it_does_to_its_folder(tmp_path: Path) -> None:
    root, tables = cluster.unpacked(tmp_path / "logs"), tmp_path / "tables"
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["tests.audit.tables.killed"])
    whole = half_of(root)
    ingest(Here(), [str(root)], str(tables))
    before = on_disk(tables)
    assert before == in_memory(local.tables([str(root)]))
    grown(whole)
    after = in_memory(local.tables([str(root)]))
    seen = []
    for moment in range(1, MOMENTS_MAX):
        process = context.Process(target=ingest_killed_at, args=(str(root), str(tables), moment))
        process.start()
        process.join()
        found = on_disk(tables)
        assert found in (before, after), f"killed at moment {moment}"
        seen.append(found == after)
        if found == after:
            break
        assert process.exitcode == -SIGKILL
    assert len(seen) > 20
    ingest(Here(), [str(root)], str(tables))
    assert on_disk(tables) == after
    named = {name for name in kept(tables) if "/." not in name}  # a half of a name is deleted when it is old
    assert named == meant(tables)  # what the killed ones left is gone
