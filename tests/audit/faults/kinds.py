"""The ten kinds of fault, each in its variants, and how several are planted at once."""

import contextlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Final

from tests.audit.faults import blocks, files, producers, states
from tests.audit.faults.carried import CARRIED
from tests.audit.faults.coordinators import COORDINATORS
from tests.audit.faults.copies import COPIES
from tests.audit.faults.displaced import DISPLACED
from tests.audit.faults.elsewhere import ELSEWHERE
from tests.audit.faults.extra import EXTRA
from tests.audit.faults.fault import Ground, NoPlace, Planted
from tests.audit.faults.fields import FIELDS
from tests.audit.faults.groups import BEYOND_GROUPS, GROUPS
from tests.audit.faults.headers import HEADERS
from tests.audit.faults.insert import APPENDED, OVERLAPPING, RENUMBERED, WAYS
from tests.audit.faults.left_out import LEFT_OUT
from tests.audit.faults.pairs import PAIRS
from tests.audit.faults.side_entries import SIDE_ENTRIES
from tests.audit.faults.sides import SIDES
from tests.audit.faults.state_records import STATE_RECORDS
from tests.audit.faults.tree import METADATA, STATES, Tree, copied

TRIES_MAX: Final = 8  # a place by chance may be the last one of a log, where nothing can be overlapped
Plant = Callable[[Ground], Planted]

KINDS: Final[Mapping[str, Mapping[str, Plant]]] = {
    "duplicate block": {
        "appended": blocks.appended,
        "in place": blocks.in_place,
        "end repeated": blocks.end_repeated,
    },
    "lost record": {
        "hole": producers.lost_record(renumber=False),
        "renumbered": producers.lost_record(renumber=True),
        "of metadata": blocks.lost,
        "of the coordinator": states.lost,
    },
    "zombie batch": {way: producers.zombie_batch(way) for way in WAYS},
    "double marker": {
        "at once": producers.double_marker(RENUMBERED, at_once=True),
        "at once, overlapping": producers.double_marker(OVERLAPPING, at_once=True),
        "renumbered": producers.double_marker(RENUMBERED),
        "renumbered, of a later time": producers.double_marker(RENUMBERED, fresh=True),
        "overlapping": producers.double_marker(OVERLAPPING),
        "appended": producers.double_marker(APPENDED, fresh=True),
    },
    "missing marker": {
        "hole": producers.missing_marker(),
        "renumbered": producers.missing_marker(renumber=True),
        "last": producers.missing_marker(last=True),
    },
    "regressed epoch": {
        "of the coordinator": states.reused_epoch,
        **{f"marker, {way}": producers.regressed_marker(way) for way in WAYS},
    },
    "foreign id": {
        **{way: producers.foreign_id(way) for way in WAYS},
        "transactional": producers.foreign_id(RENUMBERED, transactional=True),
    },
    "sequence gap": {
        "skipped": producers.sequence_gap(),
        "new epoch": producers.sequence_gap(new_epoch=True),
        "duplicate": producers.sequence_duplicate,
    },
    "diverged replica": {
        "leader epoch": files.diverged_replica(files.other_leader_epoch),
        "time": files.diverged_replica(files.other_time),
        "value": files.diverged_replica(files.other_value),
        "run of three": files.diverged_replica(files.other_time, 3),
    },
    "flipped byte": {
        "content": files.flipped_byte(),
        "of metadata": files.flipped_byte(topic=METADATA),
        "of the coordinator": files.flipped_byte(topic=STATES),
        "checksum": files.flipped_byte(files.CRC_FIELD),
        "magic": files.flipped_byte(files.MAGIC),
        "length": files.flipped_byte(files.LENGTH),
    },
}

BEYOND: Final[Mapping[str, Mapping[str, Plant]]] = {
    **PAIRS,
    **HEADERS,
    **COORDINATORS,
    **LEFT_OUT,
    **COPIES,
    **{kind: {**variants, **SIDE_ENTRIES.get(kind, {})} for kind, variants in SIDES.items()},
    **{kind: variants for kind, variants in SIDE_ENTRIES.items() if kind not in SIDES},
    **BEYOND_GROUPS,
    **DISPLACED,
    **STATE_RECORDS,
    **ELSEWHERE,
    **FIELDS,
    **CARRIED,
}
"""Further kinds: of markers and data, of single batches, of the coordinator, of copies, of side files."""

ALL: Final[Mapping[str, Mapping[str, Plant]]] = {**KINDS, **EXTRA, **GROUPS, **BEYOND}
BREAKING: Final = {("lost record", "of metadata"), ("lost record", "of the coordinator")}
"""What other faults are judged by is gone: planted last, if none of these is there."""

BY_CHANCE: Final = (*KINDS, *EXTRA)
"""Kinds for which any logs with transactions have a place."""


@dataclass(frozen=True, slots=True)
class Seeded:
    """What was planted, by its name."""

    kind: str
    variant: str
    planted: Planted


def seed(
    source: Path, target: Path, faults: Sequence[tuple[str, str]], random: Random, *, is_any: bool = False
) -> list[Seeded]:
    """Copy a directory and plant these faults in the copy, one of them in no way near another.

    is_any    a kind that has no place in the variant wanted is planted in another one.

    Returns   those for which the logs had a place.
    """
    copied(source, target)
    ground = Ground(Tree.read(target), random)
    seeded = []
    for kind, wanted in sorted(faults, key=lambda fault: fault in BREAKING):
        others = [each for each in ALL[kind] if each != wanted]
        for variant in [wanted] * TRIES_MAX + random.sample(others, len(others) if is_any else 0):
            with contextlib.suppress(NoPlace):
                seeded.append(Seeded(kind, variant, ALL[kind][variant](ground)))
                break
    ground.write()
    for each in seeded:
        planted = each.planted
        assert planted.places() or planted.files, f"{planted.said}: it is in no file"
    return seeded


def one_of_each(random: Random) -> list[tuple[str, str]]:
    """Ten faults of ten kinds, each in a variant by chance."""
    return [(kind, random.choice([*variants])) for kind, variants in KINDS.items()]
