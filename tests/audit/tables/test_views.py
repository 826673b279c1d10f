"""The page of the tables: its columns are those of the code, its examples count what counts."""

from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from tests.audit.tables import page
from tests.audit.tables.views import counted_plainly, example, lived_in


def test_the_page_has_the_columns_of_the_code() -> None:
    assert page.PAGE.read_text() == page.whole(), "python -m tests.audit.tables.page"


@pytest.fixture(scope="module")
def tables(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return lived_in(tmp_path_factory.mktemp("views"))


def test_duckdb_counts_what_counts(tables: Path) -> None:
    import duckdb

    connection = duckdb.connect(config={"autoinstall_known_extensions": False})
    try:
        connection.execute(example("DuckDB", tables))
        rows = connection.sql("SELECT path, position FROM record_batches").fetchall()
        paths = {path for (path,) in connection.sql("SELECT path FROM files WHERE stop <> 'gone'").fetchall()}
    finally:
        connection.close()
    assert (Counter(rows), paths) == counted_plainly(tables)


def test_pandas_counts_what_counts(tables: Path) -> None:
    names: dict[str, Any] = {}
    exec(example("pandas", tables), names)  # noqa: S102
    rows = names["record_batches"]
    files = names["files"]
    found = Counter(zip(rows["path"], rows["position"], strict=True))
    assert (found, set(files[files["stop"] != "gone"]["path"])) == counted_plainly(tables)
