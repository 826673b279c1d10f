"""The znode of the current producer-id block, as Kafka wrote it from 0.11 to 3.9, and our fence in it.

Format      ``{"version":1,"broker":B,"block_start":"F","block_end":"L"}``: B an int32 (-1: a KRaft controller
            wrote it), F and L decimal strings, L inclusive. No data at all: no block was ever given out.
Import      the first id that was never given out is ``block_end + 1``, not ``block_start`` (KAFKA-15552).
Fence       a block so near the end of the id space that Kafka's own loop, in every version, fails with
            "Have exhausted all producerIds": ``last > 2^63 - 1 - 1000``. It ends one id earlier than it
            could, so that ``block_end + 1`` of it does not overflow in Kafka's migration to KRaft. A fifth
            field, which Kafka's parsers pass over, says whose fence it is and what it took the place of;
            its numbers are int32s because Kafka 0.11 parses every JSON number as one.
Identical   brokers before 3.0 take a failed write for theirs if the znode then holds the broker, first and
            last that they meant to write. So who writes for a broker must not write what that broker would:
            ``ON_BEHALF`` is the broker of every block that the bridge writes.

Source      KIP-730; docs/kafka-notes.md A5, A6; Kafka 0.11.0.0, 2.8.0 ProducerIdManager,
            3.0.0 to 3.9.0 ZkData.
"""

import json
from typing import Final, NamedTuple, TypeAlias

from fencepost.bridge.strict_json import INT32_MAX, Misshaped, parse_object, shown
from fencepost.records.types import PRODUCER_ID_MAX, BrokerId, ProducerId

BLOCK_PATH: Final = "/latest_producer_id_block"
KAFKA_BLOCK_LENGTH: Final = 1000  # in every version; also the distance at which Kafka sees the ids exhausted
BLOCK_LENGTH_MAX: Final = INT32_MAX  # Kafka since 3.0 computes the length as an int32
ON_BEHALF: Final = BrokerId(-1)  # as Kafka's KRaft controllers write

_VERSION: Final = 1
_FENCE_FIELD: Final = "fencepost"
_FENCE_VERSION: Final = 1
_FENCE_LAST: Final = PRODUCER_ID_MAX - 1
_FENCE_FIRST: Final = _FENCE_LAST - KAFKA_BLOCK_LENGTH + 1


class ZnodeBlock(NamedTuple):
    """The ids from ``first`` to ``last``, inclusive, are ``broker``'s; no id after ``last`` was given out."""

    broker: BrokerId
    first: ProducerId
    last: ProducerId

    @property
    def end(self) -> int:
        """The first id after the block; 2^63, which is no id, if the block holds the very last one."""
        return self.last + 1

    @property
    def is_exhausted(self) -> bool:
        """Whether Kafka's loop gives up on it."""
        return self.last > PRODUCER_ID_MAX - KAFKA_BLOCK_LENGTH


class Fence(NamedTuple):
    """Our fence: who set it, and the version and block that it took the place of."""

    cluster_id: str  # of the fencepost cluster
    zk_version: int  # V: the fence itself is at V + 1
    block_last: ProducerId | None  # E; None if there was no block


BlockZnode: TypeAlias = ZnodeBlock | Fence | None
"""What the znode says. None: no block was ever given out."""


class IdsExhausted(Exception):
    """There is no room for another block after this one."""


def parse_block(content: bytes | None, version: int, path: str = BLOCK_PATH) -> BlockZnode:
    """What the znode holds. ``version`` is its zkVersion, which tells "never written" from "wiped".

    Raises   Misshaped for anything that Kafka did not write, and for a znode without data that was written
             before: its data was deleted, and which ids were given out is lost.
    """
    if not content:
        if version == 0:
            return None
        raise Misshaped(path, "a block, for it was written before", f"no data at version {version}")
    fields = parse_object(path, content)
    fields.integer("version", _VERSION, _VERSION)
    broker = BrokerId(fields.integer("broker", -1))
    first = ProducerId(fields.decimal("block_start"))
    last = ProducerId(fields.decimal("block_end"))
    length = last - first + 1
    if not 1 <= length <= BLOCK_LENGTH_MAX:
        raise Misshaped(path, f"a block of 1 to {BLOCK_LENGTH_MAX} ids", f"first {first}, last {last}")
    if not fields.has(_FENCE_FIELD):
        fields.end()
        return ZnodeBlock(broker, first, last)
    ours = fields.fields(_FENCE_FIELD)
    fields.end()
    ours.integer("version", _FENCE_VERSION, _FENCE_VERSION)
    fence = Fence(
        cluster_id=ours.text("cluster_id"),
        zk_version=ours.integer("zk_version"),
        block_last=ProducerId(ours.decimal("block_end")) if ours.has("block_end") else None,
    )
    ours.end()
    if (broker, first, last) != (ON_BEHALF, _FENCE_FIRST, _FENCE_LAST):
        raise Misshaped(path, "the fence's block in a fence", shown(content.decode()))
    return fence


def format_block(block: ZnodeBlock) -> bytes:
    """The very bytes that Kafka writes. Inverse: ``parse_block``."""
    return _dump(_fields(block))


def format_fence(fence: Fence) -> bytes:
    """What to write at ``fence.zk_version``. Inverse: ``parse_block``."""
    ours: dict[str, object] = {
        "version": _FENCE_VERSION,
        "cluster_id": fence.cluster_id,
        "zk_version": fence.zk_version,
    }
    if fence.block_last is not None:
        ours["block_end"] = str(fence.block_last)
    block = ZnodeBlock(ON_BEHALF, ProducerId(_FENCE_FIRST), ProducerId(_FENCE_LAST))
    return _dump({**_fields(block), _FENCE_FIELD: ours})


def block_after(
    current: BlockZnode, length: int = KAFKA_BLOCK_LENGTH, broker: BrokerId = ON_BEHALF
) -> ZnodeBlock:
    """The block to write in the place of ``current``, as Kafka's loop computes it.

    Raises   IdsExhausted where Kafka's loop fails too, and if ``length`` ids are not left.
    """
    if isinstance(current, Fence):
        raise IdsExhausted(
            f"cluster {current.cluster_id} has fenced the znode at version {current.zk_version + 1}"
        )
    first = 0 if current is None else current.end
    last = first + length - 1
    if (current is not None and current.is_exhausted) or last > PRODUCER_ID_MAX:
        raise IdsExhausted(f"the last block given out ends at {first - 1}; ids end at {PRODUCER_ID_MAX}")
    return ZnodeBlock(broker, ProducerId(first), ProducerId(last))


def _fields(block: ZnodeBlock) -> dict[str, object]:
    return {
        "version": _VERSION,
        "broker": block.broker,
        "block_start": str(block.first),
        "block_end": str(block.last),
    }


def _dump(document: dict[str, object]) -> bytes:
    return json.dumps(document, separators=(",", ":")).encode()
