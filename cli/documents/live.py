"""Documents of commands about nodes, producer ids and records."""

from collections.abc import Mapping
from typing import Any, Final, Literal

from msgspec import UNSET, UnsetType, field

from fencepost.cli.documents.base import Document, Part, SetAside


class Node(Part):
    """A node of a cluster on this machine; null where it has no such listener, or does not run."""

    node_id: int
    roles: list[str]
    pid: int | None
    status: Literal["running", "stopped", "dead", "down"]
    leader: bool
    client: str | None
    controller: str | None
    raft: str | None
    metrics: str | None


class Cluster(Document):
    """``up``, ``ps``, ``start``."""

    cluster_id: str
    bootstrap: str
    nodes: list[Node]


class Killed(Document):
    """``kill``."""

    node_id: int
    pid: int | None
    signal: str


class Down(Document):
    """``down``."""

    directory: str
    nodes: list["Ended"]


class Ended(Part):
    """A node that is down; ``was_killed``: it did not end by itself in time."""

    node_id: int
    was_killed: bool


class LeaderMoved(Document):
    """``move-leader``; ``from`` and ``to`` are one node if it led already."""

    from_: int = field(name="from")
    to: int
    leader_epoch: int
    took_ms: int


class LogLine(Document):
    """``logs``."""

    node_id: int
    line: str


class Health(Document):
    """``health``: of a healthy cluster all but the last two, of another one these."""

    healthy: bool
    cluster_id: str | UnsetType = UNSET
    leader: int | UnsetType = UNSET
    brokers: int | UnsetType = UNSET
    commit_ms: float | UnsetType = UNSET
    set_aside: int | UnsetType = UNSET
    set_aside_rows: list[SetAside] | UnsetType = UNSET
    controllers: str | UnsetType = UNSET
    reason: str | UnsetType = UNSET


class Voter(Part):
    """A voter or observer of the quorum."""

    id: int
    directory_id: str | None
    endpoints: list[str]


class Replica(Part):
    """How far a replica of the metadata log has come."""

    node_id: int
    directory_id: str
    log_end_offset: int
    lag: int
    last_fetch_timestamp: int
    last_caught_up_timestamp: int
    status: str


class Quorum(Document):
    """``quorum describe``: ``replicas`` with --replication, the others with --status."""

    replicas: list[Replica] | UnsetType = UNSET
    cluster_id: str | UnsetType = UNSET
    leader_id: int | UnsetType = UNSET
    leader_epoch: int | UnsetType = UNSET
    high_watermark: int | UnsetType = UNSET
    max_follower_lag: int | UnsetType = UNSET
    max_follower_lag_time_ms: int | UnsetType = UNSET
    current_voters: list[Voter] | UnsetType = UNSET
    current_observers: list[Voter] | UnsetType = UNSET


class VoterLevel(Part):
    """The highest log level that a voter reads; null: it is not connected."""

    node_id: int
    log_level_max: int | None


class Feature(Part):
    """A feature of the cluster."""

    feature: str
    supported_min_version: int
    supported_max_version: int
    finalized_version_level: int


class Features(Document):
    """``features``."""

    log_level: int
    log_level_max: int
    voters: list[VoterLevel]
    features: list[Feature]


class IdBlock(Part):
    """Producer ids from ``start`` on."""

    start: int
    len: int


class IdBlocks(Document):
    """``producer-ids allocate``."""

    blocks: list[IdBlock]


class LatestBlock(Document):
    """``producer-ids describe``; ``end`` is the first id behind the block."""

    next_producer_id: int
    broker_id: int
    broker_epoch: int
    start: int
    end: int
    image_version: int
    node_id: int


class IdBlockGiven(Part):
    """A block, with whom it was given to; ``hole``: offsets whose records no node has any more."""

    offset: int | UnsetType = UNSET
    leader_epoch: int | UnsetType = UNSET
    timestamp_ms: int | UnsetType = UNSET
    broker_id: int | UnsetType = UNSET
    broker_epoch: int | UnsetType = UNSET
    start: int | UnsetType | None = UNSET
    end: int | UnsetType = UNSET
    len: int | UnsetType | None = UNSET
    hole: bool | UnsetType = UNSET
    first_offset: int | UnsetType = UNSET
    end_offset: int | UnsetType = UNSET


class IdHistory(Document):
    """``producer-ids history``."""

    blocks: list[IdBlockGiven]


class Produced(Document):
    """``produce``; ``transaction``: its outcome, null without one."""

    topic: str
    records: int
    transaction: str | None


Text = str | dict[str, str] | None
"""Of a record: UTF-8; an object with ``base64`` for other bytes; null."""


class Consumed(Document):
    """``consume``."""

    topic: str
    partition: int
    offset: int
    timestamp_ms: int | None
    headers: list[list[Text]]
    key: Text
    value: Text


class PartitionOffset(Part):
    """A partition's end, or its offset at a time."""

    topic: str
    partition: int
    offset: int


class Offsets(Document):
    """``get-offsets``."""

    offsets: list[PartitionOffset]


LIVE: Final[Mapping[str, Any]] = {
    "up": Cluster,
    "ps": Cluster,
    "start": Cluster,
    "kill": Killed,
    "down": Down,
    "move-leader": LeaderMoved,
    "logs": LogLine,
    "health": Health,
    "quorum describe": Quorum,
    "features describe": Features,
    "features upgrade": Features,
    "features downgrade": Features,
    "producer-ids describe": LatestBlock,
    "producer-ids allocate": IdBlocks,
    "producer-ids history": IdHistory,
    "produce": Produced,
    "consume": Consumed,
    "get-offsets": Offsets,
}
