"""Which engine a command runs on, and how what it waits for is shown."""

import re
from pathlib import Path
from queue import Queue
from threading import Event

import pytest

from fencepost.audit.jobs import choice
from fencepost.audit.jobs.choice import AUTO, EMBEDDED, SPARK
from fencepost.audit.jobs.session import waiting


@pytest.mark.parametrize(
    ("engine", "master", "submitted", "most", "expected"),
    [
        pytest.param(AUTO, None, None, 1_000, EMBEDDED, id="small"),
        pytest.param(AUTO, None, None, 100, SPARK, id="large"),
        pytest.param(AUTO, "local[2]", None, 1_000, SPARK, id="a-master-is-named"),
        pytest.param(AUTO, None, "--master local pyspark-shell", 1_000, SPARK, id="to-spark-itself"),
        pytest.param(EMBEDDED, "local[2]", None, 100, EMBEDDED, id="embedded-whatever-else-is-said"),
        pytest.param(SPARK, None, None, 1_000, SPARK, id="spark-whatever-the-size"),
    ],
)
def test_the_engine_is_that_of_the_size_where_none_is_named(
    engine: str,
    master: str | None,
    submitted: str | None,
    most: int,
    expected: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    log = tmp_path / "t-0" / f"{0:020}.log"
    log.parent.mkdir()
    log.write_bytes(bytes(500))
    for name in ("PYSPARK_SUBMIT_ARGS", "PYSPARK_GATEWAY_PORT", "SPARK_REMOTE"):
        monkeypatch.delenv(name, raising=False)
    if submitted is not None:
        monkeypatch.setenv("PYSPARK_SUBMIT_ARGS", submitted)
    monkeypatch.setattr(choice, "EMBEDDED_BYTES_MAX", most)
    monkeypatch.setattr(choice, "find_spec", lambda _: object())
    assert choice.chosen(engine, roots=[str(tmp_path)], tables_dir=None, master=master) == expected


def test_a_wait_is_shown_with_its_time() -> None:
    said: Queue[str] = Queue()
    with waiting(said.put, "starting Spark", lambda: "1 of 2"):
        shown = [said.get(timeout=30)]
        while not shown[-1].endswith("1 of 2"):
            shown.append(said.get(timeout=30))
    assert shown[0] == "starting Spark"
    assert re.fullmatch(r"starting Spark  \d+ s  1 of 2", shown[-1])
    last = ""
    while not said.empty():
        last = said.get()
    assert last == "", "the line is cleared"


def test_a_wait_is_shown_while_the_engine_does_not_answer() -> None:
    """A JVM that collects garbage answers later."""
    said: Queue[str] = Queue()
    is_heard = Event()

    def progress() -> str:
        is_heard.wait(30)
        return ""

    with waiting(said.put, "turns", progress):
        shown = [said.get(timeout=20) for _ in range(3)]
        is_heard.set()
    assert [re.sub(r"\d+ s", "N s", each) for each in shown] == ["turns", "turns  N s", "turns  N s"]
