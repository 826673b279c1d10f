"""The checks on the tables of ``fencepost.audit.decode.local``: an audit without ingest and commands."""

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pyarrow.compute as pc

from fencepost.audit.decode import local
from fencepost.audit.engine.protocol import Engine
from fencepost.audit.jobs.check import judge
from fencepost.audit.jobs.relations import Relations, moments
from fencepost.audit.jobs.source import RELATIONS

Rows = list[dict[str, Any]]

QUICK: Final = {
    "spark.sql.shuffle.partitions": "1",
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
}
"""For a few thousand rows: most of such an audit would be spent on compiling a hundred plans."""


@contextlib.contextmanager
def quick(spark: Any) -> Iterator[Any]:
    """The session with those settings; at the end it has its own again."""
    before = {name: spark.conf.get(name) for name in QUICK}
    try:
        for name, value in QUICK.items():
            spark.conf.set(name, value)
        yield spark
    finally:
        for name, value in before.items():
            spark.conf.set(name, value)


def relations_of(
    engine: Engine, root: Path, after_ms: int = 0, *, is_stopped: bool = True, deep: bool = False
) -> Relations:
    """What is checked, made from these directories. ``after_ms``: so long after the last record of the logs.

    ``is_stopped``   no directory changes any more; else only those that say so were copied whole.
    """
    read = local.tables([str(root)], deep=deep)
    now_ms = pc.max(read["transaction_states"]["timestamp_ms"]).as_py() + after_ms if after_ms else None
    for name, rows in read.items():
        engine.register(name, rows)
    engine.register("moments", moments(now_ms, None, is_stopped=is_stopped))
    return Relations(engine, RELATIONS, lambda _: None)


def judged(relations: Relations) -> tuple[Rows, Rows]:
    """Findings and what is unknown, as rows."""
    outcomes = judge(relations, (), lambda _: None).outcomes
    found = [each._asdict() for outcome in outcomes for each in outcome.findings]
    return found, [each._asdict() for outcome in outcomes for each in outcome.unknown]


def audit(
    engine: Engine, root: Path, after_ms: int = 0, *, is_stopped: bool = True, deep: bool = False
) -> tuple[Rows, Rows]:
    """Both at once."""
    return judged(relations_of(engine, root, after_ms, is_stopped=is_stopped, deep=deep))
