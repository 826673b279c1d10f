"""Where a job's tables come from: made before, or out of the directories that were named, now."""

import contextlib
import tempfile
from collections.abc import Iterator, Sequence

from fencepost.audit.checks.catalogue import CATALOGUE
from fencepost.audit.engine.protocol import Engine
from fencepost.audit.jobs import figures
from fencepost.audit.jobs.relations import Relations, moments
from fencepost.audit.jobs.session import Show, shown
from fencepost.audit.tables import committed, history, ownership
from fencepost.audit.tables.ingest import ingest
from fencepost.audit.tables.reading import scan, settled_ms

RELATIONS = {
    **CATALOGUE,
    **history.CATALOGUE,
    **ownership.CATALOGUE,
    **committed.CATALOGUE,
    **figures.CATALOGUE,
}
"""Every relation that some command reads, by name."""


@contextlib.contextmanager
def table_folder(tables_dir: str | None) -> Iterator[str]:
    """``tables_dir``, or a temporary folder that is gone at the end."""
    if tables_dir is not None:
        yield tables_dir
        return
    with tempfile.TemporaryDirectory(prefix="fencepost-audit-") as folder:
        yield folder


@contextlib.contextmanager
def prepared(
    engine: Engine, roots: Sequence[str], tables_dir: str | None, show: Show, *, deep: bool = False
) -> Iterator[str]:
    """The folder of tables that hold all of ``roots``; without roots, ``tables_dir`` as it was left.

    deep    the records of every topic are opened.
    Raises  TablesRefused if there are none, or of another version; OSError if they cannot be written.
    """
    with table_folder(tables_dir) as folder:
        if roots:
            with shown(engine, show, "reading logs") as show_step:
                ingest(engine, roots, folder, show_step, deep=deep)
        yield folder


def relations_of(
    engine: Engine, tables_dir: str, now_ms: int | None, show: Show, *, is_stopped: bool = False
) -> Relations:
    """What the checks look at. ``is_stopped``: see ``moments``. Raises TablesRefused."""
    scan(engine, tables_dir)
    engine.register("moments", moments(now_ms, settled_ms(tables_dir), is_stopped=is_stopped))
    return Relations(engine, RELATIONS, show)
