"""``audit query``: who owned a producer id, and what happened to a transactional id.

Rows    are looked for by their key before anything is put in order: what reaches this process is an answer.
"""

from collections.abc import Callable, Sequence
from typing import Final

from fencepost.audit.checks.rows import quoted
from fencepost.audit.engine.protocol import Engine, Row
from fencepost.audit.jobs.errors import AuditRefused
from fencepost.audit.jobs.files import files_of
from fencepost.audit.jobs.relations import Relations
from fencepost.audit.jobs.session import Show
from fencepost.audit.jobs.source import relations_of
from fencepost.audit.report.ownership import Block, Ownership, Use
from fencepost.audit.report.timeline import (
    EVENTS_MAX,
    WRITTEN_MAX,
    Fenced,
    StateRow,
    Story,
    Written,
    events,
    parse_moment,
)

BLOCKS_MAX: Final = 100  # that hold one id: more than one is a fault already
USES_MAX: Final = 1_000  # transactional ids of one producer id: more than one is a fault already

Question = Callable[[Engine, str, Show], Story | Ownership]
"""A query: takes an engine, a folder of tables and what to show; returns a story or an ownership."""


def question(producer_id: int | None, at: str | None, transactional_id: str | None) -> Question:
    """The query for the id that is given. Raises AuditRefused: ``at`` is no time, or no id is given."""
    try:
        at_ms = None if at is None else parse_moment(at)
    except ValueError as error:
        raise AuditRefused(str(error)) from error
    if producer_id is not None:
        return lambda engine, tables_dir, show: producer(engine, tables_dir, producer_id, at_ms, show)
    if transactional_id is not None:
        return lambda engine, tables_dir, show: transactional(engine, tables_dir, transactional_id, show)
    raise AuditRefused("no id is named")


def transactional(engine: Engine, tables_dir: str, transactional_id: str, show: Show) -> Story:
    """What happened to the id: its newest ``EVENTS_MAX`` records. Raises TablesRefused."""
    relations = relations_of(engine, tables_dir, None, show)
    its = f"FROM states WHERE transactional_id = {quoted(transactional_id)}"
    found = relations.rows(f'SELECT * {its} ORDER BY "offset" DESC, position DESC LIMIT {EVENTS_MAX + 1}')
    omitted = 0
    if len(found) > EVENTS_MAX:
        omitted = int(relations.rows(f"SELECT count(*) AS many {its}")[0]["many"]) - EVENTS_MAX
    rows = [_state_row(row) for row in reversed(found[:EVENTS_MAX])]
    return Story(
        transactional_id=transactional_id,
        events=tuple(events(rows)),
        written=_written(relations, sorted({row.producer_id for row in rows if row.producer_id >= 0})),
        omitted=omitted,
        is_partial=files_of(relations).is_partial,
    )


def producer(engine: Engine, tables_dir: str, producer_id: int, at_ms: int | None, show: Show) -> Ownership:
    """Whose the id was, and who used it. Raises TablesRefused."""
    relations = relations_of(engine, tables_dir, None, show)
    uses = relations.rows(
        "SELECT transactional_id, min(producer_epoch) AS first_epoch, max(producer_epoch) AS last_epoch,"
        " min(updated_ms) AS first_ms, max(updated_ms) AS last_ms"
        f" FROM states WHERE producer_id = {producer_id} GROUP BY transactional_id"
        f" ORDER BY transactional_id LIMIT {USES_MAX}"
    )
    return Ownership(
        producer_id=producer_id,
        at_ms=at_ms,
        blocks=_blocks(relations, producer_id),
        uses=tuple(Use(**row) for row in uses),
        written=_written(relations, [producer_id]),
        is_partial=files_of(relations).is_partial,
    )


def _state_row(row: Row) -> StateRow:
    if row["forgotten"]:
        return StateRow(row["path"], row["position"], row["offset"], row["timestamp_ms"], None)
    return StateRow(
        path=row["path"],
        position=row["position"],
        offset=row["offset"],
        at_ms=row["updated_ms"],
        state=row["state"],
        producer_id=row["producer_id"],
        producer_epoch=row["producer_epoch"],
        timeout_ms=row["timeout_ms"],
        started_ms=row["started_ms"],
        timed_out=bool(row["timed_out"]),
        partitions=tuple(f"{each['topic']}-{each['partition']}" for each in row["partitions"] or ()),
        fences=tuple(
            Fenced(
                each["at_ms"], each["cause"], each["producer_id"], each["producer_epoch"], each["by"] or ""
            )
            for each in row["fences"] or ()
        ),
        is_regressed=row["regressed"],
    )


def _written(relations: Relations, producer_ids: Sequence[int]) -> tuple[Written, ...]:
    """What the producers left on partitions, by epoch; of copies of a partition one."""
    if not producer_ids:
        return ()
    rows = relations.rows(
        "SELECT topic, partition, producer_id, producer_epoch,"
        " CAST(coalesce(sum(CASE WHEN control_type IS NULL THEN record_count END), 0) AS BIGINT) AS records,"
        " count(CASE WHEN control_type = 1 THEN 1 END) AS commits,"
        " count(CASE WHEN control_type = 0 THEN 1 END) AS aborts,"
        " min(base_offset) AS first_offset, max(last_offset) AS last_offset,"
        " min(base_timestamp_ms) AS first_ms, max(max_timestamp_ms) AS last_ms"
        " FROM (SELECT b.*, row_number() OVER ("
        "PARTITION BY topic, partition, base_offset, crc ORDER BY node, path, position) AS turn"
        " FROM record_batches b"
        f" WHERE fault IS NULL AND producer_id IN ({', '.join(map(str, producer_ids))})) AS numbered WHERE "
        f"turn = 1"
        " GROUP BY topic, partition, producer_id, producer_epoch"
        f" ORDER BY producer_id, producer_epoch, topic, partition LIMIT {WRITTEN_MAX}"
    )
    return tuple(Written(**row) for row in rows)


def _blocks(relations: Relations, producer_id: int) -> tuple[Block, ...]:
    rows = relations.rows(
        'SELECT block_first, block_end, broker_id, broker_epoch, from_ms, to_ms, source, "offset", path, '
        "position"
        " FROM producer_id_ownership"
        f" WHERE coalesce(block_first, {producer_id}) <= {producer_id} AND block_end > {producer_id}"
        f' ORDER BY from_ms, "offset" LIMIT {BLOCKS_MAX}'
    )
    return tuple(Block(*row.values()) for row in rows)
