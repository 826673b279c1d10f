"""Where a job's tables come from: made before, or out of the directories that were named, now."""

import contextlib
import tempfile
from collections.abc import Iterator, Sequence

from pyspark.sql import SparkSession

from fencepost.audit.checks.inputs import Inputs
from fencepost.audit.jobs.session import Show, shown
from fencepost.audit.jobs.small import fit
from fencepost.audit.tables.ingest import ingest
from fencepost.audit.tables.reading import read, settled_ms


@contextlib.contextmanager
def table_folder(tables_dir: str | None) -> Iterator[str]:
    """``tables_dir``, or a temporary folder that is gone at the end."""
    if tables_dir is not None:
        yield tables_dir
        return
    with tempfile.TemporaryDirectory(prefix="fencepost-audit-") as folder:
        yield folder


@contextlib.contextmanager
def prepared(spark: SparkSession, roots: Sequence[str], tables_dir: str | None, show: Show) -> Iterator[str]:
    """The folder of tables that hold all of ``roots``; without roots, ``tables_dir`` as it was left.

    Raises  TablesRefused if there are none, or of another version; OSError if they cannot be written.
    """
    with table_folder(tables_dir) as folder:
        if roots:
            with shown(spark, show, "reading logs") as show_step:
                ingest(spark, roots, folder, show_step)
        yield folder


def inputs_of(spark: SparkSession, tables_dir: str, now_ms: int | None = None) -> Inputs:
    """What the checks look at, in a session that is set for as much. Raises TablesRefused."""
    fit(spark, tables_dir)
    return Inputs.of(read(spark, tables_dir), now_ms=now_ms, settled_ms=settled_ms(tables_dir))
