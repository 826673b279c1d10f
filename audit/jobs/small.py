"""Spark set for few rows: a small audit would else go by in compiling a hundred plans, and in empty tasks."""

from pathlib import Path
from typing import Final

from pyspark.sql import SparkSession

from fencepost.audit.tables.store import read_manifest

SMALL_ROWS_MAX: Final = 300_000
"""In all tables together. Above, compiled code is faster than what it takes to compile it."""

_FOR_FEW: Final = {
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.sql.shuffle.partitions": "2",
}


def fit(spark: SparkSession, tables_dir: str) -> None:
    """Set the session for the tables that it is about to look at; what its starter has set is left as it is.

    Raises  TablesRefused.
    """
    rows = sum(part.rows for part in read_manifest(Path(tables_dir).absolute()).parts)
    chosen = spark.sparkContext.getConf()
    for name, value in _FOR_FEW.items():
        if not chosen.contains(name):
            if rows <= SMALL_ROWS_MAX:
                spark.conf.set(name, value)
            else:
                spark.conf.unset(name)
