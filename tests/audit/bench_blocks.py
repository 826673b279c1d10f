"""A hundred million blocks: time for each record, and the JVM's memory, at three sizes.

    python -m tests.audit.bench_blocks [--sizes 1000000,10000000,100000000] [--memory 2g] [--dir DIR]

Writes a metadata log's tables as the ingest leaves them (one record a batch, one block a record) with four
faults in them, and runs the check of blocks over each size in a JVM of its own. Needs 10 GB of disk for the
largest.
"""

import argparse
import json
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

FAULTS = 4  # two blocks given out twice, one end that goes back, one record lost
_TOPIC = "__cluster_metadata"


def main() -> None:
    """Print a row for each size; exit status 1 if a fault was not found, or one too many was."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sizes", default="1000000,10000000,100000000")
    parser.add_argument("--memory", default="2g")
    parser.add_argument("--dir", default=None)
    parser.add_argument("--one", type=int, default=None, help="internal: this size, in this process")
    given = parser.parse_args()
    folder = Path(given.dir or tempfile.mkdtemp(prefix="fencepost-bench-"))
    if given.one is not None:
        sys.stdout.write(json.dumps(_one(given.one, given.memory, folder)))
        return
    failed = False
    try:
        for size in map(int, given.sizes.split(",")):
            command = [sys.executable, "-m", "tests.audit.bench_blocks", "--one", str(size)]
            run = subprocess.run(
                [*command, "--memory", given.memory, "--dir", str(folder)],
                stdout=subprocess.PIPE, check=True, text=True,
            )  # fmt: skip
            row = json.loads(run.stdout.splitlines()[-1])
            failed |= row["findings"] != FAULTS
            sys.stdout.write(
                f"{size:>11,} blocks: {row['seconds']:7.1f} s, {row['cpu_seconds']:7.1f} s of CPU, "
                f"{1e9 * row['seconds'] / size:8.0f} ns each ({1e9 * row['cpu_seconds'] / size:.0f} of CPU), "
                f"JVM at most {row['jvm_mb']:,} MB, {row['findings']} findings of {FAULTS}\n"
            )
            sys.stdout.flush()
            shutil.rmtree(folder / str(size), ignore_errors=True)
    finally:
        if given.dir is None:
            shutil.rmtree(folder, ignore_errors=True)
    sys.exit(int(failed))


def _one(size: int, memory: str, folder: Path) -> dict[str, Any]:
    from fencepost.audit.source.session import session

    spark = session("bench blocks", master="local[2]", memory=memory)
    try:
        return _measured(spark, size, folder / str(size))
    finally:
        spark.stop()


def _measured(spark: Any, size: int, folder: Path) -> dict[str, Any]:
    from fencepost.audit.decode.columns import TABLES
    from fencepost.audit.engine.protocol import Stored
    from fencepost.audit.engine.spark import SparkEngine
    from fencepost.audit.jobs.relations import Relations, moments
    from fencepost.audit.jobs.source import RELATIONS

    tables = {name: spark.createDataFrame(schema.empty_table()) for name, schema in TABLES.items()}
    _write(spark, size, folder, tables)
    engine = SparkEngine(spark)
    engine.expect(2 * size)
    for name, schema in TABLES.items():
        engine.scan(name, schema, [Stored(tuple(map(str, (folder / name).glob("*.parquet"))))])
    engine.register("moments", moments(None, None))
    java = _java()
    begun, cpu = time.monotonic(), _cpu_seconds(java)
    findings = Relations(engine, RELATIONS, lambda _: None).rows("SELECT * FROM blocks_findings")
    return {
        "seconds": time.monotonic() - begun,
        "cpu_seconds": _cpu_seconds(java) - cpu,
        "findings": len(findings),
        "jvm_mb": _peak_mb(java),
    }


def _write(spark: Any, size: int, folder: Path, tables: dict[str, Any]) -> None:
    """As ``size`` allocations of 1000 ids leave them; a hundred segments."""
    records = max(size // 100, 1)
    place = [
        "CAST(1 AS int) AS node",
        f"'{_TOPIC}' AS topic",
        "CAST(0 AS int) AS partition",
        f"concat('/data/{_TOPIC}-0/', lpad(CAST(id - id % {records} AS string), 20, '0'), '.log') AS path",
        f"(id % {records}) * 92 AS position",
    ]
    lost, lower, again = size // 2, size // 3, (size // 5, size - 2)
    end = (
        f"CASE WHEN id = {lower} THEN (id - 5) * 1000 - 500 WHEN id IN {again} THEN id * 1000"
        " ELSE (id + 1) * 1000 END AS block_end"
    )
    rows = spark.range(0, size, numPartitions=max(4, size // 5_000_000)).where(f"id <> {lost}")
    batches = {
        **dict.fromkeys(("base_offset", "last_offset", "base_timestamp_ms", "max_timestamp_ms"), "id"),
        **dict.fromkeys(("producer_id", "producer_epoch", "base_sequence"), "-1"),
        "size": "92",
        "leader_epoch": "1",
        "record_count": "1",
        "attributes": "0",
        "crc": "id * 7919 % 4294967291",
    }
    blocks = {
        "source": "'log'",
        "leader_epoch": "1",
        "broker_id": "id % 5",
        "broker_epoch": "id % 5",
        "offset": "id",
        "timestamp_ms": "id",
    }
    for name, values in (("record_batches", batches), ("producer_id_blocks", blocks)):
        columns = [
            f"CAST({values.get(field.name, 'NULL')} AS {field.dataType.simpleString()}) AS {field.name}"
            for field in tables[name].schema
            if field.name not in ("node", "topic", "partition", "path", "position", "block_end")
        ]
        extra = [end] if name == "producer_id_blocks" else []
        rows.selectExpr(*place, *columns, *extra).write.parquet(str(folder / name), compression="zstd")
    segment = "'segment' AS kind"
    files = spark.range(1).selectExpr(*place, segment).drop("position")
    empty = tables["files"]
    empty.unionByName(files, allowMissingColumns=True).write.parquet(str(folder / "files"))


def _java() -> int:
    """The process of the JVM that this one started."""
    parents = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            name, rest = stat.read_text().split("(", 1)[1].rsplit(")", 1)
        except (OSError, IndexError):
            continue
        parents[int(stat.parent.name)] = (int(rest.split()[1]), name)
    mine = {Path("/proc/self").resolve().name}
    for _ in range(4):  # python, the launcher's shell, java
        mine |= {str(pid) for pid, (parent, _) in parents.items() if str(parent) in mine}
    return next(int(pid) for pid in mine if parents.get(int(pid), (0, ""))[1] == "java")


def _peak_mb(process: int) -> int:
    for line in Path(f"/proc/{process}/status").read_text().splitlines():
        if line.startswith("VmHWM"):
            return int(line.split()[1]) // 1024
    return 0


def _cpu_seconds(process: int) -> float:
    fields = Path(f"/proc/{process}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / 100


if __name__ == "__main__":
    main()
