"""Each API key has a row that says what a principal needs, and its lines on the page."""

from collections.abc import Iterator
from pathlib import Path

from fencepost.broker.access.needs import ROWS
from fencepost.controller.errors import ErrorCode
from fencepost.wire.listener import OWN_KEYS
from fencepost.wire.registry import APIS

PAGE = Path(__file__).parents[1] / "docs" / "authorization.md"


def test_every_api_key_has_a_row() -> None:
    """Where an authorizer is configured, a listener with another key does not start."""
    missing = {key: api.name for key, api in APIS.items() if key not in ROWS and key not in OWN_KEYS}
    assert missing == {}, "add a row to ROWS in broker/access/needs.py: CONTRIBUTING.md, Add a Kafka API key"
    assert set(ROWS) | OWN_KEYS == set(APIS)
    assert list(ROWS) == sorted(ROWS)


def listed() -> Iterator[str]:
    """The page's table."""
    yield "| key | API | needs | on | when | code |"
    for key, row in ROWS.items():
        api = APIS[key]
        if not row.needs:
            yield f"| {key} | {api.name} | nothing | - | - | - |"
        for each in row.needs:
            yield (
                f"| {key} | {api.name} | {each.operation.name} | {each.of.name} | {each.note or 'always'} "
                f"| {ErrorCode(each.code).name} ({int(each.code)}) |"
            )


def test_the_page_has_the_table() -> None:
    rows = [line for line in PAGE.read_text("utf-8").splitlines() if line.startswith("| ")]
    wanted = list(listed())
    assert rows[: len(wanted)] == wanted, "\n".join(wanted)
