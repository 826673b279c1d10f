"""Groups: what a group committed is exactly once, too.

aborted             an offset of a transaction that the coordinator aborted took effect: its marker in the
                    log of offsets says commit. That marker is no finding of ``markers``.
went_back           a transaction committed less than one of an earlier generation had. The owner in a new
                    generation begins where the one before ended: what is between was processed twice.
two_owners          two members committed one partition in one generation. A static member that was replaced
                    is one owner with its successor.
stale_generation    a producer presented a generation that was not the group's.
beyond_end          an offset that took effect lies beyond the end of its partition, which is given whole.
Legitimate          to go back after a reset: by a tombstone, in another topic of the name, in a partition
                    of which an unclean election cut the end, or by a commit
                    while the group has no members, as an administrator's, or a consumer's that assigns
                    partitions to itself.
Unknown             behind an election of several replicas whose record is not kept: it may have been unclean.
                    A member that goes back in a plain commit, or within a generation: its application may
                    have sought. Who committed is said by fencepost's log in transactions only.
"""

from typing import Final

from fencepost.audit.checks.relation import Text, Walked
from fencepost.audit.checks.rows import findings, union, unknown
from fencepost.audit.walks.columns import (
    FLAG_AFTER_CUT,
    FLAG_AFTER_END,
    FLAG_AFTER_UNREAD,
    FLAG_COMPACTED,
    FLAG_DISPLACED,
    FLAG_HOLE,
    FLAG_OPAQUE,
)
from fencepost.audit.walks.commits import BREAK, COMMIT, COMMITS, GENERATION, MARKER, SOURCE, STATIC_MEMBER
from fencepost.audit.walks.story import CLOCK_GRACE_MS

NAME: Final = "groups"
LOG: Final = "__consumer_offsets"
_PLACE: Final = "node topic partition path position offset"
_SUBJECT: Final = "{group_id}, {commit_topic}-{commit_partition}"
_PLAIN: Final = f"(c.flags & {FLAG_OPAQUE | FLAG_DISPLACED}) = 0"
_BREAK_FLAGS: Final = FLAG_OPAQUE | FLAG_DISPLACED | FLAG_AFTER_UNREAD | FLAG_AFTER_CUT | FLAG_AFTER_END
_BREAKS: Final = (
    f"((c.flags & {_BREAK_FLAGS}) <> 0 OR (c.flags & {FLAG_HOLE | FLAG_COMPACTED}) = {FLAG_HOLE})"
)


def _rows(source: str, kind: int, **columns: str) -> str:
    """A SELECT of ``SOURCE``: of columns that are not given NULL."""
    given = {"kind": str(kind), **columns}
    listed = ", ".join(f'{given.get(name, "NULL")} AS "{name}"' for name in SOURCE.names)
    return f"SELECT {listed} FROM {source}"


_OF_RECORD: Final = {
    name: f'r."{name}"'
    for name in ("node", "topic", "partition", "path", "position", "offset", "timestamp_ms", "group_id")
}
_OF_BATCH: Final = {
    **{name: f"c.{name}" for name in ("node", "topic", "partition", "path", "position", "producer_id")},
    "offset": "c.base_offset",
}

BATCHES: Final = Text(f"SELECT * FROM canonical WHERE topic = '{LOG}'")

EVENTS: Final = Text(
    union(
        _rows(f"offset_batches c WHERE {_BREAKS}", BREAK, **_OF_BATCH),
        _rows(
            f"offset_batches c WHERE c.control_type IN (0, 1) AND {_PLAIN}",
            MARKER,
            **_OF_BATCH,
            control_type="c.control_type",
        ),
        _rows(
            f"group_generations r JOIN offset_batches c ON r.path = c.path AND r.position = c.position AND "
            f"{_PLAIN}",
            GENERATION,
            **_OF_RECORD,
            state="r.state",
            generation="r.generation",
        ),
        _rows(
            "static_members r",
            STATIC_MEMBER,
            **_OF_RECORD,
            generation="r.generation",
            member_id="r.member_id",
            instance_id="r.instance_id",
        ),
        _rows(
            f"offset_commits r JOIN offset_batches c ON r.path = c.path AND r.position = c.position AND "
            f"{_PLAIN}",
            COMMIT,
            **_OF_RECORD,
            **{
                name: f"r.{name}"
                for name in (
                    *(
                        "commit_topic",
                        "commit_partition",
                        "committed_offset",
                        "producer_id",
                        "producer_epoch",
                    ),
                    *("topic_id", "generation", "is_identified", "member_id"),
                )
            },
        ),
    )
)

STATIC_MEMBERS: Final = Text(f"""
    SELECT m.node, m.topic, m.partition, m.path, m.position, m."offset", m.timestamp_ms, m.group_id,
    m.generation,
           m.member.member_id AS member_id, m.member.instance_id AS instance_id
    FROM (
        SELECT r.node, r.topic, r.partition, r.path, r.position, r."offset", r.timestamp_ms, r.group_id,
        r.generation,
               unnest(r.members) AS member
        FROM group_generations r JOIN offset_batches c ON r.path = c.path AND r.position = c.position AND
        {_PLAIN}
        WHERE r.members IS NOT NULL
    ) AS m WHERE m.member.instance_id IS NOT NULL
""")

SUSPECTS: Final = Text(f"""
    SELECT s.*, s.rule = 'went_back' AND d.at_ms IS NOT NULL AS is_doubtful FROM commits s
    ANTI JOIN topics t ON s.rule IN ('went_back', 'seek') AND t.event = 'created' AND t.name = s.commit_topic
     AND t.timestamp_ms >= s.previous_timestamp_ms AND t.timestamp_ms <= s.timestamp_ms
    ANTI JOIN unclean_elections u ON s.rule IN ('went_back', 'seek') AND u.topic = s.commit_topic
     AND u.partition = s.commit_partition AND u.at_ms >= s.previous_timestamp_ms - {CLOCK_GRACE_MS}
     AND u.at_ms <= s.timestamp_ms + {CLOCK_GRACE_MS}
    LEFT JOIN doubtful_elections d ON d.topic = s.commit_topic AND d.partition = s.commit_partition
     AND d.at_ms >= s.previous_timestamp_ms - {CLOCK_GRACE_MS}
    WHERE s.rule IS NOT NULL
""")
"""What is not explained by a topic that was made again, or that an unclean election cut. ``is_doubtful``: one
of which a snapshot of the metadata has the result alone may have been."""

UNEXPLAINED: Final = Text(f"""
    SELECT s.* FROM suspects s
    ANTI JOIN marker_findings m ON m.topic = '{LOG}' AND (
        (m.rule = 'missing' AND (m.producer_id = s.producer_id OR m.producer_id = s.previous_producer_id))
        OR (m.rule <> 'missing' AND m.path = s.marker_path AND m.position = s.marker_position)
        OR (m.rule <> 'missing' AND m.path = s.previous_marker_path AND m.position =
        s.previous_marker_position)
    )
""")
"""Nor by a marker that is wrong, or missing."""

FREED: Final = Text("""
    SELECT * FROM (
        SELECT m.*, row_number() OVER (PARTITION BY m.path, m.position ORDER BY s."offset") AS turn
        FROM marker_findings m JOIN commits s ON s.marker_path = m.path AND s.marker_position = m.position
        WHERE m.rule = 'wrong_outcome' AND s.outcome = 'committed'
    ) AS numbered WHERE turn = 1
""")
"""Markers of a wrong outcome by which offsets of an aborted transaction took effect."""

_IS_CUT: Final = f"coalesce(u.at_ms >= s.timestamp_ms - {CLOCK_GRACE_MS}, FALSE)"

BEYOND_END: Final = Text(f"""
    SELECT * FROM (
        SELECT s.*, e.log_end, {_IS_CUT} AS is_cut, row_number() OVER (
                   PARTITION BY s.group_id, s.commit_topic, s.commit_partition, {_IS_CUT} ORDER BY s."offset"
               ) AS turn
        FROM commits s
        JOIN logs l ON l.topic = s.commit_topic AND l.partition = s.commit_partition AND l.stopped
        JOIN (
            SELECT topic, partition, max(end_offset) AS log_end FROM log_copies_judged WHERE kind = 'copy'
            GROUP BY topic, partition
        ) AS e ON e.topic = l.topic AND e.partition = l.partition AND s.committed_offset > e.log_end
        ANTI JOIN gone_topics g ON g.topic = s.commit_topic
        ANTI JOIN topics t ON t.name = s.commit_topic AND t.event = 'created'
         AND t.timestamp_ms >= s.timestamp_ms
        ANTI JOIN found_rows f ON f.topic = s.commit_topic AND f.partition = s.commit_partition
         AND f.rule IN ('unclean', 'short', 'torn')
        LEFT JOIN (
            SELECT topic, partition, max(at_ms) AS at_ms FROM (
                SELECT topic, partition, at_ms FROM unclean_elections
                UNION ALL SELECT topic, partition, at_ms FROM doubtful_elections
            ) AS either GROUP BY topic, partition
        ) AS u ON u.topic = s.commit_topic AND u.partition = s.commit_partition
        WHERE s.outcome = 'committed'
    ) AS numbered WHERE turn = 1
""")
"""Of each group and partition the first. What a copy cut, and a topic made again, is none. ``is_cut``: an
unclean election may have cut off what was committed."""

NAMELESS: Final = Text("""
    SELECT topic, partition, count(*) AS commit_count FROM commits
    WHERE producer_id >= 0 AND committed_offset IS NOT NULL AND group_state <> 'Empty'
      AND coalesce(generation, -1) = -1
    GROUP BY topic, partition
""")

SOUGHT: Final = Text("""
    SELECT topic, partition, group_id, count(*) AS commit_count, min("offset") AS first_offset
    FROM unexplained WHERE rule = 'seek' GROUP BY topic, partition, group_id
""")

FINDINGS: Final = Text(
    union(
        findings(
            NAME,
            "aborted",
            "freed",
            f"{_PLACE} producer_id producer_epoch at_ms",
            subject="producer {producer_id} epoch {producer_epoch}",
            detail="a commit marker after offsets of a transaction that the coordinator aborted",
        ),
        *(
            findings(
                NAME,
                rule,
                f"unexplained WHERE rule = '{rule}' AND NOT is_doubtful",
                f"{_PLACE} producer_id producer_epoch",
                at_ms="timestamp_ms",
                subject=_SUBJECT,
                detail=detail,
            )
            for rule, detail in {
                "went_back": "a transaction of generation {group_generation} committed {committed_offset}, "
                "one of generation {previous_generation} had committed {previous_offset}",
                "two_owners": "{member_id} committed {committed_offset} in generation {generation}, in which "
                "{other_member_id} had committed (offset {other_offset} of this log)",
                "stale_generation": "a producer presented generation {generation} as {coalesce(member_id, "
                "'')}, "
                "and the group was at generation {group_generation}",
            }.items()
        ),
        findings(
            NAME,
            "beyond_end",
            "beyond_end WHERE NOT is_cut",
            f"{_PLACE} producer_id producer_epoch",
            at_ms="timestamp_ms",
            subject=_SUBJECT,
            detail="{committed_offset} is committed, and the partition's log ends at {log_end}",
        ),
    )
)

UNKNOWN: Final = Text(
    union(
        unknown(
            NAME,
            "beyond_end",
            "beyond_end WHERE is_cut",
            "topic partition path",
            first_offset='"offset"',
            detail="{group_id} committed {committed_offset} of {commit_topic}-{commit_partition}, whose log"
            " ends at {log_end}: an unclean election may have cut it",
        ),
        unknown(
            NAME,
            "went_back",
            "unexplained WHERE is_doubtful",
            "topic partition path",
            first_offset='"offset"',
            detail="{group_id} committed {committed_offset} of {commit_topic}-{commit_partition} behind "
            "{previous_offset}: an election whose record is not kept may have cut the log between",
        ),
        unknown(
            NAME,
            "two_owners",
            "nameless",
            "topic partition",
            detail="{commit_count} commits in transactions do not say of which member they are",
        ),
        unknown(
            NAME,
            "went_back",
            "sought",
            "topic partition first_offset",
            detail="{commit_count} commits of members of {group_id} are below the one before: an "
            "application may seek",
        ),
    )
)

CATALOGUE: Final = {
    "offset_batches": BATCHES,
    "static_members": STATIC_MEMBERS,
    "commit_events": EVENTS,
    "commits": Walked(COMMITS, "commit_events"),
    "suspects": SUSPECTS,
    "unexplained": UNEXPLAINED,
    "freed": FREED,
    "beyond_end": BEYOND_END,
    "nameless": NAMELESS,
    "sought": SOUGHT,
}
