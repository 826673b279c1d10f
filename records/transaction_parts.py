"""What a transaction record is made of: partitions, assignments of groups, and who lost its epoch when.

Source   Kafka TransactionLogValue.json (PartitionsSchema); KIP-447 for the assignment of a group. The fence
         history is this project's own.
"""

from dataclasses import dataclass, field
from typing import ClassVar, Final

from kio.static.constants import EntityType
from kio.static.primitive import i16

from fencepost.records.schema import INT8, INT16, INT32, INT64, STRING
from fencepost.records.types import ProducerId

FENCED_BY_CHARACTERS_MAX: Final = 64
NO_TIMEOUT: Final = -1


@dataclass(frozen=True, slots=True)
class TopicPartitions:
    """Partitions of one topic, in ascending order in what is stored."""

    __type__: ClassVar = EntityType.nested
    __version__: ClassVar[i16] = i16(1)
    __flexible__: ClassVar[bool] = True

    topic: str = field(metadata=STRING)
    partition_ids: tuple[int, ...] = field(metadata=INT32)


@dataclass(frozen=True, slots=True)
class Fence:
    """An instance of a producer lost its epoch at ``at_ms``. For people: decisions may read pid and epoch."""

    __type__: ClassVar = EntityType.nested
    __version__: ClassVar[i16] = i16(1)
    __flexible__: ClassVar[bool] = True

    at_ms: int = field(metadata=INT64)
    cause: int = field(metadata=INT8)  # controller.transactions.states.FenceCause
    producer_id: ProducerId = field(metadata=INT64)
    epoch: int = field(metadata=INT16)  # the one that was lost
    by: str = field(default="", metadata=STRING)  # client id, of at most FENCED_BY_CHARACTERS_MAX


@dataclass(frozen=True, slots=True)
class GroupAssignment:
    """Partitions that a group's generation assigned to the member whose producer a transactional id is."""

    __type__: ClassVar = EntityType.nested
    __version__: ClassVar[i16] = i16(1)
    __flexible__: ClassVar[bool] = True

    group_id: str = field(metadata=STRING)
    generation: int = field(metadata=INT32)
    partitions: tuple[TopicPartitions, ...]
