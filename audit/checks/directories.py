"""Directories that say what they are: of which node, of which topic. The metadata log says what is so.

Topic id    partition.metadata names another topic than the directory's name; one that was there before under
            that name is as good. An id of no topic is unknown where the metadata log does not begin at 0.
Node        meta.properties names another node than the one that registered its directory.id.
"""

from typing import Final

from fencepost.audit.checks.relation import Catalogue, Text
from fencepost.audit.checks.rows import findings, union, unknown

CHECK: Final = "integrity"
_PLACE: Final = "node topic partition path position"

TOPIC_IDS: Final = Text("""
    SELECT DISTINCT name, topic_id FROM topics
    WHERE event = 'created' AND name IS NOT NULL AND topic_id IS NOT NULL
""")

OTHER_TOPICS: Final = Text("""
    SELECT d.node, d.topic, d.partition, d.path, d.position, d.identifier, o.name AS owner, n.meant,
           CASE WHEN o.name IS NOT NULL OR w.many > 0 THEN 1 ELSE 0 END AS is_known
    FROM directories d
    JOIN (SELECT name, max(topic_id) AS meant FROM topic_ids GROUP BY name) AS n ON n.name = d.topic
    ANTI JOIN topic_ids t ON t.name = d.topic AND t.topic_id = d.identifier
    ANTI JOIN gone_topics g ON g.topic = d.topic
    LEFT JOIN (SELECT topic_id, min(name) AS name FROM topic_ids GROUP BY topic_id) AS o
      ON o.topic_id = d.identifier
    CROSS JOIN whole_metadata w
    WHERE d.kind = 'partition'
""")
"""Partitions whose partition.metadata has an id that their topic never had, and the topic that had it."""

OTHER_NODES: Final = Text("""
    SELECT d.node, d.path, d.position, d.broker_id, r.broker_id AS owner, d.identifier FROM directories d
    JOIN (SELECT identifier, min(broker_id) AS broker_id FROM directories WHERE kind = 'registered'
          GROUP BY identifier) AS r ON r.identifier = d.identifier
    ANTI JOIN directories s ON s.kind = 'registered' AND s.identifier = d.identifier
     AND s.broker_id = d.broker_id
    WHERE d.kind = 'log-dir'
""")
"""Entries of log.dirs that say another node than the one that registered them."""

OTHER_CLUSTERS: Final = Text("""
    WITH counted AS (
        SELECT identifier, count(DISTINCT path) AS many FROM directories WHERE kind = 'cluster'
        GROUP BY identifier
    ), most AS (SELECT max(many) AS many FROM counted)
    SELECT d.node, d.path, d.position, d.broker_id, d.identifier, r.meant, r.many FROM directories d
    CROSS JOIN (SELECT min(c.identifier) AS meant, max(c.many) AS many FROM counted c
                JOIN most m ON m.many = c.many) AS r
    WHERE d.kind = 'cluster' AND d.identifier <> r.meant
""")
"""Entries of log.dirs that say another cluster than most do."""

FINDINGS: Final = union(
    findings(
        CHECK,
        "topic_id",
        "other_topics WHERE is_known = 1",
        _PLACE,
        subject="{topic}-{partition}",
        detail="the file says topic id {identifier}, {coalesce('that of ' || owner, 'of no topic')}: "
        "{topic} has {meant}",
    ),
    findings(
        CHECK,
        "node",
        "other_nodes",
        "node path position",
        subject="node {broker_id}",
        detail="the file says node {broker_id}, and node {owner} has registered its directory {identifier}",
    ),
    findings(
        CHECK,
        "cluster",
        "other_clusters",
        "node path position",
        subject="node {broker_id}",
        detail="the file says cluster {identifier}, and {many} directories say {meant}",
    ),
)
UNKNOWN: Final = unknown(
    CHECK,
    "topic_id",
    "other_topics WHERE is_known = 0",
    "topic partition path",
    detail="the file says topic id {identifier}: which topic had it, the metadata log no longer says",
)

CATALOGUE: Final[Catalogue] = {
    "topic_ids": TOPIC_IDS,
    "other_topics": OTHER_TOPICS,
    "other_nodes": OTHER_NODES,
    "other_clusters": OTHER_CLUSTERS,
}
