"""What the tests of the upgrade's decisions are written with: phases, records, commands."""

from collections.abc import Callable, Iterable
from typing import Any

from fencepost.controller import migration
from fencepost.controller.decision import Decision
from fencepost.controller.migration_phase import Intent, Migration, Phase
from fencepost.controller.producer_ids import AllocateProducerIds, ProducerIdBlock
from fencepost.controller.replay import replay_record
from fencepost.controller.view import Overlay, View
from fencepost.records.logged import StateRecord
from fencepost.records.schema import AllocateProducerIdsRecord, MetadataRecord, ZkMigrationStateRecord
from fencepost.records.types import PRODUCER_ID_MAX, BrokerEpoch, BrokerId, ProducerId
from tests.controller.worlds import allocated, image, registered

LAST_ID = PRODUCER_ID_MAX
ZK, OTHER_ZK = "zk", "another-zk"
INTENT = Intent(block_end=4999, zk_version=7)
REQUEST = AllocateProducerIds(BrokerId(1), BrokerEpoch(100))


def state(phase: Phase, floor: int = 0, intent: Intent | None = None, ensemble: str = ZK) -> MetadataRecord:
    """The record that leads to a phase."""
    return ZkMigrationStateRecord(
        zk_migration_state=0,
        phase=phase,
        floor=ProducerId(floor),
        ensemble=ensemble,
        fence_block_end=-1 if intent is None else intent.block_end,
        fence_zk_version=-1 if intent is None else intent.zk_version,
    )


def world(phase: Phase | None, end: int = 0, floor: int = 0, intent: Intent | None = None) -> Overlay:
    """Broker 1 is registered with epoch 100; every id below ``end`` is handed out. None: no upgrade."""
    if intent is None and phase in (Phase.FENCING, Phase.QUORUM, Phase.FINALIZED, Phase.ROLLING_BACK):
        intent = INTENT
    ensemble = "" if phase is Phase.WAITING else ZK
    records = [] if phase is None else [state(phase, floor, intent, ensemble)]
    return image(registered(1, 100), *([allocated(end)] if end else []), *records)


def block(first: int, length: int = 1000) -> ProducerIdBlock:
    return ProducerIdBlock(ProducerId(first), length)


def row(phase: Phase, floor: int = 0, intent: Intent | None = None) -> Migration:
    return Migration(phase, ProducerId(floor), ZK, intent)


def theirs(end: int) -> AllocateProducerIdsRecord:
    """What lies below was given out by ZooKeeper, not by us."""
    return allocated(end, broker_id=-1, epoch=-1)


def replayed(view: Overlay, records: Iterable[StateRecord]) -> Overlay:
    for record in records:
        replay_record(view, record)
    return view


Decide = Callable[[View], Decision[Any]]


def bridge(ensemble: str = ZK) -> Decide:
    return lambda view: migration.decide_bridge(view, ensemble)


def import_(block_end: int = 4999, ensemble: str = ZK, at_least: int = 0) -> Decide:
    return lambda view: migration.decide_import(view, block_end, ensemble, at_least)


def import_from_stopped(block_end: int = 4999, ensemble: str = ZK, at_least: int = 0) -> Decide:
    return lambda view: migration.decide_import_from_stopped(view, block_end, ensemble, at_least)


def fence(intent: Intent = INTENT, ensemble: str = ZK) -> Decide:
    return lambda view: migration.decide_fence_intent(view, intent, ensemble)


def switch(intent: Intent = INTENT) -> Decide:
    return lambda view: migration.decide_switch(view, intent)


def stop(ensemble: str = ZK) -> Decide:
    return lambda view: migration.decide_stop(view, ensemble)


def finalize(seen: Intent | None = INTENT, *, is_stopped: bool = False) -> Decide:
    return lambda view: migration.decide_finalize(view, seen=seen, is_stopped=is_stopped)


rolled_back: Decide = migration.decide_rolled_back
