"""Metadata records that the audit reads, in every version that Kafka has written them in.

``fencepost.records.schema`` has the one version that fencepost writes. The others differ from it by fields
that were not there yet; where only tags were added, one description reads them all: an unknown tag is
skipped.

Source   Kafka metadata/src/main/resources/common/metadata/*.json, 3.0 to 4.1.
"""

from dataclasses import MISSING, dataclass, field, fields, make_dataclass
from typing import Any, ClassVar, Final
from uuid import UUID

from kio.static.constants import EntityType
from kio.static.primitive import i16

from fencepost.records.schema import (
    INT8,
    INT32,
    INT64,
    UUID_,
    AllocateProducerIdsRecord,
    BrokerRegistrationChangeRecord,
    ConfigRecord,
    PartitionRecord,
    RegisterBrokerRecord,
    RemoveTopicRecord,
    TopicRecord,
)


@dataclass(frozen=True, slots=True)
class Unregister:
    """A broker's id and epoch, and what became of it.

    Source: Kafka UnregisterBrokerRecord (apiKey 1, v0).
    """

    __type__: ClassVar = EntityType.data
    __version__: ClassVar[i16] = i16(0)
    __flexible__: ClassVar[bool] = True
    event: ClassVar[str] = "unregistered"

    broker_id: int = field(metadata=INT32)
    broker_epoch: int = field(metadata=INT64)


@dataclass(frozen=True, slots=True)
class Fence(Unregister):
    """Source: Kafka FenceBrokerRecord (apiKey 7, v0)."""

    event: ClassVar[str] = "fenced"


@dataclass(frozen=True, slots=True)
class Unfence(Unregister):
    """Source: Kafka UnfenceBrokerRecord (apiKey 8, v0)."""

    event: ClassVar[str] = "unfenced"


def _before(record_type: type[Any], version: int, *without: str) -> type[Any]:
    """``record_type`` as it was before the fields ``without`` came; they have their defaults."""
    kept = [
        (
            each.name,
            each.type,
            field(metadata=each.metadata)
            if each.default is MISSING
            else field(default=each.default, metadata=each.metadata),
        )
        for each in fields(record_type)
        if each.name not in without
    ]
    constants = {each.name: each.default for each in fields(record_type) if each.name in without} | {
        "__type__": record_type.__type__,
        "__version__": i16(version),
        "__flexible__": True,
    }
    return make_dataclass(f"{record_type.__name__}V{version}", kept, namespace=constants, kw_only=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionChange:
    """What changed of a partition; what is not named is as before.

    Source: Kafka PartitionChangeRecord (apiKey 5).
    """

    __type__: ClassVar = EntityType.data
    __version__: ClassVar[i16] = i16(2)
    __flexible__: ClassVar[bool] = True

    partition_id: int = field(metadata=INT32)
    topic_id: UUID = field(metadata=UUID_)
    isr: tuple[int, ...] | None = field(default=None, metadata={**INT32, "tag": 0})
    leader: int = field(default=-2, metadata={**INT32, "tag": 1})  # -2: as before
    replicas: tuple[int, ...] | None = field(default=None, metadata={**INT32, "tag": 2})
    leader_recovery_state: int = field(default=-1, metadata={**INT8, "tag": 5})  # -1: as before


PARTITION_0: Final = _before(PartitionRecord, 0, "directories")
REGISTER_0: Final = _before(RegisterBrokerRecord, 0, "is_migrating_zk_broker", "in_controlled_shutdown")
REGISTER_1: Final = _before(RegisterBrokerRecord, 1, "is_migrating_zk_broker")

READ: Final[dict[int, tuple[type[Any], ...]]] = {
    0: (REGISTER_0, REGISTER_1, RegisterBrokerRecord, RegisterBrokerRecord),
    1: (Unregister,),
    2: (TopicRecord,),
    3: (PARTITION_0, PartitionRecord, PartitionRecord),
    4: (ConfigRecord,),
    5: (PartitionChange,) * 3,
    7: (Fence,),
    8: (Unfence,),
    9: (RemoveTopicRecord,),
    15: (AllocateProducerIdsRecord,),
    17: (BrokerRegistrationChangeRecord,) * 3,
}
"""By key, the shape of each version from 0 on."""
