"""Which engine a command runs on: the one in this process for what is small, Spark for the rest."""

import os
from collections.abc import Sequence
from importlib.util import find_spec
from typing import Final

from fencepost.audit.decode.plan import list_files
from fencepost.audit.source.files import ANY
from fencepost.audit.tables.reading import log_bytes
from fencepost.audit.tables.refused import TablesRefused

AUTO: Final = "auto"
EMBEDDED: Final = "embedded"
SPARK: Final = "spark"
ENGINES: Final = (AUTO, EMBEDDED, SPARK)

EMBEDDED_BYTES_MAX: Final = 1_000_000_000
"""Of logs. Above, the start of a JVM is a small part of what an audit takes, and Spark has all cores."""

_SUBMITTED: Final = ("PYSPARK_SUBMIT_ARGS", "PYSPARK_GATEWAY_PORT", "SPARK_REMOTE")
"""Variables that say to Spark where it runs."""


def chosen(engine: str, *, roots: Sequence[str], tables_dir: str | None, master: str | None) -> str:
    """``EMBEDDED`` or ``SPARK``.

    Spark if a master is named, here or to Spark itself, or the logs are large and Spark is installed.
    """
    if engine != AUTO:
        return engine
    if master is not None or any(os.environ.get(name) for name in _SUBMITTED):
        return SPARK
    if find_spec("pyspark") is None or _log_bytes(roots, tables_dir) < EMBEDDED_BYTES_MAX:
        return EMBEDDED
    return SPARK


def _log_bytes(roots: Sequence[str], tables_dir: str | None) -> int:
    """Of the logs that are named, and of those whose rows the tables have."""
    size = sum(file.size for file in list_files(roots, files=ANY))
    if tables_dir is None:
        return size
    try:
        return max(size, log_bytes(tables_dir))
    except (TablesRefused, OSError):
        return size  # there are none yet, or reading them will say what is wrong
