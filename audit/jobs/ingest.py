"""``audit ingest``: log directories into tables."""

from collections.abc import Sequence

from fencepost.audit.engine.protocol import Engine
from fencepost.audit.jobs.files import files_of
from fencepost.audit.jobs.session import Show, shown
from fencepost.audit.jobs.source import relations_of
from fencepost.audit.report.verdict import Files
from fencepost.audit.tables.ingest import ingest


def run(engine: Engine, roots: Sequence[str], tables_dir: str, show: Show) -> Files:
    """Bring the tables up to what is in ``roots`` now. Raises TablesRefused; OSError: not to be written."""
    with shown(engine, show, "reading logs") as show_step:
        ingest(engine, roots, tables_dir, show_step)
    return files_of(relations_of(engine, tables_dir, None, show))
