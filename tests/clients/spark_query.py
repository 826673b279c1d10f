"""One life of the query of spark_streaming.py, in a process: BOOTSTRAP, JARS, FOLDER, half or rest."""

import os
import sys
from pathlib import Path
from typing import Any

import click
from pyspark.sql import SparkSession

from fencepost.audit.source.java import wrapped_home
from tests.clients.spark_streaming import PARTITIONS, RECORDS, SOURCE, TARGET

BATCH = max(1, RECORDS // 8)
HALF_BATCHES = 3


def main(bootstrap: str, jars: str, folder: str, life: str) -> None:
    """Read what is there, or some batches of it; in the end count."""
    os.environ["JAVA_HOME"] = str(wrapped_home())
    spark: Any = (
        SparkSession.builder.master("local[2]")
        .config("spark.jars", ",".join(str(each) for each in Path(jars).glob("*.jar")))
        .config("spark.ui.enabled", "false")
        .config("spark.sql.shuffle.partitions", "2")
        .getOrCreate()
    )
    source = (
        spark.readStream.format("kafka")
        .option("kafka.bootstrap.servers", bootstrap)
        .option("subscribe", SOURCE)
        .option("startingOffsets", "earliest")
        .option("kafka.isolation.level", "read_committed")
        .option("maxOffsetsPerTrigger", BATCH)
        .load()
        .selectExpr("CAST(value AS STRING) AS value", "partition", "offset")
    )
    writer = (
        source.writeStream.format("parquet")
        .option("path", f"{folder}/parquet")
        .option("checkpointLocation", f"{folder}/checkpoint")
    )
    query = (writer.trigger(availableNow=True) if life == "rest" else writer).start()
    if life == "half":
        while (query.lastProgress or {}).get("batchId", 0) < HALF_BATCHES:
            query.awaitTermination(1)
        os._exit(0)  # as a driver that dies between two commits
    query.awaitTermination()
    found = spark.read.parquet(f"{folder}/parquet")
    counted, distinct = found.count(), found.select("value").distinct().count()
    (
        found.selectExpr("value", f"CAST(CAST(value AS BIGINT) % {PARTITIONS} AS INT) AS partition")
        .write.format("kafka")
        .option("kafka.bootstrap.servers", bootstrap)
        .option("topic", TARGET)
        .save()
    )
    written = (
        spark.read.format("kafka")
        .option("kafka.bootstrap.servers", bootstrap)
        .option("subscribe", TARGET)
        .load()
        .selectExpr("CAST(value AS STRING) AS value")
        .distinct()
        .count()
    )
    click.echo(f"counted {counted} distinct {distinct} written {written} lives 2")
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
