"""``audit ingest``: log directories into tables."""

import socket
from collections.abc import Sequence

from fencepost.audit.engine.protocol import Engine
from fencepost.audit.jobs.files import files_of
from fencepost.audit.jobs.session import Show, shown
from fencepost.audit.jobs.source import relations_of
from fencepost.audit.report.verdict import Files
from fencepost.audit.source.sparing import Pace
from fencepost.audit.source.uris import local_path
from fencepost.audit.tables.ingest import ingest


def run(
    engine: Engine,
    roots: Sequence[str],
    tables_dir: str,
    show: Show,
    *,
    host: str | None = None,
    mb_per_s: float | None = None,
    deep: bool = False,
) -> Files:
    """Bring the tables up to what is in ``roots`` now. Raises TablesRefused; OSError: not to be written.

    ``host``      what paths of this machine are called by; None: its name, if the tables are in a store.
    ``mb_per_s``  of all tasks together; None: as fast as it goes.
    ``deep``      the records of every topic are opened.
    """
    if host is None:
        host = "" if local_path(tables_dir) is not None else socket.gethostname()
    pace = Pace(None if mb_per_s is None else mb_per_s * 1_000_000, sparing=True)
    with shown(engine, show, "reading logs") as show_step:
        ingest(engine, roots, tables_dir, show_step, machine=host, pace=pace, deep=deep)
    return files_of(relations_of(engine, tables_dir, None, show))
