"""Documents of commands about directories, snapshots and the upgrade from ZooKeeper."""

from collections.abc import Mapping
from typing import Any, Final

from msgspec import UNSET, UnsetType

from fencepost.cli.documents.base import Document, Part


class NodeSnapshot(Part):
    """A snapshot that was taken, and those that were removed for it."""

    node_id: int
    snapshot: str
    removed: list[str]


class SnapshotsTaken(Document):
    """``snapshot create``."""

    snapshots: list[NodeSnapshot]


class Block(Part):
    """The producer-id block that was given out last; ``start`` where it is known."""

    broker_id: int
    broker_epoch: int
    end: int
    start: int | UnsetType = UNSET


class Snapshot(Part):
    """What a snapshot holds."""

    snapshot: str
    cluster_id: str
    end_offset: int
    epoch: int
    raft_index: int
    raft_term: int
    image_version: int
    image_digest: str
    taken: str
    log_ends: dict[str, int]
    latest_block: Block | None
    brokers: int
    producer_id_records: int
    rows: int
    bytes: int


class Snapshots(Document):
    """``snapshot describe``."""

    snapshots: list[Snapshot]


class RestoredNode(Part):
    """``before``: where the files are that its quorum had."""

    node_id: int
    directory: str
    before: str


class Restored(Document):
    """``snapshot restore``."""

    cluster_id: str
    nodes: list[RestoredNode]
    producer_id_end_before: int
    producer_id_end: int
    controller_epoch: int
    aborted: list[str]
    decided: list[str]
    groups: int


class StoredNode(Part):
    """A node's directories. What has a default is there once it has started."""

    cluster_id: str
    node_id: int
    directory_id: str
    voter_id: str
    directory: str
    log_dirs: dict[str, str]
    secret_file: str | UnsetType = UNSET
    secret: str | UnsetType = UNSET
    image_version: int | UnsetType = UNSET
    controller_epoch: int | UnsetType = UNSET
    image_digest: str | UnsetType = UNSET
    log_level: int | UnsetType = UNSET
    log_ends: dict[str, int] | UnsetType = UNSET
    latest_block: Block | UnsetType | None = UNSET


class Storage(Document):
    """``storage info`` and ``format``."""

    nodes: list[StoredNode]


class VerifiedPart(Part):
    """A part of a directory, and what it is damaged by."""

    part: str
    path: str
    sound: bool
    holds: str
    reason: str


class VerifiedNode(Part):
    """A node's directories."""

    node_id: int
    sound: bool
    parts: list[VerifiedPart]


class Verified(Document):
    """``storage verify``."""

    nodes: list[VerifiedNode]


class WholeBatch(Part):
    """The first whole batch behind a damage."""

    position: int
    offset: int


class Damage(Part):
    """Where a partition's log is damaged."""

    segment: str
    position: int
    segment_bytes: int
    offset: int
    reason: str
    next_whole_batch: WholeBatch | None


class Lost(Part):
    """What a cut gives up."""

    size: int
    batches: int
    first: int | None
    last: int | None


class ChangedField(Part):
    """A field of a batch's header that is not as it was written; ``position`` of the batch."""

    segment: str
    position: int
    field: str
    found: int
    written: int


class RepairedArchive(Part):
    """Of an archive, what was wrong, and what became of it."""

    log: str
    segment: str | None
    first_offset: int
    end_offset: int | None
    reason: str
    taken_from: str | None
    given_up: bool


class Repaired(Document):
    """``storage repair``: of a partition; with --trust the first two; with --archive node_id and archives."""

    node_id: int | UnsetType = UNSET
    archives: list[RepairedArchive] | UnsetType = UNSET
    trusts: int | UnsetType = UNSET
    partition: str | UnsetType = UNSET
    directory: str | UnsetType = UNSET
    segments: int | UnsetType = UNSET
    start_offset: int | UnsetType = UNSET
    end_offset: int | UnsetType = UNSET
    torn: str | UnsetType | None = UNSET
    changed: str | UnsetType | None = UNSET
    damage: Damage | UnsetType | None = UNSET
    lost: Lost | UnsetType | None = UNSET
    restorable: ChangedField | UnsetType | None = UNSET
    restored: ChangedField | UnsetType | None = UNSET
    repaired: bool | UnsetType = UNSET


class AcceptedClock(Part):
    """A node whose clock counts again."""

    node_id: int
    accepted: bool


class AcceptedClocks(Document):
    """``storage accept-clock``."""

    nodes: list[AcceptedClock]


class LoggedFence(Part):
    """The block, inclusive, and the znode version at which ZooKeeper is or was to be fenced."""

    block_end: int
    zk_version: int


class SeenZnode(Part):
    """The znode as it is now."""

    version: int
    block_end: int
    is_fenced: bool


class OwnFence(Part):
    """Our fence in the znode: its cluster, and what it took the place of."""

    cluster_id: str
    zk_version: int
    block_last: int | None


class ZnodeSource(Part):
    """What a stopped ZooKeeper holds."""

    kind: str
    ensemble: str
    block_end: int
    block_start: int
    zk_version: int
    zxid: int
    fence: OwnFence | None
    reasons: list[str]
    remarks: list[str]


class Migrated(Document):
    """``migrate`` but for preflight and export-znodes; without a cluster only the last two."""

    phase: str | UnsetType = UNSET
    next_command: str | UnsetType = UNSET
    floor: int | UnsetType = UNSET
    producer_id_end: int | UnsetType = UNSET
    ensemble: str | UnsetType = UNSET
    blocking: list[str] | UnsetType = UNSET
    ways: list[str] | UnsetType = UNSET
    standing_still: list[int] | UnsetType = UNSET
    fence: LoggedFence | UnsetType | None = UNSET
    zookeeper: SeenZnode | UnsetType | None = UNSET
    progress: str | UnsetType = UNSET
    dry_run: bool | UnsetType = UNSET
    message: str | UnsetType = UNSET
    source: ZnodeSource | UnsetType = UNSET
    highest_producer_id: int | UnsetType = UNSET


class ZnodeBlock(Part):
    """A block in ZooKeeper; ``last`` is inclusive, ``end`` the first id behind it."""

    broker: int
    first: int
    last: int
    end: int


class PreflightFence(Part):
    """A fence that is there."""

    cluster_id: str
    zk_version: int
    block_end: int | None


class ZooKeeperBroker(Part):
    """A registered broker, and what the fence does to it."""

    broker_id: int
    address: str | None
    protocol: str | None
    known_from: str | None
    asks_controller: bool | None
    reasons: list[str]
    starts_again: bool | None
    after_the_fence: str


class Preflight(Document):
    """``migrate preflight``. ``blocks_seen`` by broker id, ``features`` by name."""

    verdict: str
    zookeeper: str
    ensemble: str
    block: ZnodeBlock | None
    zk_version: int | None
    fence: PreflightFence | None
    acl: list[str] | None
    brokers: list[ZooKeeperBroker]
    blocks_seen: dict[str, int]
    unseen_writes: int
    blocking: list[str]
    remarks: list[str]
    controller: int | None
    controller_epoch: int | None
    topics: int
    features: dict[str, int]
    write_permission: str
    highest_producer_id: int | None
    phase: str | None
    next_command: str | None


class Exported(Document):
    """``migrate export-znodes``."""

    file: str
    znodes: int
    zxid: int
    left_out: list[str]


_MOVERS: Final = ("status", "bridge", "import", "fence", "finalize", "rollback")

STORAGE: Final[Mapping[str, Any]] = {
    "snapshot create": SnapshotsTaken,
    "snapshot describe": Snapshots,
    "snapshot restore": Restored,
    "storage format": Storage,
    "storage info": Storage,
    "storage verify": Verified,
    "storage repair": Repaired,
    "storage accept-clock": AcceptedClocks,
    **{f"migrate {name}": Migrated for name in _MOVERS},
    "migrate preflight": Preflight,
    "migrate export-znodes": Exported,
}
