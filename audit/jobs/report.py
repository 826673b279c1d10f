"""``audit report``: the verdict and what the cluster has been doing, as one HTML page."""

import os
import tempfile
import time
from collections.abc import Collection, Sequence
from pathlib import Path

from fencepost.audit.engine.protocol import Engine
from fencepost.audit.jobs.check import judge
from fencepost.audit.jobs.errors import AuditRefused
from fencepost.audit.jobs.figures import figures, span
from fencepost.audit.jobs.session import Show, shown
from fencepost.audit.jobs.source import relations_of
from fencepost.audit.report.page import Source, page
from fencepost.audit.report.verdict import Verdict


def run(
    engine: Engine,
    tables_dir: str,
    output: str,
    *,
    roots: Sequence[str],
    names: Collection[str],
    now_ms: int | None,
    show: Show,
    is_stopped: bool = False,
) -> Verdict:
    """Write the page to ``output``, all of it or nothing. Raises TablesRefused; OSError: not written."""
    with shown(engine, show, "looking at what was read") as show_step:
        relations = relations_of(engine, tables_dir, now_ms, show_step, is_stopped=is_stopped)
        verdict = judge(relations, names, show_step)
        show_step("summing up")
        first_ms, last_ms = span(relations)
        source = Source(
            roots=tuple(roots) or (tables_dir,),
            made_ms=time.time_ns() // 1_000_000,
            first_ms=first_ms,
            last_ms=last_ms,
        )
        text = page(verdict, figures(relations), source)
    _write(Path(output), text)
    return verdict


def require_writable(output: str) -> None:
    """Raises AuditRefused, before anything is read, if a page cannot be put there."""
    path = Path(output)
    if path.is_dir() or not os.access(path.absolute().parent, os.W_OK):
        raise AuditRefused(f"{output}: no file can be written there")


def _write(output: Path, text: str) -> None:
    """A reader of the page that was there before sees that one, or the new one."""
    descriptor, half = tempfile.mkstemp(prefix=f".{output.name}.", dir=output.absolute().parent)
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            file.write(text)
        Path(half).chmod(0o644)
        Path(half).replace(output)
    except OSError:
        Path(half).unlink(missing_ok=True)
        raise
