"""The upgrade from ZooKeeper: what leads from phase to phase, and what a block from ZooKeeper becomes here.

Floor       no id below it is ever given out by the quorum: ``block_end + 1`` of what ZooKeeper held
            (KAFKA-15552 took block_start). It only grows, and the end of the ids is never below it.
Fence       intent first: {block_end, znode version} goes to the log, then the conditional write, then the
            switch. A switch that does not match the logged intent is refused.
Theirs      ids that brokers took from ZooKeeper themselves are recorded as given to ``DIRECT_WRITERS``, as
            Kafka's own migration does: so the log is complete, for readers that know no tags of ours, too.

Source      docs/design.md 7; KIP-866; Kafka ZkMigrationClient.migrateProducerId; KIP-730's bridge release.
"""

from typing import Final

from msgspec.structs import replace

from fencepost.controller import brokers, producer_ids
from fencepost.controller.decision import Decision
from fencepost.controller.errors import CoordinatorLoadInProgress, InvalidRequest, ProducerIdsExhausted
from fencepost.controller.migration_phase import (
    KAFKA_STATE,
    MIGRATION,
    NEXT_COMMAND,
    THROUGH_ZOOKEEPER,
    Intent,
    Migration,
    Phase,
    current,
)
from fencepost.controller.producer_ids import AllocateProducerIds, ProducerIdBlock
from fencepost.controller.view import MutableView, View
from fencepost.records.invariant import invariant
from fencepost.records.schema import AllocateProducerIdsRecord, MetadataRecord, ZkMigrationStateRecord
from fencepost.records.types import PRODUCER_ID_MAX, BrokerEpoch, BrokerId, ProducerId

DIRECT_WRITERS: Final = BrokerId(-1)  # Kafka's migration writes broker epoch -1, too
NO_BLOCK: Final = -1  # in the place of a block's inclusive end: there is no block yet
ZOOKEEPER_BLOCK_LENGTH: Final = 1000  # Kafka's, in every version
ENSEMBLE_CHARACTERS_MAX: Final = 1000


# -- blocks ------------------------------------------------------------------------------------------------


def next_range(end: ProducerId, block_end: int, lengths: tuple[int, ...]) -> tuple[ProducerIdBlock, ...]:
    """Blocks of these ``lengths`` above everything: in our log (``end``) and in ZooKeeper (``block_end``).

    As many as there is room for. Raises ProducerIdsExhausted if there is none for the first.
    """
    first = max(end, after(block_end))
    blocks: list[ProducerIdBlock] = []
    for length in lengths:
        if first > PRODUCER_ID_MAX - length:
            break
        blocks.append(ProducerIdBlock(ProducerId(first), length))
        first += length
    if not blocks:
        raise ProducerIdsExhausted(producer_id_end=ProducerId(first), block_length=lengths[0])
    return tuple(blocks)


def decide_bridged_block(
    view: View, request: AllocateProducerIds, block: ProducerIdBlock
) -> Decision[ProducerIdBlock]:
    """Record a block that ZooKeeper's conditional write gave to this controller for ``request``.

    Raises StaleBrokerEpoch; CoordinatorLoadInProgress if the bridge was left meanwhile, or if the log has
    gone past the block: either way it is wasted, and its broker sends the request again.
    """
    brokers.require_epoch(view, request.broker_id, request.broker_epoch)
    now = current(view)
    if now.phase not in THROUGH_ZOOKEEPER:
        raise CoordinatorLoadInProgress(f"migration phase is {now.phase.label}; the block is wasted")
    if block.first < producer_ids.latest(view).end:
        raise CoordinatorLoadInProgress(
            f"ids from {block.first} on are given out already; the block is wasted"
        )
    given = AllocateProducerIdsRecord(
        broker_id=request.broker_id,
        broker_epoch=request.broker_epoch,
        producer_id_end=ProducerId(block.first + block.length),
    )
    return Decision((*_given_to_direct_writers(view, block.first), given), block)


def block_to_hand_back(view: View, block_end: int) -> ProducerIdBlock:
    """What ZooKeeper is given at a rollback: a block that ends with the last id that anyone may have.

    ``block_end`` is what the znode holds; behind our fence stands the intent's. The block has no owner: what
    ZooKeeper gives out next comes after it.
    """
    intent = current(view).intent
    fenced_end = NO_BLOCK if intent is None else intent.block_end
    end = max(producer_ids.latest(view).end, after(block_end), after(fenced_end), ZOOKEEPER_BLOCK_LENGTH)
    return ProducerIdBlock(ProducerId(end - ZOOKEEPER_BLOCK_LENGTH), ZOOKEEPER_BLOCK_LENGTH)


def after(block_end: int) -> int:
    """The first id after an inclusive end: the whole of KAFKA-15552."""
    return block_end + 1


# -- phases ------------------------------------------------------------------------------------------------


def bootstrap_records(view: View, *, migrating: bool) -> tuple[ZkMigrationStateRecord, ...]:
    """A cluster that is configured for the upgrade, and has given out no id yet, waits for the bridge."""
    untouched = view.get(MIGRATION, 0) is None and producer_ids.latest(view).end == 0
    return (_record(Migration(Phase.WAITING)),) if migrating and untouched else ()


def decide_bridge(view: View, ensemble: str) -> Decision[Migration]:
    """Begin to allocate through ZooKeeper. Nothing is written if that is so already."""
    now = current(view)
    require_same_ensemble(now, ensemble)
    if now.phase in THROUGH_ZOOKEEPER:
        return Decision((), now)
    _require(now, Phase.WAITING, wanted="bridge")
    return _decided(replace(now, phase=Phase.BRIDGE, ensemble=ensemble))


def decide_import(view: View, block_end: int, ensemble: str, at_least: int = 0) -> Decision[Migration]:
    """Set the floor to ``block_end + 1``, or to ``at_least``. Allocation stays in ZooKeeper."""
    now = current(view)
    require_same_ensemble(now, ensemble)
    if now.phase not in THROUGH_ZOOKEEPER:
        _require(now, Phase.BRIDGE, wanted="import")
    floor = _floor(view, block_end, at_least)
    if now.phase is Phase.IMPORTED and floor == now.floor:
        return Decision((), now)
    return _decided(replace(now, phase=Phase.IMPORTED, floor=floor), *_given_to_direct_writers(view, floor))


def decide_import_from_stopped(
    view: View, block_end: int, ensemble: str, at_least: int = 0
) -> Decision[Migration]:
    """As import, fence and switch at once: the operator's word that ZooKeeper is stopped is the fence."""
    now = current(view)
    require_same_ensemble(now, ensemble)
    if now.intent is not None:
        block_end = max(block_end, now.intent.block_end)
    floor = _floor(view, block_end, at_least)
    if now.phase in (Phase.QUORUM, Phase.FINALIZED) and now.floor >= max(after(block_end), at_least):
        return Decision((), now)
    if now.phase not in (*THROUGH_ZOOKEEPER, Phase.FENCING, Phase.ROLLING_BACK):
        _require(now, Phase.WAITING, wanted="import --zookeeper-is-stopped")
    row = Migration(Phase.QUORUM, floor, ensemble)
    return _decided(row, *_given_to_direct_writers(view, floor))


def decide_fence_intent(view: View, intent: Intent, ensemble: str) -> Decision[Migration]:
    """Log what is about to be fenced. The quorum allocates no more. A new intent replaces the last.

    If it is below the last, ZooKeeper went back (an old backup): the ids of the last one stay given out.
    """
    now = current(view)
    require_same_ensemble(now, ensemble)
    if now.phase is Phase.FENCING and now.intent == intent:
        return Decision((), now)
    if now.phase is not Phase.FENCING:
        _require(now, Phase.IMPORTED, wanted="fence")
    _floor(view, intent.block_end)  # refuses an end that leaves no id
    floor = now.floor
    if now.intent is not None and intent.block_end < now.intent.block_end:
        floor = _floor(view, now.intent.block_end)
    return _decided(replace(now, phase=Phase.FENCING, intent=intent, floor=floor))


def decide_switch(view: View, intent: Intent) -> Decision[Migration]:
    """The fence is in ZooKeeper, at ``intent.zk_version + 1``: the quorum allocates from now on."""
    now = current(view)
    if now.phase is Phase.QUORUM and now.intent == intent:
        return Decision((), now)
    _require(now, Phase.FENCING, wanted="fence")
    if now.intent != intent:
        raise InvalidRequest(f"the fence was written for {intent}, but the log holds the intent {now.intent}")
    floor = _floor(view, intent.block_end)
    return _decided(replace(now, phase=Phase.QUORUM, floor=floor), *_given_to_direct_writers(view, floor))


def decide_finalize(view: View, *, seen: Intent | None, is_stopped: bool) -> Decision[Migration]:
    """End the upgrade: ZooKeeper has no part in allocation any more, and there is no way back.

    In   ``seen``: of the fence that is in ZooKeeper now; None: none was seen. ``is_stopped``: the operator's
         word that ZooKeeper is stopped for good takes its place.
    """
    now = current(view)
    if now.phase is Phase.FINALIZED:
        return Decision((), now)
    _require(now, Phase.QUORUM, wanted="finalize")
    if not is_stopped and (seen is None or seen != now.intent):
        raise InvalidRequest(f"finalize has to see the fence of {now.intent} in ZooKeeper, and saw {seen}")
    return _decided(replace(now, phase=Phase.FINALIZED))


def decide_stop(view: View, ensemble: str) -> Decision[Migration]:
    """Begin the rollback: the quorum allocates no more. Where ZooKeeper does, nothing is stopped."""
    now = current(view)
    require_same_ensemble(now, ensemble)
    if now.phase in (Phase.ROLLING_BACK, Phase.BRIDGE):
        return Decision((), now)
    if now.phase is Phase.IMPORTED:
        return _decided(replace(now, phase=Phase.BRIDGE))
    if now.phase is not Phase.FENCING:
        _require(now, Phase.QUORUM, wanted="rollback")
    return _decided(replace(now, phase=Phase.ROLLING_BACK))


def decide_rolled_back(view: View) -> Decision[Migration]:
    """ZooKeeper holds a block above every id that was given out: allocate through it again."""
    now = current(view)
    if now.phase is Phase.BRIDGE:
        return Decision((), now)
    _require(now, Phase.ROLLING_BACK, wanted="rollback")
    return _decided(replace(now, phase=Phase.BRIDGE, intent=None))


def require_same_ensemble(now: Migration, ensemble: str) -> None:
    """Raises InvalidRequest if this is not the ZooKeeper with which the upgrade began."""
    if not ensemble or len(ensemble) > ENSEMBLE_CHARACTERS_MAX:
        raise InvalidRequest(f"expected the name of a ZooKeeper ensemble, found {ensemble[:100]!r}")
    if now.ensemble and now.ensemble != ensemble:
        raise InvalidRequest(
            f"the upgrade began with the ZooKeeper of Kafka cluster {now.ensemble}, but this is that of "
            f"{ensemble}; look at zookeeper.connect"
        )


def replay(view: MutableView, record: ZkMigrationStateRecord) -> None:
    """Total. What the floor means for the next id is in the records beside this one."""
    intent = None
    if record.fence_zk_version >= 0:
        intent = Intent(record.fence_block_end, record.fence_zk_version)
    invariant(record.floor >= current(view).floor, "the floor went back", record=record)
    view.put(MIGRATION, 0, Migration(Phase(record.phase), record.floor, record.ensemble, intent))


def state_record(view: View) -> ZkMigrationStateRecord | None:
    """The record that says what the image says; None in a cluster that knows no ZooKeeper."""
    row = view.get(MIGRATION, 0)
    return None if row is None else _record(row)


def _floor(view: View, block_end: int, at_least: int = 0) -> ProducerId:
    """Never below what was given out. Raises InvalidRequest if no id is left above it."""
    floor = max(current(view).floor, after(block_end), at_least, producer_ids.latest(view).end)
    if block_end < NO_BLOCK or floor > PRODUCER_ID_MAX:
        raise InvalidRequest(
            f"a block that ends at {block_end} leaves no producer id; ids end at {PRODUCER_ID_MAX}"
        )
    return ProducerId(floor)


def _given_to_direct_writers(view: View, end: ProducerId) -> tuple[AllocateProducerIdsRecord, ...]:
    """The record of the ids below ``end`` that ZooKeeper gave out without us; none if there are none."""
    if end <= producer_ids.latest(view).end:
        return ()
    return (
        AllocateProducerIdsRecord(
            broker_id=DIRECT_WRITERS, broker_epoch=BrokerEpoch(-1), producer_id_end=ProducerId(end)
        ),
    )


def _decided(row: Migration, *given: MetadataRecord) -> Decision[Migration]:
    return Decision((_record(row), *given), row)


def _record(row: Migration) -> ZkMigrationStateRecord:
    return ZkMigrationStateRecord(
        zk_migration_state=KAFKA_STATE[row.phase],
        phase=row.phase,
        floor=row.floor,
        ensemble=row.ensemble,
        fence_block_end=-1 if row.intent is None else row.intent.block_end,
        fence_zk_version=-1 if row.intent is None else row.intent.zk_version,
    )


def _require(now: Migration, phase: Phase, *, wanted: str) -> None:
    """Raises InvalidRequest with the reason and what to type instead."""
    if now.phase is phase:
        return
    if now.phase is Phase.NONE:
        raise InvalidRequest(
            "this cluster gives out producer ids by itself and has no upgrade to make; upgrade into a new "
            "cluster: zookeeper.metadata.migration.enable=true on its controllers before their first start"
        )
    following = NEXT_COMMAND[now.phase]
    advice = (
        f"next: fencepost migrate {following}" if following else "the upgrade is over, nothing is left to do"
    )
    raise InvalidRequest(
        f"'migrate {wanted}' needs phase {phase.label}, but the phase is {now.phase.label}; {advice}"
    )
