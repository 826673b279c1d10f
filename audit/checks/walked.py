"""What the walks are given, as SQL, and what they find.

Chain       batches and facts of each directory -> its copy -> the log out of its copies -> turns of its
            producers; transaction states of the log -> outcomes; both -> pairs.
            ``fencepost.audit.walks.columns`` says what the rows are.
"""

from typing import Final

from fencepost.audit.checks import facts
from fencepost.audit.checks.facts import METADATA, TRANSACTION_STATE, copy_of, select
from fencepost.audit.checks.relation import Catalogue, Text, Walked
from fencepost.audit.checks.rows import union
from fencepost.audit.walks.columns import (
    COPY_SOURCE,
    FLAG_COMPACTED,
    FLAG_DISPLACED,
    FLAG_HOLE,
    FLAG_OPAQUE,
    FLAG_UNCOMMITTED,
    FOUND,
    LOG_SOURCE,
    PAIRS_SOURCE,
    SNAPSHOTS_SOURCE,
    STORY_SOURCE,
)
from fencepost.audit.walks.copies import COPIES
from fencepost.audit.walks.copy import COPY
from fencepost.audit.walks.log import LOG
from fencepost.audit.walks.pairs import PAIRS
from fencepost.audit.walks.snapshots import SNAPSHOTS
from fencepost.audit.walks.story import STORY

_INTERNAL_LOGS: Final = f"('{METADATA}', '{TRANSACTION_STATE}')"

_BATCH: Final = {
    name: f'r."{name}"'
    for name in COPY_SOURCE.names
    if name not in ("copy", "rank", "item", "first", "second")
}

COPY_EVENTS: Final = Text(
    union(
        "SELECT * FROM copy_facts",
        select(COPY_SOURCE, "record_batches r", **_BATCH, copy=copy_of("r.path"), rank="1"),
    )
)

CANONICAL: Final = Text("SELECT * FROM log_copies_judged WHERE kind = 'batch'", is_selection=True)
"""Rows of every log, each offset once; flags say what is out of the ordinary."""

LOGS: Final = Text("SELECT * FROM log_copies_judged WHERE kind = 'log'")

LOG_EVENTS: Final = Text(
    select(
        LOG_SOURCE,
        f"canonical r WHERE r.topic <> '{METADATA}'",
        **{name: f"r.{name}" for name in LOG_SOURCE.names},
    )
)

LATEST_TIME: Final = Text("""
    SELECT coalesce(max(m.now_ms), max(l.at_ms)) AS now_ms FROM moments m LEFT JOIN logs l ON TRUE
""")

_OF_LOG: Final = {
    "flags": "c.flags",
    "unbroken_offset": "l.unbroken_offset",
    "log_ms": "l.at_ms",
    "stopped": "l.stopped",
    "now_ms": "t.now_ms",
    "partition_count": "n.partition_count",
}

COORDINATOR_COUNT: Final = Text(f"""
    SELECT CAST(max(p.partition_id) + 1 AS INT) AS partition_count FROM partitions p
    JOIN topic_ids t ON t.topic_id = p.topic_id AND t.name = '{TRANSACTION_STATE}'
""")

STORY_EVENTS: Final = Text(
    select(
        STORY_SOURCE,
        "transaction_states r JOIN canonical c ON c.path = r.path AND c.position = r.position"
        " JOIN logs l ON l.topic = r.topic AND l.partition = r.partition CROSS JOIN latest_time t"
        " CROSS JOIN coordinator_count n",
        **({name: f'r."{name}"' for name in STORY_SOURCE.names} | _OF_LOG),
    )
)

TURNS: Final = Text("SELECT * FROM turns_judged WHERE kind = 'turn'", is_selection=True)

OUTCOMES: Final = Text("""
    SELECT o.*, o.part.topic AS part_topic, o.part.partition AS part_partition FROM (
        SELECT s.*, unnest(s.partitions) AS part FROM stories_judged s WHERE s.kind = 'outcome'
    ) AS o
""")
"""Outcomes, one row for each of their partitions."""

PRODUCERS: Final = Text("SELECT * FROM stories_judged WHERE kind = 'producer'")

DELETIONS: Final = Text("""
    SELECT coalesce(g.name, c.name) AS topic, max(g.timestamp_ms) AS deleted_ms
    FROM topics g
    LEFT JOIN (SELECT DISTINCT topic_id, name FROM topics WHERE event = 'created' AND name IS NOT NULL) AS c
      ON c.topic_id = g.topic_id
    WHERE g.event = 'deleted' AND coalesce(g.name, c.name) IS NOT NULL
    GROUP BY coalesce(g.name, c.name)
""")
"""When a topic of each name was deleted last."""

COORDINATORS: Final = Text(f"""
    SELECT count(*) > 0 AS coordinators,
           coalesce(min(CASE WHEN unbroken_offset = 0 THEN 1 ELSE 0 END) = 1
                    AND max(partition) + 1 = count(*), FALSE) AS coordinators_whole,
           coalesce(min(CASE WHEN stopped THEN 1 ELSE 0 END) = 1, FALSE) AS coordinators_stopped,
           max(first_ms) AS coordinators_ms
    FROM logs WHERE topic = '{TRANSACTION_STATE}'
""")
"""What is known of all coordinators' logs together."""

PAIRED_LOGS: Final = Text(f"""
    SELECT topic, partition FROM logs WHERE topic NOT IN ('{METADATA}', '{TRANSACTION_STATE}')
    UNION
    SELECT part_topic AS topic, part_partition AS partition FROM outcomes
""")

SEEN_PRODUCERS: Final = Text("""
    SELECT topic, partition, producer_id FROM turns
    UNION
    SELECT part_topic AS topic, part_partition AS partition, producer_id FROM outcomes
""")

_TURN_COLUMNS: Final = (
    *("topic", "partition", "producer_id", "producer_epoch", "node", "path", "position", "at_ms"),
    *("marker_offset", "control_type", "coordinator_epoch", "marker_version", "data_offset", "data_last"),
    *("batches", "plain_offset", "data_ms", "written_ms", "since_offset", "flags", "data_epoch"),
    *("stable_offset", "next_open_offset", "late_offset"),
)
_OUTCOME_COLUMNS: Final = (
    *("producer_id", "producer_epoch", "node", "path", "position", "at_ms", "transactional_id", "outcome"),
    *("data_epoch", "completed_offset", "is_v2", "started_ms", "prepared_ms", "timeout_ms", "log_ms"),
    *("first_coordinator_epoch", "last_coordinator_epoch"),
)
_PRODUCER_COLUMNS: Final = (
    *("node", "path", "position", "transactional_id", "first_epoch", "last_epoch", "is_whole"),
    *("unbroken_offset", "log_ms"),
)


def _of(*names: str) -> dict[str, str]:
    return {name: f"r.{name}" for name in names}


PAIR_EVENTS: Final = Text(
    union(
        select(
            PAIRS_SOURCE,
            "paired_logs p LEFT JOIN logs l ON l.topic = p.topic AND l.partition = p.partition"
            " LEFT JOIN deletions d ON d.topic = p.topic CROSS JOIN coordinators c",
            topic="p.topic",
            partition="p.partition",
            producer_id="-1",
            rank="0",
            offset='l."offset"',
            deleted_ms="d.deleted_ms",
            **{
                name: f"l.{name}"
                for name in (
                    *("at_ms", "end_offset", "compacted", "unbroken_offset", "stopped"),
                    *("cut_offsets", "cut_times"),
                )
            },
            **{
                name: f"c.{name}"
                for name in ("coordinators", "coordinators_whole", "coordinators_stopped", "coordinators_ms")
            },
        ),
        select(
            PAIRS_SOURCE,
            "seen_producers s JOIN producers r ON r.producer_id = s.producer_id"
            f" JOIN logs l ON l.topic = '{TRANSACTION_STATE}' AND l.partition = r.partition",
            **_of(*_PRODUCER_COLUMNS),
            topic="s.topic",
            partition="s.partition",
            producer_id="s.producer_id",
            rank="1",
            offset='r."offset"',
            stopped="l.stopped",
            coordinator_partition="r.partition",
        ),
        select(
            PAIRS_SOURCE,
            "outcomes r",
            **_of(*_OUTCOME_COLUMNS),
            topic="r.part_topic",
            partition="r.part_partition",
            rank="2",
            offset='r."offset"',
            coordinator_partition="r.partition",
        ),
        select(PAIRS_SOURCE, "turns r", **_of(*_TURN_COLUMNS), rank="3", offset='r."offset"'),
        select(
            PAIRS_SOURCE,
            f"log_copies_judged r WHERE r.kind = 'copy' AND r.topic NOT IN ('{METADATA}', "
            f"'{TRANSACTION_STATE}')",
            **_of("topic", "partition", "node", "path", "end_offset", "stopped"),
            producer_id="-1",
            rank="1",
            offset='r."offset"',
            copy="r.path",
        ),
        select(
            PAIRS_SOURCE,
            "aborted_transactions r",
            **_of("topic", "partition", "node", "path", "position", "copy", "producer_id", "first_offset"),
            rank="4",
            offset="r.last_offset",
            stable_offset="r.last_stable_offset",
        ),
        select(
            PAIRS_SOURCE,
            "producer_states r SEMI JOIN turns t ON t.topic = r.topic AND t.partition = r.partition"
            " AND t.producer_id = r.producer_id",
            **_of("topic", "partition", "node", "path", "position", "copy", "producer_id", "producer_epoch"),
            **_of("coordinator_epoch", "first_offset"),
            rank="5",
            offset='r."offset"',
        ),
    )
)

_STATE: Final = _of(
    *("topic", "partition", "node", "path", "position", "producer_id", "producer_epoch", "last_offset")
)

HELD_BATCHES: Final = Text(f"""
    SELECT DISTINCT s.copy, s."offset" AS snapshot_offset, s.last_offset, c.base_offset, c.base_sequence,
           c.producer_epoch,
           CASE WHEN c.base_sequence < 0 OR c.control_type IS NOT NULL THEN -1 ELSE c.producer_id
           END AS producer_id
    FROM producer_states s
    JOIN record_batches b ON b.topic = s.topic AND b.partition = s.partition AND b.last_offset = s.last_offset
     AND b.last_offset < s."offset" AND {copy_of("b.path")} = s.copy AND b.fault IS NULL
    JOIN canonical c ON c.topic = b.topic AND c.partition = b.partition AND c.last_offset = b.last_offset
     AND c.base_offset = b.base_offset AND c.producer_id = b.producer_id
     AND c.producer_epoch = b.producer_epoch AND c.base_sequence = b.base_sequence
    WHERE s.last_offset >= 0 AND (c.flags & {FLAG_COMPACTED}) <> 0
      AND (c.flags & {FLAG_OPAQUE | FLAG_DISPLACED | FLAG_UNCOMMITTED}) = 0
""")
"""The batches of compacted logs at which entries of producer snapshots say that a producer's data ends."""

SNAPSHOT_EVENTS: Final = Text(
    union(
        select(
            SNAPSHOTS_SOURCE,
            'producer_states r JOIN (SELECT path, "offset" AS copy_first FROM log_copies_judged'
            " WHERE kind = 'copy') AS c ON c.path = r.copy"
            " JOIN logs l ON l.topic = r.topic AND l.partition = r.partition"
            ' LEFT JOIN held_batches h ON h.copy = r.copy AND h.snapshot_offset = r."offset"'
            " AND h.last_offset = r.last_offset",
            **_STATE,
            held_producer_id="h.producer_id",
            held_epoch="h.producer_epoch",
            held_sequence="h.base_sequence",
            held_offset="h.base_offset",
            **_of("timestamp_ms", "last_sequence", "first_offset", "coordinator_epoch"),
            at='r."offset"',
            rank="0",
            copy_first="CASE WHEN l.compacted AND l.unbroken_offset > c.copy_first THEN l.unbroken_offset"
            " ELSE c.copy_first END",
        ),
        select(
            SNAPSHOTS_SOURCE,
            "canonical r SEMI JOIN producer_states s ON s.topic = r.topic AND s.partition = r.partition"
            f" WHERE r.producer_id >= 0 OR (r.flags & {FLAG_OPAQUE | FLAG_HOLE | FLAG_UNCOMMITTED}) <> 0",
            **_STATE,
            **_of("base_sequence", "flags", "control_type", "coordinator_epoch"),
            at="r.base_offset",
            rank="1",
            timestamp_ms="r.max_timestamp_ms",
        ),
    )
)

_FOUND: Final = ", ".join(f'"{name}"' for name in FOUND.names)

FOUND_ROWS: Final = Text(
    union(
        *(
            f"SELECT {_FOUND} FROM {relation} WHERE kind IN ('finding', 'unknown', 'note')"
            for relation in (
                *("log_copies_judged", "turns_judged", "stories_judged", "pairs_judged", "snapshots_judged"),
            )
        )
    )
)
"""Everything that a walk found."""

CATALOGUE: Final[Catalogue] = {
    **facts.CATALOGUE,
    "copy_events": COPY_EVENTS,
    "copies_judged": Walked(COPY, "copy_events"),
    "log_copies_judged": Walked(COPIES, "copies_judged"),
    "canonical": CANONICAL,
    "logs": LOGS,
    "log_events": LOG_EVENTS,
    "held_batches": HELD_BATCHES,
    "snapshot_events": SNAPSHOT_EVENTS,
    "snapshots_judged": Walked(SNAPSHOTS, "snapshot_events"),
    "turns_judged": Walked(LOG, "log_events"),
    "latest_time": LATEST_TIME,
    "coordinator_count": COORDINATOR_COUNT,
    "story_events": STORY_EVENTS,
    "stories_judged": Walked(STORY, "story_events"),
    "turns": TURNS,
    "outcomes": OUTCOMES,
    "producers": PRODUCERS,
    "deletions": DELETIONS,
    "coordinators": COORDINATORS,
    "paired_logs": PAIRED_LOGS,
    "seen_producers": SEEN_PRODUCERS,
    "pair_events": PAIR_EVENTS,
    "pairs_judged": Walked(PAIRS, "pair_events"),
    "found_rows": FOUND_ROWS,
}
