"""How large logs are, as a stream: its offset is what a listing of the directories sums up to.

A batch is due whenever that has changed, and ``IDLE_SECONDS`` after the last one: time alone makes a
transaction hang. The rows are of no use; that there is a batch is.
"""

import hashlib
import json
import time
from collections.abc import Iterator, Sequence
from typing import Any, Final

from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.types import StringType, StructField, StructType

from fencepost.audit.decode.plan import list_files
from fencepost.audit.source.files import ANY

NAME: Final = "fencepost_growth"
IDLE_SECONDS: Final = 10
_ROOT: Final = "root."


class Growth(DataSource):
    """Options ``root.0``, ``root.1``...: the directories."""

    @classmethod
    def name(cls) -> str:
        """The name of the Spark data source format."""
        return NAME

    def schema(self) -> StructType:
        """The schema: one row per batch."""
        return StructType([StructField("state", StringType())])

    def streamReader(self, schema: StructType) -> "GrowthReader":  # noqa: N802 - Spark's name
        """Of the directories that the options name."""
        named = sorted((key, value) for key, value in self.options.items() if key.startswith(_ROOT))
        return GrowthReader([value for _, value in named])


class GrowthReader(DataSourceStreamReader):
    """The offset is of constant size, whatever the number of files."""

    def __init__(self, roots: Sequence[str]) -> None:
        self._roots = list(roots)

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802 - Spark's name
        """Of logs that were not looked at."""
        return {"state": "", "idle": 0}

    def latestOffset(self, *_: object) -> dict[str, Any]:  # noqa: N802 - Spark's name
        """What the directories come to now."""
        return {"state": state_of(self._roots), "idle": int(time.time()) // IDLE_SECONDS}

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        """A single partition."""
        return [InputPartition(json.dumps(end))]

    def read(self, partition: InputPartition) -> Iterator[tuple[str]]:
        """A single row: the offset itself."""
        yield (str(partition.value),)


def state_of(roots: Sequence[str]) -> str:
    """What changes when a file below the roots comes, goes, or has another size."""
    digest = hashlib.sha256()
    for file in list_files(roots, files=ANY):
        digest.update(f"{file.path}\0{file.size}\0{file.fault}\n".encode(errors="surrogateescape"))
    return digest.hexdigest()
