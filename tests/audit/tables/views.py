"""The page's examples, and tables that have all that makes a reader count wrongly."""

import re
from collections import Counter
from pathlib import Path

import pytest

from fencepost.audit.tables.ingest import ingest
from fencepost.audit.tables.parts import PartWriter, stored_rows
from fencepost.audit.tables.place import place_of
from fencepost.audit.tables.snapshot import required
from tests.audit.faults import cluster
from tests.audit.tables.page import PAGE
from tests.audit.tables.rows import on_disk
from tests.audit.tables.workers import Here


def example(name: str, tables: Path) -> str:
    """The code under a name on the page, of these tables."""
    found = re.search(rf"^\*\*{name}\*\*.*?^```\w+\n(.*?)^```$", PAGE.read_text(), re.MULTILINE | re.DOTALL)
    assert found is not None, name
    return found[1].replace("{tables}", str(tables))


def counted_plainly(tables: Path) -> tuple[Counter[tuple[str, int]], set[str]]:
    """How often each (path, position) of record_batches counts, and the log files that are there."""
    found = on_disk(tables)["record_batches"]
    rows = [eval(row, {}) for row in found.elements()]  # noqa: S307 - what repr() wrote
    paths = {row["path"] for row in required(place_of(str(tables))).present()}
    return Counter((row["path"], row["position"]) for row in rows), paths


def lived_in(folder: Path) -> Path:
    """Grown, read anew, merged, with a file that is gone, the leftovers of a task and of a writer that was
    killed.
    """
    root, tables = cluster.unpacked(folder / "logs"), folder / "tables"
    first, second, third = sorted(root.rglob("*.log"), key=lambda path: path.stat().st_size)[-3:]
    whole = {path: path.read_bytes() for path in (first, second)}
    for path, content in whole.items():
        path.write_bytes(content[: len(content) // 2])
    ingest(Here(), [str(root)], str(tables))
    for path, content in whole.items():
        path.write_bytes(content)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("fencepost.audit.tables.merging.SMALL_INGESTS_MAX", 1)
        ingest(Here(), [str(root)], str(tables))
    first.write_bytes(whole[first][: len(whole[first]) // 3])
    third.unlink()
    assert len(ingest(Here(), [str(root)], str(tables)).read_anew) == 2
    place = place_of(str(tables))
    found = required(place)
    part = next(each for each in found.live[3].parts if each.table == "record_batches")
    for number in (3, 9):
        with PartWriter(place, number, "left") as writer:
            for rows in stored_rows(place, part, ()):
                writer.write("record_batches", rows)
            writer.close()
    assert set(found.documents) == {1, 2, 3, 4}
    return tables
