"""Metadata records: the vocabulary of ``__cluster_metadata-0``, as Kafka spells it.

Records are facts: past tense, frozen, versioned. They outlive the code: a key is never used again
for something else, a meaning never changes, a new field has a default. No key that Kafka does not
know ever enters this log (a real broker fails on one); what only this project has goes into tagged
fields from 1000 up.

Fields carry kio's metadata (``kafka_type``, ``tag``): ``fencepost.records.message`` reads and writes
them, so there is one description of each record. No ``from __future__ import annotations`` here:
both look at the types themselves.

Source   Kafka ``metadata/src/main/resources/common/metadata/*.json``; docs/kafka-notes.md A2 and G1.
"""

from dataclasses import dataclass, field
from typing import ClassVar, Final, TypeAlias
from uuid import UUID

from kio.static.constants import EntityType
from kio.static.primitive import i16

from fencepost.records.types import BrokerEpoch, BrokerId, ProducerId

BOOL: Final = {"kafka_type": "bool"}
INT8: Final = {"kafka_type": "int8"}
INT16: Final = {"kafka_type": "int16"}
INT32: Final = {"kafka_type": "int32"}
INT64: Final = {"kafka_type": "int64"}
UINT16: Final = {"kafka_type": "uint16"}
STRING: Final = {"kafka_type": "string"}
UUID_: Final = {"kafka_type": "uuid"}
BYTES: Final = {"kafka_type": "bytes"}


@dataclass(frozen=True, slots=True, kw_only=True)
class AllocateProducerIdsRecord:
    """A broker was given every producer id below ``producer_id_end`` that was not given before.

    Source: KIP-730; the bytes are Kafka's ProducerIdsRecord (apiKey 15, v0: NextProducerId).
    """

    __type__: ClassVar = EntityType.data
    __version__: ClassVar[i16] = i16(0)
    __flexible__: ClassVar[bool] = True
    record_key: ClassVar[int] = 15

    broker_id: BrokerId = field(metadata=INT32)  # the requesting broker; decisions never read it
    broker_epoch: BrokerEpoch = field(metadata=INT64)
    producer_id_end: ProducerId = field(metadata=INT64)  # exclusive: the first id not yet allocated


_slots: Final = vars(AllocateProducerIdsRecord)
_set_broker_id: Final = _slots["broker_id"].__set__
_set_broker_epoch: Final = _slots["broker_epoch"].__set__
_set_producer_id_end: Final = _slots["producer_id_end"].__set__


def allocated(
    broker_id: BrokerId, broker_epoch: BrokerEpoch, producer_id_end: ProducerId
) -> AllocateProducerIdsRecord:
    """An AllocateProducerIdsRecord, at a third of what a frozen dataclass's own ``__init__`` costs."""
    record = object.__new__(AllocateProducerIdsRecord)
    _set_broker_id(record, broker_id)
    _set_broker_epoch(record, broker_epoch)
    _set_producer_id_end(record, producer_id_end)
    return record


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerEndpoint:
    """Where a broker listens. ``security_protocol``: 0 PLAINTEXT, 1 SSL, 2 SASL_PLAINTEXT, 3 SASL_SSL."""

    __type__: ClassVar = EntityType.nested
    __version__: ClassVar[i16] = i16(3)
    __flexible__: ClassVar[bool] = True

    name: str = field(metadata=STRING)
    host: str = field(metadata=STRING)
    port: int = field(metadata=UINT16)
    security_protocol: int = field(metadata=INT16)


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerFeature:
    """The levels of one feature that a broker supports, both inclusive."""

    __type__: ClassVar = EntityType.nested
    __version__: ClassVar[i16] = i16(3)
    __flexible__: ClassVar[bool] = True

    name: str = field(metadata=STRING)
    min_supported_version: int = field(metadata=INT16)
    max_supported_version: int = field(metadata=INT16)


@dataclass(frozen=True, slots=True, kw_only=True)
class RegisterBrokerRecord:
    """A broker registered. Its epoch is the offset of this very record.

    Source: Kafka RegisterBrokerRecord (apiKey 0, v3).
    """

    __type__: ClassVar = EntityType.data
    __version__: ClassVar[i16] = i16(3)
    __flexible__: ClassVar[bool] = True
    record_key: ClassVar[int] = 0

    broker_id: BrokerId = field(metadata=INT32)
    is_migrating_zk_broker: bool = field(default=False, metadata=BOOL)
    incarnation_id: UUID = field(metadata=UUID_)  # new for each life of the broker's process
    broker_epoch: BrokerEpoch = field(metadata=INT64)
    end_points: tuple[BrokerEndpoint, ...]
    features: tuple[BrokerFeature, ...]
    rack: str | None = field(default=None, metadata=STRING)
    fenced: bool = field(default=True, metadata=BOOL)
    in_controlled_shutdown: bool = field(default=False, metadata=BOOL)
    log_dirs: tuple[UUID, ...] = field(default=(), metadata={**UUID_, "tag": 0})


@dataclass(frozen=True, slots=True, kw_only=True)
class UnregisterBrokerRecord:
    """A broker's registration was removed. Source: Kafka UnregisterBrokerRecord (apiKey 1, v0)."""

    __type__: ClassVar = EntityType.data
    __version__: ClassVar[i16] = i16(0)
    __flexible__: ClassVar[bool] = True
    record_key: ClassVar[int] = 1

    broker_id: BrokerId = field(metadata=INT32)
    broker_epoch: BrokerEpoch = field(metadata=INT64)


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicRecord:
    """A topic was created; its partitions follow. Source: Kafka TopicRecord (apiKey 2, v0)."""

    __type__: ClassVar = EntityType.data
    __version__: ClassVar[i16] = i16(0)
    __flexible__: ClassVar[bool] = True
    record_key: ClassVar[int] = 2

    name: str = field(metadata=STRING)
    topic_id: UUID = field(metadata=UUID_)


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionRecord:
    """A partition of a topic was created, or is as this says. Source: Kafka PartitionRecord (apiKey 3, v1).

    ``directories`` are the replicas' log directories, in the order of ``replicas``.
    """

    __type__: ClassVar = EntityType.data
    __version__: ClassVar[i16] = i16(1)
    __flexible__: ClassVar[bool] = True
    record_key: ClassVar[int] = 3

    partition_id: int = field(metadata=INT32)
    topic_id: UUID = field(metadata=UUID_)
    replicas: tuple[int, ...] = field(metadata=INT32)  # broker ids, the preferred leader first
    isr: tuple[int, ...] = field(metadata=INT32)
    removing_replicas: tuple[int, ...] = field(default=(), metadata=INT32)
    adding_replicas: tuple[int, ...] = field(default=(), metadata=INT32)
    leader: int = field(default=-1, metadata=INT32)
    leader_recovery_state: int = field(default=0, metadata={**INT8, "tag": 0})  # 0 recovered, 1 recovering
    leader_epoch: int = field(default=-1, metadata=INT32)
    partition_epoch: int = field(default=-1, metadata=INT32)
    directories: tuple[UUID, ...] = field(default=(), metadata=UUID_)


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionChangeRecord:
    """A partition whose log is lost was started again: empty, in a new leader epoch, from ``start_offset``.

    Since: log level 6. Source: Kafka PartitionChangeRecord (apiKey 5, v1); of its fields what is needed. A
    leader that is named begins a new leader epoch, though it be the same. Ours: tag 1000.
    """

    __type__: ClassVar = EntityType.data
    __version__: ClassVar[i16] = i16(1)
    __flexible__: ClassVar[bool] = True
    record_key: ClassVar[int] = 5

    partition_id: int = field(metadata=INT32)
    topic_id: UUID = field(metadata=UUID_)
    leader: int = field(default=-2, metadata={**INT32, "tag": 1})  # -2: as before
    directories: tuple[UUID, ...] = field(default=(), metadata={**UUID_, "tag": 8})  # empty: as before
    start_offset: int = field(default=-1, metadata={**INT64, "tag": 1000})  # -1: as before


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfigRecord:
    """A setting was set, or removed if it has no value. Source: Kafka ConfigRecord (apiKey 4, v0)."""

    __type__: ClassVar = EntityType.data
    __version__: ClassVar[i16] = i16(0)
    __flexible__: ClassVar[bool] = True
    record_key: ClassVar[int] = 4

    resource_type: int = field(metadata=INT8)  # Kafka ConfigResource: 2 topic, 4 broker
    resource_name: str = field(metadata=STRING)
    name: str = field(metadata=STRING)
    value: str | None = field(metadata=STRING)


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoveTopicRecord:
    """A topic was deleted with all that it had. Source: Kafka RemoveTopicRecord (apiKey 9, v0)."""

    __type__: ClassVar = EntityType.data
    __version__: ClassVar[i16] = i16(0)
    __flexible__: ClassVar[bool] = True
    record_key: ClassVar[int] = 9

    topic_id: UUID = field(metadata=UUID_)


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerRegistrationChangeRecord:
    """A registered broker was fenced, unfenced, or began to shut down, or reported on its partitions.

    Source: Kafka BrokerRegistrationChangeRecord (apiKey 17, v2). Ours: tag 1000, since log level 9, see
    records/partition_report.py.
    """

    __type__: ClassVar = EntityType.data
    __version__: ClassVar[i16] = i16(2)
    __flexible__: ClassVar[bool] = True
    record_key: ClassVar[int] = 17

    broker_id: BrokerId = field(metadata=INT32)
    broker_epoch: BrokerEpoch = field(metadata=INT64)
    fenced: int = field(default=0, metadata={**INT8, "tag": 0})  # 1 fenced, -1 unfenced, 0 unchanged
    in_controlled_shutdown: int = field(default=0, metadata={**INT8, "tag": 1})  # 1 began, 0 unchanged
    log_dirs: tuple[UUID, ...] = field(default=(), metadata={**UUID_, "tag": 2})  # empty: unchanged
    partition_reports: bytes = field(default=b"", metadata={**BYTES, "tag": 1000})


@dataclass(frozen=True, slots=True, kw_only=True)
class FeatureLevelRecord:
    """A feature was finalized at a level; 0 removes it. Source: Kafka FeatureLevelRecord (apiKey 12, v0)."""

    __type__: ClassVar = EntityType.data
    __version__: ClassVar[i16] = i16(0)
    __flexible__: ClassVar[bool] = True
    record_key: ClassVar[int] = 12

    name: str = field(metadata=STRING)
    feature_level: int = field(metadata=INT16)


@dataclass(frozen=True, slots=True, kw_only=True)
class AccessControlEntryRecord:
    """An ACL was added. Since: log level 8. Source: Kafka AccessControlEntryRecord (apiKey 18, v0).

    The numbers are those of Kafka's enumerations (controller/acls.py).
    """

    __type__: ClassVar = EntityType.data
    __version__: ClassVar[i16] = i16(0)
    __flexible__: ClassVar[bool] = True
    record_key: ClassVar[int] = 18

    id: UUID = field(metadata=UUID_)
    resource_type: int = field(metadata=INT8)
    resource_name: str = field(metadata=STRING)
    pattern_type: int = field(metadata=INT8)
    principal: str = field(metadata=STRING)
    host: str = field(metadata=STRING)
    operation: int = field(metadata=INT8)
    permission_type: int = field(metadata=INT8)


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoveAccessControlEntryRecord:
    """An ACL was removed.

    Since: log level 8. Source: Kafka RemoveAccessControlEntryRecord (apiKey 19, v0).
    """

    __type__: ClassVar = EntityType.data
    __version__: ClassVar[i16] = i16(0)
    __flexible__: ClassVar[bool] = True
    record_key: ClassVar[int] = 19

    id: UUID = field(metadata=UUID_)


@dataclass(frozen=True, slots=True, kw_only=True)
class UserScramCredentialRecord:
    """A user may log in by SCRAM, as these say. Secrets: they appear in no text.

    Since: log level 10. Source: Kafka UserScramCredentialRecord (apiKey 11, v0).
    """

    __type__: ClassVar = EntityType.data
    __version__: ClassVar[i16] = i16(0)
    __flexible__: ClassVar[bool] = True
    record_key: ClassVar[int] = 11

    name: str = field(metadata=STRING)
    mechanism: int = field(metadata=INT8)  # controller.scram.Mechanism
    salt: bytes = field(metadata=BYTES, repr=False)
    stored_key: bytes = field(metadata=BYTES, repr=False)
    server_key: bytes = field(metadata=BYTES, repr=False)
    iterations: int = field(metadata=INT32)


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoveUserScramCredentialRecord:
    """A user's credential of one mechanism was removed.

    Since: log level 10. Source: Kafka RemoveUserScramCredentialRecord (apiKey 22, v0).
    """

    __type__: ClassVar = EntityType.data
    __version__: ClassVar[i16] = i16(0)
    __flexible__: ClassVar[bool] = True
    record_key: ClassVar[int] = 22

    name: str = field(metadata=STRING)
    mechanism: int = field(metadata=INT8)


@dataclass(frozen=True, slots=True, kw_only=True)
class NoOpRecord:
    """Nothing happened, at an offset of its own. Source: Kafka NoOpRecord (apiKey 20, v0)."""

    __type__: ClassVar = EntityType.data
    __version__: ClassVar[i16] = i16(0)
    __flexible__: ClassVar[bool] = True
    record_key: ClassVar[int] = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class ZkMigrationStateRecord:
    """The upgrade from ZooKeeper went a step on; the tagged fields say where it stands since.

    Source: Kafka ZkMigrationStateRecord (apiKey 21, v0); the tags are ours, Kafka's readers skip them.
    """

    __type__: ClassVar = EntityType.data
    __version__: ClassVar[i16] = i16(0)
    __flexible__: ClassVar[bool] = True
    record_key: ClassVar[int] = 21

    zk_migration_state: int = field(metadata=INT8)  # 0 none, 1 pre-migration, 2 migration, 3 post-migration
    phase: int = field(default=0, metadata={**INT8, "tag": 1000})  # controller.migration_phase.Phase
    floor: ProducerId = field(default=ProducerId(0), metadata={**INT64, "tag": 1001})
    fence_block_end: int = field(default=-1, metadata={**INT64, "tag": 1002})  # inclusive; -1: no block
    fence_zk_version: int = field(default=-1, metadata={**INT32, "tag": 1003})  # -1: nothing to be fenced
    ensemble: str = field(default="", metadata={**STRING, "tag": 1004})  # which ZooKeeper; "": none yet


MetadataRecord: TypeAlias = (
    AllocateProducerIdsRecord
    | RegisterBrokerRecord
    | UnregisterBrokerRecord
    | TopicRecord
    | PartitionChangeRecord
    | PartitionRecord
    | ConfigRecord
    | RemoveTopicRecord
    | BrokerRegistrationChangeRecord
    | FeatureLevelRecord
    | AccessControlEntryRecord
    | RemoveAccessControlEntryRecord
    | NoOpRecord
    | ZkMigrationStateRecord
    | UserScramCredentialRecord
    | RemoveUserScramCredentialRecord
)

METADATA_RECORDS: Final[dict[int, type[MetadataRecord]]] = {
    RegisterBrokerRecord.record_key: RegisterBrokerRecord,
    UnregisterBrokerRecord.record_key: UnregisterBrokerRecord,
    TopicRecord.record_key: TopicRecord,
    PartitionRecord.record_key: PartitionRecord,
    PartitionChangeRecord.record_key: PartitionChangeRecord,
    ConfigRecord.record_key: ConfigRecord,
    RemoveTopicRecord.record_key: RemoveTopicRecord,
    UserScramCredentialRecord.record_key: UserScramCredentialRecord,
    FeatureLevelRecord.record_key: FeatureLevelRecord,
    AllocateProducerIdsRecord.record_key: AllocateProducerIdsRecord,
    BrokerRegistrationChangeRecord.record_key: BrokerRegistrationChangeRecord,
    AccessControlEntryRecord.record_key: AccessControlEntryRecord,
    RemoveAccessControlEntryRecord.record_key: RemoveAccessControlEntryRecord,
    NoOpRecord.record_key: NoOpRecord,
    ZkMigrationStateRecord.record_key: ZkMigrationStateRecord,
    RemoveUserScramCredentialRecord.record_key: RemoveUserScramCredentialRecord,
}
"""Every metadata record by its key. One version each: the one in ``__version__``."""
