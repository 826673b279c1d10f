"""Directories that say what they are: of which node, of which topic. The metadata log says what is so.

Topic id    partition.metadata names another topic than the directory's name; one that was there before under
            that name is as good. An id of no topic is unknown where the metadata log does not begin at 0.
Node        meta.properties names another node than the one that registered its directory.id.
Twice       a partition has a directory in two entries of its node's log.dirs, under its plain name in both:
            Kafka does not start. Unknown, unless both were stopped: it may have moved while they were copied.
            One entry that is given twice, as an older copy, is one line, by its directory.id.

Source      Kafka LogManager.loadLog ("Duplicate log directories found").
"""

from typing import Final

from fencepost.audit.checks.facts import copy_of
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

TWICE: Final = Text(f"""
    SELECT c.topic, c.partition, c.node, c.first, c.last, c.many, a.identifier,
           CASE WHEN a.identifier = b.identifier THEN 1 ELSE 0 END AS is_same,
           CASE WHEN m.stopped OR (s.folder IS NOT NULL AND t.folder IS NOT NULL) THEN 1 ELSE 0 END AS stopped
    FROM (
        SELECT topic, partition, node, min(copy) AS first, max(copy) AS last, count(*) AS many
        FROM log_copies WHERE node >= 0 GROUP BY topic, partition, node HAVING count(*) > 1
    ) AS c
    LEFT JOIN (SELECT copy, max(identifier) AS identifier FROM directories WHERE kind = 'log-dir'
               GROUP BY copy) AS a ON a.copy = {copy_of("c.first")}
    LEFT JOIN (SELECT copy, max(identifier) AS identifier FROM directories WHERE kind = 'log-dir'
               GROUP BY copy) AS b ON b.copy = {copy_of("c.last")}
    LEFT JOIN stopped_folders s ON s.folder = {copy_of("c.first")}
    LEFT JOIN stopped_folders t ON t.folder = {copy_of("c.last")}
    CROSS JOIN moments m
""")
"""Partitions of which one node has several directories: two of them."""

GIVEN_TWICE: Final = Text("""
    SELECT node, count(*) AS partitions, min(first) AS first, min(last) AS last FROM twice WHERE is_same = 1
    GROUP BY node
""")

_MOVED: Final = "node {node} has the partition in {many} of its log.dirs: {first} and {last}"
REPLICAS_FINDINGS: Final = findings(
    "replicas",
    "twice",
    "twice WHERE is_same = 0 AND stopped = 1",
    "node topic partition",
    path="last",
    position="0",
    subject="{topic}-{partition}",
    detail=_MOVED,
)
REPLICAS_UNKNOWN: Final = union(
    unknown(
        "replicas",
        "twice",
        "twice WHERE is_same = 0 AND stopped = 0",
        "topic partition",
        path="last",
        detail=f"{_MOVED}; a broker that ran while they were copied may have moved it",
    ),
    unknown(
        "replicas",
        "given_twice",
        "given_twice",
        "",
        path="last",
        detail="{partitions} partitions of one log directory of node {node} are given twice, as in {first}"
        " and {last}",
    ),
)

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
    "twice": TWICE,
    "given_twice": GIVEN_TWICE,
}
