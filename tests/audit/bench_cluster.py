"""An ingest of many gigabytes on a standalone cluster of two workers, one of which dies on the way.

``python -m tests.audit.bench_cluster [--bytes 20e9] [--segment 250e6]`` makes a few segments and hard links
of them, so that the disk holds little of it. Then, in one run:

    decoder    every file decoded by a pool of two processes, rows thrown away
    ingest     the same into tables, by two workers of one core and 2 GB each
    killed     once more into other tables; SIGKILL for a worker in the middle, with all that it started

Exit status 1 if the ingest is slower than ``RATIO_MIN`` of the decoder, a worker's executor and its Python
together took more than its 2 GB, or the killed one has other rows.
"""

import argparse
import contextlib
import multiprocessing
import os
import shutil
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Final

import click

from fencepost.audit.decode.plan import list_files
from tests.audit import standalone
from tests.audit.bench_ingest import FILES, _decoded, write_segments

BYTES: Final = 20e9
SEGMENT_BYTES: Final = 250e6
RATIO_MIN: Final = 0.3
EXECUTOR_MEMORY: Final = "1g"  # of the 2 GB a worker has: the rest is Python's
WORKER_BYTES: Final = 2 << 30
LOOK_SECONDS: Final = 0.5


def main() -> int:
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--bytes", type=float, default=BYTES)
    arguments.add_argument("--segment", type=float, default=SEGMENT_BYTES)
    chosen = arguments.parse_args()
    home = Path(tempfile.mkdtemp(prefix="fencepost-bench-"))
    try:
        linked(home / "logs", int(chosen.bytes), int(chosen.segment))
        with standalone.cluster(home / "spark") as running:
            return _measured(home, running)
    finally:
        shutil.rmtree(home, ignore_errors=True)


def linked(folder: Path, size: int, segment: int) -> None:
    """About ``size`` bytes of partitions, of which ``FILES`` segments are on the disk."""
    write_segments(folder, segment * FILES)
    made = sorted(folder.rglob("*.log"))
    for number in range(len(made), max(len(made), size // segment)):
        copy = folder / f"bench-{number}" / made[0].name
        copy.parent.mkdir()
        copy.hardlink_to(made[number % len(made)])


def _measured(home: Path, running: standalone.Cluster) -> int:
    from fencepost.audit.engine.spark import SparkEngine
    from fencepost.audit.source.session import session
    from fencepost.audit.tables.ingest import ingest

    files = list_files([str(home / "logs")])
    megabytes = sum(file.size for file in files) / 1e6
    with ProcessPoolExecutor(2, multiprocessing.get_context("spawn")) as pool:
        _decoded(pool, files[:2])
        decoding = _decoded(pool, files)
    settings = {"spark.executor.memory": EXECUTOR_MEMORY, **standalone.LOOPBACK}
    spark = session("bench", master=running.url, memory="1g", settings=settings)
    engine = SparkEngine(spark)
    ingest(engine, [files[0].path], str(home / "first"))  # starts Python workers
    begun = time.perf_counter()
    with _watched(running) as largest:
        report = ingest(engine, [str(home / "logs")], str(home / "tables"))
    ingesting = time.perf_counter() - begun
    killer = threading.Timer(ingesting / 2, _kill_one, [running])
    killer.start()
    again = ingest(engine, [str(home / "logs")], str(home / "again"))
    killer.join()
    spark.stop()
    rows, killed = report.rows["record_batches"], again.rows["record_batches"]
    click.echo(f"{megabytes:,.0f} MB in {len(files)} files, {rows:,} batches; two workers of one core")
    click.echo(f"decoder, two processes  {megabytes / decoding:>7,.0f} MB/s  {decoding:.1f} s")
    click.echo(f"ingest                  {megabytes / ingesting:>7,.0f} MB/s  {ingesting:.1f} s")
    click.echo(f"with a worker killed    {killed:,} batches")
    taken = max(largest)
    click.echo(
        f"a worker's tasks        {taken / 1e6:>7,.0f} MB of memory at most, of {WORKER_BYTES / 1e6:,.0f}"
    )
    ratio = decoding / ingesting
    click.echo(f"ratio                   {ratio:>7.2f}  (at least {RATIO_MIN})")
    is_small = 0 < taken <= WORKER_BYTES
    return 0 if ratio >= RATIO_MIN and is_small and killed == rows and not report.not_read else 1


@contextlib.contextmanager
def _watched(running: standalone.Cluster) -> Iterator[list[int]]:
    """The most memory that what a worker started held at any look, of each worker; known at the end."""
    largest = [0] * len(running.workers)
    ended = threading.Event()

    def look() -> None:
        while not ended.wait(LOOK_SECONDS):
            for number, worker in enumerate(running.workers):
                taken = sum(map(_memory_of, _below(worker.pid)[1:]))
                largest[number] = max(largest[number], taken)

    looker = threading.Thread(target=look, daemon=True)
    looker.start()
    try:
        yield largest
    finally:
        ended.set()
        looker.join()


def _memory_of(process_id: int) -> int:
    """Bytes of its own in memory, without the files that it has mapped; 0: it is gone."""
    try:
        status = Path(f"/proc/{process_id}/status").read_text("utf-8")
    except OSError:
        return 0
    return 1024 * sum(int(line.split()[1]) for line in status.splitlines() if line.startswith("RssAnon:"))


def _kill_one(running: standalone.Cluster) -> None:
    """A worker and its executor, as a machine would go."""
    for process_id in _below(running.workers[0].pid):
        os.kill(process_id, signal.SIGKILL)


def _below(process_id: int) -> list[int]:
    found = [process_id]
    for thread in Path(f"/proc/{process_id}/task").glob("*/children"):  # a JVM starts them from any thread
        with contextlib.suppress(OSError):  # it is gone
            for child in thread.read_text("utf-8").split():
                found += _below(int(child))
    return found


if __name__ == "__main__":
    sys.exit(main())
