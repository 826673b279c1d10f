"""An image without a seal: an earlier version's, or damage from the level on at which every version seals."""

from pathlib import Path

import msgspec
import pytest

from fencepost.controller.features import FEATURES, FeatureLevel
from fencepost.controller.levels import LOG_LEVEL
from fencepost.controller.view import ImageHeader
from fencepost.quorum.opened_store import open_store
from fencepost.records.levels import LEVEL_MAX, SEALED_IMAGES
from fencepost.snapshots.reader import APPLIED, read_store
from fencepost.snapshots.rows import row_key
from fencepost.snapshots.sums import SEAL, SEAL_COPY, SealBroken, Verdict, require_sealed
from tests.snapshots.test_seal_copies import QUIET, Meta, flip, meta_of, put, verdict_of
from tests.snapshots.test_store import fill
from tests.together import table

LEVEL_ROW = row_key(0, FEATURES.name, FEATURES.encode_key(LOG_LEVEL))


def written(directory: Path, level: int, *versions: int) -> list[Meta]:
    """A node's store at each of these image versions: its meta after each commit."""
    seen = []
    for version in versions:
        store = open_store(directory, sync=False, log=QUIET)
        fill(store, version)
        store.image.put(FEATURES, LOG_LEVEL, FeatureLevel(level))
        store.meta_put(APPLIED, msgspec.msgpack.encode((version + 1, 1)))
        store.flush()
        store.abandon()
        seen.append(meta_of(directory))
    return seen


LEVELS = [
    (1, Verdict.UNSEALED),
    (SEALED_IMAGES - 1, Verdict.UNSEALED),
    (SEALED_IMAGES, Verdict.DAMAGED),
    (LEVEL_MAX, Verdict.DAMAGED),
]


@table("is_flipped", [False, True])
@table(("level", "verdict"), LEVELS)
def test_a_seal_that_is_gone_is_damage_from_its_level_on(
    tmp_path_factory: pytest.TempPathFactory, level: int, verdict: Verdict, is_flipped: bool
) -> None:
    """With a row that changed, or without: nothing says which. Twice, as the first start may have died."""
    directory = tmp_path_factory.mktemp("node")
    written(directory, level, 1, 2)
    put(directory, {SEAL: None, SEAL_COPY: None})
    if is_flipped:
        flip(directory, "row")
    assert [verdict_of(directory), verdict_of(directory)] == [verdict, verdict]


@table(("level", "verdict"), LEVELS)
def test_the_seal_of_an_older_image_is_damage_from_its_level_on(
    tmp_path_factory: pytest.TempPathFactory, level: int, verdict: Verdict
) -> None:
    directory = tmp_path_factory.mktemp("node")
    before, _ = written(directory, level, 1, 2)
    put(directory, {SEAL: before[SEAL], SEAL_COPY: before[SEAL_COPY]})
    assert verdict_of(directory) is verdict


@table(("level", "verdict"), LEVELS)
def test_no_snapshot_is_made_without_a_seal_from_its_level_on(
    tmp_path_factory: pytest.TempPathFactory, level: int, verdict: Verdict
) -> None:
    directory = tmp_path_factory.mktemp("node")
    written(directory, level, 1)
    put(directory, {SEAL: None})
    with read_store(directory / "store") as reader:
        if verdict is Verdict.UNSEALED:
            require_sealed(reader)
        else:
            with pytest.raises(SealBroken, match="it has no seal"):
                require_sealed(reader)


def test_a_level_that_makes_no_sense_is_damage(tmp_path: Path) -> None:
    written(tmp_path, SEALED_IMAGES - 1, 1)
    put(tmp_path, {SEAL: None, SEAL_COPY: None}, {LEVEL_ROW: b"\xc1"})
    assert verdict_of(tmp_path) is Verdict.DAMAGED


def test_an_image_without_its_seal_is_forgotten_and_sealed_anew(tmp_path: Path) -> None:
    written(tmp_path, LEVEL_MAX, 1)
    put(tmp_path, {SEAL: None, SEAL_COPY: None})
    store = open_store(tmp_path, sync=False, log=QUIET)
    assert (store.image.header, list(store.image.items(FEATURES))) == (ImageHeader(), [])
    store.close()
    assert verdict_of(tmp_path) is Verdict.SOUND
