"""The tables of a folder as relations of an engine."""

from pathlib import Path

from fencepost.audit.decode.columns import TABLES
from fencepost.audit.engine.protocol import Engine
from fencepost.audit.tables.store import read_manifest


def scan(engine: Engine, tables_dir: str) -> None:
    """Name every table, as the last ingest left it: rows that a later one adds are not seen.

    Raises  TablesRefused if there are none, or of another version.
    """
    folder = Path(tables_dir).absolute()
    manifest = read_manifest(folder)
    engine.expect(sum(part.rows for part in manifest.parts))
    for table, columns in TABLES.items():
        engine.scan(
            table,
            columns,
            [str(folder / table / part.name) for part in manifest.parts if part.table == table],
        )


def settled_ms(tables_dir: str) -> int | None:
    """When the data logs' story was complete in the logs of the control plane: see ``ingest``.

    Raises  TablesRefused.
    """
    return read_manifest(Path(tables_dir).absolute()).settled_ms
