"""The tables of a folder as DataFrames."""

from pathlib import Path
from typing import Final

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StructType

from fencepost.audit.decode.columns import TABLES
from fencepost.audit.tables.store import read_manifest

SCHEMAS: Final[dict[str, StructType]] = {name: from_arrow_schema(columns) for name, columns in TABLES.items()}
"""The columns of ``fencepost.audit.decode.columns`` as Spark calls them."""


def read(spark: SparkSession, tables_dir: str) -> dict[str, DataFrame]:
    """Every table, as the last ingest left it: rows that a later one adds are not seen.

    Raises  TablesRefused if there are none, or of another version.
    """
    folder = Path(tables_dir).absolute()
    manifest = read_manifest(folder)
    frames = {}
    for table, schema in SCHEMAS.items():
        paths = [(folder / table / part.name).as_uri() for part in manifest.parts if part.table == table]
        if paths:
            frames[table] = spark.read.schema(schema).parquet(*paths)
        else:
            frames[table] = spark.createDataFrame([], schema)
    return frames


def settled_ms(tables_dir: str) -> int | None:
    """When the data logs' story was complete in the logs of the control plane: see ``ingest``.

    Raises  TablesRefused.
    """
    return read_manifest(Path(tables_dir).absolute()).settled_ms
