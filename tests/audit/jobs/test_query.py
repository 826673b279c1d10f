"""Who owned an id, and what happened to a transactional id: on logs that are known."""

from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from fencepost.audit.engine.protocol import Engine


def test_a_transactional_ids_story(engine: "Engine", fencepost_tables: str) -> None:
    from fencepost.audit.jobs import query

    story: Any = query.question(None, None, "codec-zstd")(engine, fencepost_tables, print)
    whats = [each.what for each in story.events]
    assert whats[0].startswith("producer 10 epoch 0 is its producer")
    ended = sum(each.startswith("transaction committed") for each in whats)
    partitions = {(each.topic, each.partition) for each in story.written}
    assert ended * len(partitions) == sum(each.commits for each in story.written)
    assert sum("fenced by a new instance" in each for each in whats) == 2
    assert story.exit_status == 0
    offsets = [each.offset for each in story.events]
    assert offsets == sorted(offsets)


def test_an_id_that_no_log_has(engine: "Engine", fencepost_tables: str) -> None:
    from fencepost.audit.jobs import query

    story = query.question(None, None, "unknown")(engine, fencepost_tables, print)
    assert list(story.lines()) == ["unknown: these logs know nothing of it"]
    assert story.exit_status == 1


@pytest.mark.parametrize(
    ("at", "status"),
    [
        pytest.param(None, 0, id="ever"),
        pytest.param("2000-01-01", 1, id="before-the-block-was-given-out"),
        pytest.param("2100-01-01", 0, id="after-it"),
    ],
)
def test_a_producer_ids_owner(engine: "Engine", fencepost_tables: str, at: str | None, status: int) -> None:
    from fencepost.audit.jobs import query

    owned: Any = query.question(5, at, None)(engine, fencepost_tables, print)
    (block,) = owned.blocks
    assert (block.first, block.end, block.source) == (3, 6, "log")
    assert [each.transactional_id for each in owned.uses] == ["codec-snappy"]
    assert owned.exit_status == status
    assert bool(owned.owners) == (status == 0)


def test_the_first_block_begins_at_0(engine: "Engine", fencepost_tables: str) -> None:
    from fencepost.audit.jobs import query

    owned: Any = query.question(0, None, None)(engine, fencepost_tables, print)
    assert [(each.first, each.end) for each in owned.owners] == [(0, 3)]


def test_an_id_that_nobody_was_given(engine: "Engine", fencepost_tables: str) -> None:
    from fencepost.audit.jobs import query

    owned = query.question(10**6, None, None)(engine, fencepost_tables, print)
    assert owned.exit_status == 1


def test_what_is_no_time_is_refused() -> None:
    from fencepost.audit.jobs import query
    from fencepost.audit.jobs.errors import AuditRefused

    with pytest.raises(AuditRefused, match="tomorrow is no time"):
        query.question(5, "tomorrow", None)
