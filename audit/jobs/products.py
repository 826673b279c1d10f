"""What an audit leaves beside its tables: owners of ids, transactions, committed offsets, and the findings.

Layout   <tables>/products/<number>/<name>/*.parquet; the highest number counts. Written under another name
         and renamed: a reader sees all of a number or nothing. The one before is kept for who reads it.
"""

import shutil
import tempfile
from pathlib import Path
from typing import Final

from pyspark.sql import DataFrame, SparkSession

from fencepost.audit.checks.findings import FINDINGS
from fencepost.audit.checks.inputs import Inputs
from fencepost.audit.report.verdict import Verdict
from fencepost.audit.tables.committed import committed_offsets
from fencepost.audit.tables.history import transaction_history
from fencepost.audit.tables.ownership import producer_id_ownership

FOLDER: Final = "products"
KEPT: Final = 2  # the current one, and the one that a reader may still have open


def write(spark: SparkSession, inputs: Inputs, verdict: Verdict, tables_dir: str) -> Path:
    """Write all of them, of the findings those that the verdict lists; the folder that counts now.

    Raises  OSError.
    """
    home = Path(tables_dir).absolute() / FOLDER
    home.mkdir(parents=True, exist_ok=True)
    findings = [tuple(each) for outcome in verdict.outcomes for each in outcome.findings]
    products: dict[str, DataFrame] = {
        "producer_id_ownership": producer_id_ownership(inputs),
        "transaction_history": transaction_history(inputs),
        "committed_offsets": committed_offsets(inputs),
        "findings": spark.createDataFrame(findings, FINDINGS),
    }
    with tempfile.TemporaryDirectory(prefix=".half-", dir=home) as half:
        for name, frame in products.items():
            frame.write.parquet((Path(half) / "all" / name).as_uri())
        numbers = _numbers(home)
        made = home / f"{(numbers[-1] if numbers else 0) + 1:08d}"
        (Path(half) / "all").rename(made)
    for number in _numbers(home)[:-KEPT]:
        shutil.rmtree(home / f"{number:08d}", ignore_errors=True)
    return made


def _numbers(home: Path) -> list[int]:
    return sorted(int(each.name) for each in home.iterdir() if each.name.isdecimal())
