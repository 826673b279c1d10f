"""What tests of changed images have in common: a rig whose digests come often, and rows that change."""

from typing import Final

import msgspec

from fencepost.controller.producer_ids import PRODUCER_IDS
from fencepost.records.types import ProducerId
from fencepost.snapshots.image import image_digest
from tests.quorum.clients import Answers
from tests.quorum.rig import Rig

EVERY: Final = 4  # versions from one digest to the next


def version_of(rig: Rig, node: int) -> int:
    return int(rig[node].image.header.version)


def advance(rig: Rig, node: int, entries: int = 1, *, among: tuple[int, ...] = ()) -> Answers:
    """Allocate blocks, one in each entry."""
    answers = Answers()
    for _ in range(entries):
        rig.submit(node, rig.decide_allocate(node), answers)
        rig.turn(node)
        rig.flow(*among)
        rig.settle(*among)
    return answers


def to_before_a_digest(rig: Rig) -> None:
    """The next entry but one has a version with a digest."""
    while version_of(rig, 1) % EVERY != EVERY - 2:
        advance(rig, 1)


def change(rig: Rig, node: int, by: int = -1000) -> None:
    """Bytes of a row change: the end of the producer ids."""
    image = rig[node].store.image
    row = image.get(PRODUCER_IDS, 0)
    assert row is not None
    image.put(PRODUCER_IDS, 0, msgspec.structs.replace(row, end=ProducerId(row.end + by)))


def read(rig: Rig, node: int, *among: int) -> Answers:
    """A linearizable read: an entry without a record."""
    answers = rig.read(node)
    rig.turn(node)
    rig.flow(*among)
    rig.settle(*among)
    return answers


def differ(rig: Rig, node: int, *among: int) -> Answers:
    """The last row that an entry wrote changes on one node, before its digest is taken."""
    to_before_a_digest(rig)
    advance(rig, 1, among=among)
    change(rig, node)
    return read(rig, 1, *among)


def heal(rig: Rig, *nodes: int) -> None:
    """Time for snapshots to be taken, sent and installed, and for a few entries."""
    for _ in range(12):
        rig.settle()
        rig.maintenance_tick()
        rig.work()
        rig.flow()


def bad(rig: Rig) -> set[int]:
    return {int(node) for node, replica in rig.replicas.items() if replica.watch.is_bad}


def same_images(rig: Rig) -> bool:
    return len({image_digest(replica.store) for replica in rig.replicas.values()}) == 1
