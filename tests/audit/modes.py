"""Does the audit say the same wherever Spark runs? ``python -m tests.audit.modes [local|standalone|connect]``

Logs are ingested and checked on local[*], on a standalone cluster of two workers, and through Spark Connect;
the tables and the verdict of some checks are those of the embedded engine. Exit status 1 if they are not.
What Spark Connect needs of Python is installed by ``make audit-spark``.
"""

import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any, Final

import click

from tests.audit import standalone

MODES: Final = ("local", "standalone", "connect")
CHECKS: Final = ("blocks", "ids", "epochs", "groups", "integrity")
"""Enough of them to have texts, walks and functions of each engine in it."""
_SETTINGS: Final = {"spark.sql.shuffle.partitions": "2"}


def main(modes: list[str]) -> int:
    failed = []
    for mode in modes or MODES:
        with tempfile.TemporaryDirectory(prefix="fencepost-modes-") as home:
            folder = Path(home)
            if mode == "standalone":
                with standalone.cluster(folder) as running:
                    status = _apart(folder, running.url)
            elif mode == "connect":
                with standalone.connect_server(folder) as url:
                    status = _apart(folder, url)
            else:
                status = _apart(folder, "local[*]")
        click.echo(f"{mode}: {'the same' if status == 0 else 'NOT the same'}")
        failed += [mode] if status else []
    return 1 if failed else 0


def _apart(folder: Path, url: str) -> int:
    """In a process of its own: a process has one Spark."""
    command = [sys.executable, "-m", "tests.audit.modes", "--master", url, str(folder)]
    return subprocess.run(command, check=False).returncode


def compared(url: str, folder: Path) -> int:
    """One mode."""
    from fencepost.audit.engine.embedded import EmbeddedEngine
    from fencepost.audit.engine.spark import SparkEngine
    from fencepost.audit.source.session import session
    from tests.audit.faults import cluster

    root = cluster.unpacked(folder / "logs")
    embedded = EmbeddedEngine(str(folder))
    expected = said(embedded, root, folder / "embedded")
    embedded.close()
    loopback = {} if url.startswith("sc://") else standalone.LOOPBACK
    spark = session("modes", master=url, memory="1g", settings={**_SETTINGS, **loopback})
    found = said(SparkEngine(spark), root, folder / "spark")
    spark.stop()
    for name, value in expected.items():
        if found[name] != value:
            click.echo(f"{name}: {str(found[name])[:500]}\nexpected {str(value)[:500]}")
    return 0 if found == expected else 1


def said(engine: Any, root: Path, tables: Path) -> dict[str, Any]:
    """The rows of each table, and the verdict."""
    from fencepost.audit.decode.columns import TABLES
    from fencepost.audit.jobs import check
    from fencepost.audit.report.verdict import document
    from fencepost.audit.tables.ingest import ingest
    from fencepost.audit.tables.reading import scan

    ingest(engine, [str(root)], str(tables))
    scan(engine, str(tables))
    found: dict[str, Any] = {
        name: sorted(map(repr, engine.rows(f'SELECT * FROM "{name}"'))) for name in TABLES
    }
    verdict = check.run(engine, str(tables), names=CHECKS, now_ms=None, show=lambda _: None)
    found["verdict"] = json.loads(json.dumps(document(verdict)))
    return found


if __name__ == "__main__":
    arguments = sys.argv[1:]
    sys.exit(compared(arguments[1], Path(arguments[2])) if "--master" in arguments else main(arguments))
