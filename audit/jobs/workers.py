"""``python -m``: the process that Spark forks Python workers of this machine from, for a local master.

It imports what each worker of an audit imports, before the first of them is forked: they share its memory.
The rest is PySpark's own. (pyarrow imports pandas, where it is, with the first array that becomes numpy's.)
"""

import gc
import runpy

import pandas as pd  # noqa: F401
import pyarrow.compute  # noqa: F401
import pyspark.worker  # noqa: F401

import fencepost.audit.checks.walked
import fencepost.audit.tables.bundle  # noqa: F401

if __name__ == "__main__":
    gc.freeze()  # a collection in a worker would write into every page of theirs
    runpy.run_module("pyspark.daemon", run_name="__main__", alter_sys=True)
