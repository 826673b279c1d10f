"""Killed at any moment, an ingest leaves its tables as they were or as they become; the next goes on."""

import multiprocessing
import subprocess
import sys
from pathlib import Path
from signal import SIGKILL

import pytest
from pyspark.sql import SparkSession

from fencepost.audit.decode import local
from fencepost.audit.engine.spark import SparkEngine
from fencepost.audit.tables.ingest import ingest
from fencepost.audit.tables.reading import scan
from fencepost.audit.tables.store import read_manifest
from tests.audit.bench_ingest import write_segments
from tests.audit.faults import cluster
from tests.audit.spark.ingest.killed import OneProcess, ingest_killed_at
from tests.audit.spark.ingest.tables import in_memory, on_disk

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
    context.set_forkserver_preload(["tests.audit.spark.ingest.killed"])
    whole = half_of(root)
    ingest(OneProcess(), [str(root)], str(tables))
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
    ingest(OneProcess(), [str(root)], str(tables))
    assert on_disk(tables) == after
    manifest = read_manifest(tables)
    kept = {f"{path.parent.name}/{path.name}" for path in tables.rglob("*.parquet")}
    assert kept == {f"{part.table}/{part.name}" for part in manifest.parts} | set(manifest.retired)


@pytest.mark.parametrize("files", [0, 1, 3], ids="killed-when-{}-files-are-there".format)
def test_killed_while_workers_write(spark: SparkSession, tmp_path: Path, files: int) -> None:
    logs, tables = tmp_path / "logs", tmp_path / "tables"
    write_segments(logs, 120_000_000)
    command = [sys.executable, "-m", "tests.audit.spark.ingest.killed", str(logs), str(tables), str(files)]
    assert subprocess.run(command, check=False).returncode == -SIGKILL
    engine = SparkEngine(spark)
    report = ingest(engine, [str(logs)], str(tables))
    assert report.commit == 1
    assert report.rows["record_batches"] == local.tables([str(logs)])["record_batches"].num_rows
    scan(engine, str(tables))
    (rows,) = engine.rows(
        "SELECT count(*) AS many, count(DISTINCT path, position) AS places FROM record_batches"
    )
    assert rows["many"] == rows["places"] == report.rows["record_batches"]
