"""docs/metrics.md has every metric, as the code describes it."""

from pathlib import Path

from tests.node.metrics_page import IN_KAFKA, rows, table

PAGE = Path(__file__).parents[2] / "docs" / "metrics.md"


def test_the_page_has_every_metric() -> None:
    assert PAGE.read_text("utf-8").endswith(table() + "\n"), "run: python -m tests.node.metrics_page"


def test_what_kafka_shows_too_is_there() -> None:
    assert {name for name, *_ in rows()} >= IN_KAFKA.keys()
