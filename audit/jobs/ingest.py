"""``audit ingest``: log directories into tables."""

from collections.abc import Sequence

from pyspark.sql import SparkSession

from fencepost.audit.jobs.files import files_of
from fencepost.audit.jobs.session import Show, shown
from fencepost.audit.report.verdict import Files
from fencepost.audit.tables.ingest import ingest
from fencepost.audit.tables.reading import read


def run(spark: SparkSession, roots: Sequence[str], tables_dir: str, show: Show) -> Files:
    """Bring the tables up to what is in ``roots`` now. Raises TablesRefused; OSError: not to be written."""
    with shown(spark, show, "reading logs") as show_step:
        ingest(spark, roots, tables_dir, show_step)
    return files_of(read(spark, tables_dir)["files"])
