"""How fast is an ingest, beside the decoder alone in two processes? ``python -m tests.audit.bench_ingest``

Makes 1 GB of segments (four files; ten records of 100 bytes a batch, one batch in twenty a marker), then:

    decoder   every file decoded into Arrow by a pool of two processes, checksums on, rows thrown away
    ingest    the same files into tables by Spark on two cores: decoded, written as Parquet, synced, committed

The first ingest of a session starts Python workers; it is shown, and counts for nothing. Exit status 1 if
the best of ``ROUNDS`` ingests is slower than half the best of as many decodings, in turns with them.
"""

import argparse
import multiprocessing
import shutil
import struct
import sys
import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Final

import click
from crc32c import crc32c

from fencepost.audit.decode.plan import LogFile, list_files
from fencepost.audit.decode.tables import decode_file
from fencepost.records.batch_layout import HEADER_BYTES

FILES: Final = 4
BYTES: Final = 1_000_000_000
ROUNDS: Final = 3
PRODUCERS: Final = 50
MARKER_EVERY: Final = 20
RATIO_MIN: Final = 0.5
_HEADER: Final = struct.Struct(">qiibI")
_CHECKED: Final = struct.Struct(">hiqqqhii")
_RECORD: Final = b"\x00\x00\x00\x01\xc8\x01" + bytes(range(100)) + b"\x00"
_DATA: Final = (bytes([0xD6, 0x01]) + _RECORD) * 10
_COMMIT: Final = bytes([0x20, 0, 0, 0, 8, 0, 0, 0, 1, 12]) + bytes(6) + b"\x00"
_TRANSACTIONAL: Final = 0x10
_CONTROL: Final = 0x20


def write_segments(folder: Path, size: int) -> None:
    """``FILES`` partitions' segments, ``size`` bytes in all, every batch sound and of its own checksum."""
    for partition in range(FILES):
        directory = folder / f"bench-{partition}"
        directory.mkdir(parents=True)
        with open(directory / f"{0:020d}.log", "wb", buffering=1 << 20) as file:
            offset = written = number = 0
            sequences = [0] * PRODUCERS
            while written < size // FILES:
                batch, count = _batch(number, offset, sequences)
                written += file.write(batch)
                offset += count
                number += 1


def _batch(number: int, offset: int, sequences: list[int]) -> tuple[bytes, int]:
    is_marker, producer = number % MARKER_EVERY == MARKER_EVERY - 1, number % PRODUCERS
    body, count, sequence = (_COMMIT, 1, -1) if is_marker else (_DATA, 10, sequences[producer])
    if not is_marker:
        sequences[producer] = (sequence + count) % 2**31
    attributes = _TRANSACTIONAL | (_CONTROL if is_marker else 0)
    now = 1_760_000_000_000 + number
    checked = _CHECKED.pack(attributes, count - 1, now, now, producer, 0, sequence, count) + body
    head = _HEADER.pack(offset, HEADER_BYTES - 12 + len(body), 1, 2, crc32c(checked))
    return head + checked, count


def _decode(file: LogFile) -> int:
    return sum(rows.num_rows for _, rows in decode_file(file))


def _decoded(pool: ProcessPoolExecutor, files: Sequence[LogFile]) -> float:
    begun = time.perf_counter()
    sum(pool.map(_decode, files))
    return time.perf_counter() - begun


def main() -> int:
    """See above."""
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("--bytes", type=int, default=BYTES)
    size = arguments.parse_args().bytes
    home = Path(tempfile.mkdtemp(prefix="fencepost-bench-"))
    try:
        return _measured(home, size)
    finally:
        shutil.rmtree(home)


def _measured(home: Path, size: int) -> int:
    from fencepost.audit.engine.spark import SparkEngine
    from fencepost.audit.source.session import session
    from fencepost.audit.tables.ingest import ingest

    write_segments(home / "logs", size)
    files = list_files([str(home / "logs")])
    megabytes = sum(file.size for file in files) / 1e6
    spark = session("bench", master="local[2]", memory="1g")
    decodings, ingests = [], []
    with ProcessPoolExecutor(2, multiprocessing.get_context("spawn")) as pool:
        _decoded(pool, files)
        for number in range(ROUNDS + 1):
            begun = time.perf_counter()
            report = ingest(SparkEngine(spark), [str(home / "logs")], str(home / f"tables-{number}"))
            ingests.append(time.perf_counter() - begun)
            decodings.append(_decoded(pool, files))
    spark.stop()
    first, *ingests = ingests
    click.echo(
        f"{megabytes:,.0f} MB in {len(files)} files, {report.rows['record_batches']:,} batches; two cores"
    )
    click.echo(f"decoder, two processes   {megabytes / min(decodings):>7,.0f} MB/s  " + _seconds(decodings))
    click.echo(f"ingest, local[2]         {megabytes / min(ingests):>7,.0f} MB/s  " + _seconds(ingests))
    ratio = min(decodings) / min(ingests)
    click.echo(f"the first ingest         {megabytes / first:>7,.0f} MB/s  {first:.2f} s")
    click.echo(f"ratio                    {ratio:>7.2f}  (at least {RATIO_MIN})")
    return 0 if ratio >= RATIO_MIN else 1


def _seconds(times: Sequence[float]) -> str:
    return ", ".join(f"{each:.2f}" for each in times) + " s"


if __name__ == "__main__":
    sys.exit(main())
