"""What the checks look at: the tables of ``audit.decode.columns`` as DataFrames, and two moments.

Moments     ``settled_ms``: the wall clock at which the data logs' sizes were taken. The coordinator's log was
            listed after it, so what is in the data logs up to then has its story in the coordinator's log.
            ``now_ms``: open transactions are judged at it; by default the latest time in the logs.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Self

from pyspark.sql import DataFrame

from audit.decode.columns import TABLES


@dataclass(frozen=True)
class Inputs:
    """Columns: ``audit.decode.columns``, one table each."""

    record_batches: DataFrame
    producer_id_blocks: DataFrame
    brokers: DataFrame
    topics: DataFrame
    transaction_states: DataFrame
    offset_commits: DataFrame
    record_faults: DataFrame
    files: DataFrame
    now_ms: int | None = None
    settled_ms: int | None = None

    @classmethod
    def of(
        cls, tables: Mapping[str, DataFrame], *, now_ms: int | None = None, settled_ms: int | None = None
    ) -> Self:
        """Of tables by their names; other names are not looked at.

        Raises   KeyError if one is not there: a table without rows is a table.
        """
        return cls(**{name: tables[name] for name in TABLES}, now_ms=now_ms, settled_ms=settled_ms)
