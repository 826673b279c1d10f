"""What an audit leaves beside its tables: owners of ids, transactions, committed offsets, and the findings.

Layout   <tables>/products/<number>/<name>/*.parquet; the highest number counts. Written under another name
         and renamed: a reader sees all of a number or nothing. The one before is kept for who reads it.
"""

import shutil
import tempfile
from pathlib import Path
from typing import Final

import pyarrow as pa
import pyarrow.parquet as pq

from fencepost.audit.checks.rows import FINDINGS
from fencepost.audit.jobs.relations import Relations
from fencepost.audit.report.verdict import Verdict

FOLDER: Final = "products"
KEPT: Final = 2  # the current one, and the one that a reader may still have open
_RELATIONS: Final = ("producer_id_ownership", "transaction_history", "committed_offsets")


def write(relations: Relations, verdict: Verdict, tables_dir: str) -> Path:
    """Write all of them, of the findings those that the verdict lists; the folder that counts now.

    Raises  OSError.
    """
    home = Path(tables_dir).absolute() / FOLDER
    home.mkdir(parents=True, exist_ok=True)
    findings = [each._asdict() for outcome in verdict.outcomes for each in outcome.findings]
    with tempfile.TemporaryDirectory(prefix=".half-", dir=home) as half:
        made = Path(half) / "all"
        for name in _RELATIONS:
            relations.write(f"SELECT * FROM {name}", str(made / name))
        (made / "findings").mkdir()
        pq.write_table(pa.Table.from_pylist(findings, schema=FINDINGS), made / "findings" / "part-0.parquet")
        numbers = _numbers(home)
        kept = home / f"{(numbers[-1] if numbers else 0) + 1:08d}"
        made.rename(kept)
    for number in _numbers(home)[:-KEPT]:
        shutil.rmtree(home / f"{number:08d}", ignore_errors=True)
    return kept


def _numbers(home: Path) -> list[int]:
    return sorted(int(each.name) for each in home.iterdir() if each.name.isdecimal())
