"""Facts of copies of logs that their batches do not say, as SQL: rows of rank 0 of the walk over a copy.

Said by     files beside the segments (checkpoints, names of segments, what a clean shutdown leaves), and by
            the metadata log: replicas, voters, elections, how topics are configured.
"""

from typing import Final

import pyarrow as pa

from fencepost.audit.checks.relation import Catalogue, Text
from fencepost.audit.checks.rows import union
from fencepost.audit.walks.columns import COPY_SOURCE

METADATA: Final = "__cluster_metadata"
TRANSACTION_STATE: Final = "__transaction_state"
CONSUMER_OFFSETS: Final = "__consumer_offsets"

_INTERNAL: Final = f"('{TRANSACTION_STATE}', '{CONSUMER_OFFSETS}')"
_PLACE: Final = {name: f"r.{name}" for name in ("topic", "partition", "node")}


def copy_of(path: str) -> str:
    """The directory that a path names, as SQL."""
    return f"regexp_replace({path}, '/[^/]*$', '')"


def select(schema: pa.Schema, source: str, **columns: str) -> str:
    """A SELECT of the columns of ``schema``: of those that are not given NULL."""
    listed = ", ".join(f'{columns.get(name, "NULL")} AS "{name}"' for name in schema.names)
    return f"SELECT {listed}\nFROM {source}"


def _fact(item: str, source: str, *, first: str = "NULL", second: str = "NULL", **columns: str) -> str:
    """Facts of copies, as rows of ``COPY_SOURCE``; ``source`` names its rows ``r``."""
    given = {"path": "''", "copy": "r.copy", "position": "0", **_PLACE, **columns}
    return select(COPY_SOURCE, source, rank="0", item=f"'{item}'", first=first, second=second, **given)


SEGMENTS: Final = Text(f"""
    SELECT f.*, {copy_of("f.path")} AS copy FROM files f WHERE f.kind = 'segment'
""")

LOG_COPIES: Final = Text("""
    SELECT topic, partition, copy, max(node) AS node FROM segments GROUP BY topic, partition, copy
""")

COMPACTED_TOPICS: Final = Text("""
    SELECT DISTINCT name AS topic FROM topics
    WHERE config_key = 'cleanup.policy' AND config_value LIKE '%compact%' AND name IS NOT NULL
""")
"""Topics that are, or once were, configured so."""

METADATA_FILES: Final = Text(f"""
    SELECT count(*) AS many FROM files WHERE topic = '{METADATA}' AND kind IN ('segment', 'checkpoint')
""")

TIERED_TOPICS: Final = Text("""
    SELECT DISTINCT name AS topic FROM topics
    WHERE config_key = 'remote.storage.enable' AND config_value = 'true' AND name IS NOT NULL
""")

STOPPED_FOLDERS: Final = Text(f"""
    SELECT DISTINCT {copy_of("path")} AS folder FROM files WHERE kind = 'clean-shutdown'
""")
"""Entries of log.dirs whose broker ended cleanly."""

PARTITION_EVENTS: Final = Text("""
    WITH named AS (
        SELECT n.name AS topic, p.partition_id, p."offset", max(p.leader) AS leader, max(p.leader_epoch) AS
        leader_epoch,
               max(CASE WHEN p.recovering THEN 1 ELSE 0 END) AS recovering, min(p.timestamp_ms) AS at_ms,
               max(CASE WHEN p.path NOT LIKE '%.checkpoint' AND p.leader IS NOT NULL THEN 1 ELSE 0 END) AS
               in_log,
               max(CASE WHEN p.replicas IS NOT NULL THEN 1 ELSE 0 END) AS has_replicas
        FROM partitions p
        JOIN (SELECT DISTINCT topic_id, name FROM topics WHERE event = 'created' AND name IS NOT NULL) AS n
          ON n.topic_id = p.topic_id
        GROUP BY n.name, p.partition_id, p."offset"
    ), counted AS (
        SELECT n.*, sum(CASE WHEN leader_epoch IS NOT NULL THEN 1 ELSE 0 END) OVER (
            PARTITION BY topic, partition_id ORDER BY "offset" ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT
            ROW
        ) AS since
        FROM named n
    )
    SELECT c.*, max(leader_epoch) OVER (PARTITION BY topic, partition_id, since) + sum(
        CASE WHEN leader_epoch IS NULL AND leader IS NOT NULL THEN 1 ELSE 0 END
    ) OVER (
        PARTITION BY topic, partition_id, since ORDER BY "offset" ROWS BETWEEN UNBOUNDED PRECEDING AND
        CURRENT ROW
    ) AS epoch
    FROM counted c
""")
"""What the metadata log says of partitions, each record once; a change that names a leader is one epoch
more."""

UNCLEAN_ELECTIONS: Final = Text("""
    SELECT topic, partition_id AS partition, epoch, min(at_ms) AS at_ms FROM (
        SELECT e.*, max_by(leader, CASE WHEN leader >= 0 THEN "offset" ELSE -1 END) OVER (
            PARTITION BY topic, partition_id ORDER BY "offset"
            ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
        ) AS leader_before
        FROM partition_events e
    ) AS followed
    WHERE recovering = 1 AND leader >= 0 AND leader <> coalesce(leader_before, -1)
    GROUP BY topic, partition_id, epoch
""")
"""Elections of a replica that was not in sync, by leader epoch: each cut off what it lacked. Kafka calls it
one, too, if the last leader comes back alone after a kill: that lacks nothing."""

UNSEEN_ELECTIONS: Final = Text("""
    WITH said AS (
        SELECT topic, partition_id, max(CASE WHEN in_log = 0 THEN leader_epoch END) AS stated,
               min(CASE WHEN in_log = 1 THEN epoch END) AS first_seen
        FROM partition_events GROUP BY topic, partition_id
    ), unseen AS (
        SELECT topic, partition_id, CASE WHEN first_seen <= stated THEN first_seen - 1 ELSE stated END AS
        last_epoch
        FROM said
    )
    SELECT u.topic, u.partition_id AS partition, u.last_epoch AS epoch, min(s.at_ms) AS at_ms FROM unseen u
    JOIN partition_events s ON s.topic = u.topic AND s.partition_id = u.partition_id AND s.in_log = 0
     AND s.leader_epoch >= u.last_epoch
    WHERE u.last_epoch >= 0 GROUP BY u.topic, u.partition_id, u.last_epoch
""")
"""Up to which leader epoch of a partition no record of an election, or of its creation, is kept, but what
snapshots have of the result; and by when that was. Once a leader has recovered none of them says how it was
elected."""

DOUBTFUL_ELECTIONS: Final = Text("""
    SELECT e.topic, e.partition, coalesce(e.at_ms, 9223372036854775807) AS at_ms FROM unseen_elections e
    ANTI JOIN (
        SELECT topic, partition_id FROM partition_replicas GROUP BY topic, partition_id HAVING count(*) = 1
    ) AS o ON o.topic = e.topic AND o.partition_id = e.partition
    WHERE e.epoch > 0
""")
"""Those of ``unseen_elections`` that may have cut something: behind the first leader, of several replicas."""

PARTITION_REPLICAS: Final = Text("""
    SELECT DISTINCT u.topic, u.partition_id, u.replica FROM (
        SELECT l.topic, l.partition_id, unnest(p.replicas) AS replica
        FROM (
            SELECT topic, partition_id, max("offset") AS latest FROM partition_events
            WHERE has_replicas = 1 GROUP BY topic, partition_id
        ) AS l
        JOIN topics t ON t.name = l.topic AND t.event = 'created'
        JOIN partitions p ON p.topic_id = t.topic_id AND p.partition_id = l.partition_id AND p."offset" =
        l.latest
         AND p.replicas IS NOT NULL
    ) AS u
""")

LACKING: Final = Text(f"""
    SELECT p.topic, p.partition_id AS partition, p.replica, CASE WHEN g.node IS NULL THEN 0 ELSE 1 END AS
    given, CASE WHEN c.node IS NULL THEN 1 ELSE 0 END AS lacks
    FROM partition_replicas p
    ANTI JOIN gone_topics d ON d.topic = p.topic
    LEFT JOIN (SELECT DISTINCT node FROM files WHERE node >= 0 AND topic <> '{METADATA}') AS g
      ON g.node = p.replica
    LEFT JOIN (SELECT DISTINCT topic, partition, node FROM log_copies) AS c
      ON c.topic = p.topic AND c.partition = p.partition_id AND c.node = p.replica
""")
"""Replicas by the metadata log: whether a directory of their node was given, and whether it has no copy."""

GONE_TOPICS: Final = Text("""
    SELECT t.name AS topic FROM (
        SELECT c.name, max(c."offset") AS created, max(d."offset") AS deleted FROM topics c
        LEFT JOIN topics d ON d.event = 'deleted' AND (d.topic_id = c.topic_id OR d.name = c.name)
        WHERE c.event = 'created' AND c.name IS NOT NULL GROUP BY c.name
    ) AS t WHERE t.deleted > t.created
""")
"""Topics that were deleted, and not made again."""

LATEST_VOTERS: Final = Text("""
    SELECT DISTINCT v.voter_id FROM voters v
    JOIN (SELECT max("offset") AS latest FROM voters) AS l ON v."offset" = l.latest
""")

_OF_PARTITION: Final = "log_copies r JOIN {} p ON p.topic = r.topic AND p.partition_id = r.partition"

COPY_FACTS: Final = Text(
    union(
        _fact("segment", "segments r", first="r.base_offset", second="r.size", path="r.path"),
        _fact(
            "torn",
            "segments r WHERE r.stop IN ('torn', 'truncated', 'unreadable')",
            first="r.valid_end",
            second="CASE WHEN r.last_of_partition THEN 1 ELSE 0 END",
            path="r.path",
        ),
        _fact(
            "hole",
            "files r WHERE r.kind = 'hole'",
            first="r.base_offset",
            second="r.base_offset + r.size",
            copy=copy_of("r.path"),
            path="r.path",
        ),
        *(
            _fact(
                item,
                f"offset_checkpoints r WHERE r.kind = '{item}'",
                first='r."offset"',
                path="r.path",
                position="r.position",
            )
            for item in ("log-start", "high-watermark", "cleaned")
        ),
        _fact(
            "leader-epoch",
            "leader_epochs r",
            first="r.epoch",
            second="r.start_offset",
            path="r.path",
            position="r.position",
        ),
        _fact(
            "stopped",
            f"log_copies r JOIN stopped_folders t ON t.folder = {copy_of('r.copy')}",
            first="1",
        ),
        _fact("stopped", "log_copies r CROSS JOIN moments m WHERE m.stopped"),
        # fencepost's archive is retained whole, whatever its topic is.
        _fact("compacted", f"log_copies r WHERE r.topic IN {_INTERNAL} AND r.copy NOT LIKE '%/archive/%'"),
        _fact("compacted", "log_copies r JOIN compacted_topics t ON t.topic = r.topic"),
        _fact("tiered", "log_copies r JOIN tiered_topics t ON t.topic = r.topic"),
        _fact(
            "untold",
            "log_copies r CROSS JOIN metadata_files t WHERE t.many = 0 AND substring(r.topic, 1, 2) <> '__'",
        ),
        _fact("replica", _OF_PARTITION.format("partition_replicas"), first="p.replica"),
        _fact(
            "voter",
            # What is in fencepost's archive is committed, whatever other directories have of it.
            f"log_copies r CROSS JOIN latest_voters v WHERE r.topic = '{METADATA}'"
            " AND r.copy NOT LIKE '%/archive/%'",
            first="v.voter_id",
        ),
        _fact(
            "metadata",
            _OF_PARTITION.format("(SELECT DISTINCT topic, partition_id FROM partition_events)"),
        ),
        _fact(
            "unclean",
            "log_copies r JOIN unclean_elections p ON p.topic = r.topic AND p.partition = r.partition",
            first="p.epoch",
            second="p.at_ms",
        ),
        _fact(
            "unseen",
            "log_copies r JOIN unseen_elections p ON p.topic = r.topic AND p.partition = r.partition",
            first="p.epoch",
            second="p.at_ms",
        ),
    )
)

CATALOGUE: Final[Catalogue] = {
    "segments": SEGMENTS,
    "log_copies": LOG_COPIES,
    "compacted_topics": COMPACTED_TOPICS,
    "metadata_files": METADATA_FILES,
    "tiered_topics": TIERED_TOPICS,
    "stopped_folders": STOPPED_FOLDERS,
    "partition_events": PARTITION_EVENTS,
    "unclean_elections": UNCLEAN_ELECTIONS,
    "unseen_elections": UNSEEN_ELECTIONS,
    "partition_replicas": PARTITION_REPLICAS,
    "doubtful_elections": DOUBTFUL_ELECTIONS,
    "gone_topics": GONE_TOPICS,
    "lacking": LACKING,
    "latest_voters": LATEST_VOTERS,
    "copy_facts": COPY_FACTS,
}
