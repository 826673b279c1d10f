"""An ingest on Spark that ends by SIGKILL as soon as so many Parquet files are there.

``python -m tests.audit.spark.ingest.killed ROOT TABLES FILES``
"""

import os
import signal
import sys
import threading
from pathlib import Path

from fencepost.audit.engine.spark import SparkEngine
from fencepost.audit.tables.ingest import ingest


def main() -> None:
    """See above."""
    from fencepost.audit.source.session import session

    root, tables, count = sys.argv[1:]
    spark = session("killed", master="local[2]", memory="1g")

    def watch() -> None:
        look = threading.Event()
        while len(list(Path(tables).rglob("*.parquet"))) < int(count):
            look.wait(0.002)
        os.kill(os.getpid(), signal.SIGKILL)

    threading.Thread(target=watch, daemon=True).start()
    ingest(SparkEngine(spark), [root], tables)


if __name__ == "__main__":
    main()
