"""The lasting products: who owned which producer ids, what became of every transaction and commit."""

from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from tests.audit.checks.group_cases import group
from tests.audit.checks.rows import Row, Story, relations

if TYPE_CHECKING:
    from fencepost.audit.engine.protocol import Engine


def _rows(engine: "Engine", story: Story, product: str, order: str) -> list[Any]:
    rows = relations(engine, [story]).rows(f'SELECT * FROM {product} ORDER BY "{order}"')
    return [SimpleNamespace(**row) for row in rows]


def _registered(story: Story, broker: int, event: str = "registered") -> int:
    batch = story.batch(topic="__cluster_metadata", partition=0)
    row: Row = {name: batch[name] for name in ("node", "topic", "partition", "path", "position")}
    epoch = batch["base_offset"]
    row |= {"offset": epoch, "timestamp_ms": batch["base_timestamp_ms"], "event": event, "broker_id": broker}
    story.tables["brokers"].append(
        row | {"broker_epoch": epoch, "endpoints": f"host{broker}:9092", "incarnation_id": f"life-{epoch}"}
    )
    return int(epoch)


def test_a_block_is_its_brokers_until_it_registers_again(engine: "Engine") -> None:
    story = Story(0)
    first = _registered(story, 1)
    story.block(1000, broker=1)["broker_epoch"] = first
    other = _registered(story, 2)
    story.block(3000, broker=2)["broker_epoch"] = other
    again = _registered(story, 1)
    again_ms = story.now_ms
    story.block(3500, broker=1)["broker_epoch"] = again
    rows = _rows(engine, story, "producer_id_ownership", "block_end")
    assert [
        (row.broker_id, row.broker_epoch, row.block_first, row.block_end, row.to_ms, row.incarnation_id)
        for row in rows
    ] == [
        (1, first, 0, 1000, again_ms, "life-0"),
        (2, other, 1000, 3000, None, "life-2"),
        (1, again, 3000, 3500, None, "life-4"),
    ]


def test_a_history_has_every_transaction_and_who_fenced_it(engine: "Engine") -> None:
    story = Story(0)
    story.block(1000)
    story.state("Empty")
    story.transaction(partitions=(0, 1))
    story.state("Ongoing", partitions=(0,))
    fenced = story.state("PrepareAbort", epoch=1, partitions=(0,))
    fenced["fences"] = [
        {"at_ms": fenced["updated_ms"], "cause": "timeout", "producer_id": 0, "producer_epoch": 0, "by": "me"}
    ]
    story.state("CompleteAbort", epoch=1)
    story.state("Ongoing", epoch=1, partitions=(1,))
    rows = _rows(engine, story, "transaction_history", "offset")
    assert [
        (row.outcome, row.first_epoch, row.last_epoch, len(row.partitions), row.fenced, row.fence_cause,
         row.fenced_by)
        for row in rows
    ] == [
        ("commit", 0, 0, 2, False, None, None),
        ("abort", 0, 1, 1, True, "timeout", "me"),
        (None, 1, 1, 1, False, None, None),
    ]  # fmt: skip
    assert [row.ended_ms is None for row in rows] == [False, False, True]


def test_committed_offsets_say_what_took_effect(engine: "Engine") -> None:
    story = Story(0)
    copier = group(story, "a")
    copier.transaction(10)
    copier.transaction(20, committed=False)
    copier.open(0)
    copier.pending(15, 0, "a")
    copier.plain(12)
    copier.end(0)
    copier.plain(None)
    copier.open(0)
    copier.pending(30, 0, "a")
    rows = _rows(engine, story, "committed_offsets", "offset")
    assert [
        (row.committed_offset, row.outcome, row.in_effect, row.previous_offset, row.group_generation)
        for row in rows
    ] == [
        (10, "committed", True, None, 1),
        (20, "aborted", False, None, 1),
        (15, "committed", False, None, 1),
        (12, "committed", True, 10, 1),
        (None, "committed", True, 12, 1),
        (30, None, False, None, 1),
    ]
    assert rows[0].effect_offset == rows[0].offset + 1
