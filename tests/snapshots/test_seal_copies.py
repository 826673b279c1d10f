"""The seal is in the store twice: one flipped bit of it costs nothing, and no image is taken without it."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import lmdb
import msgspec
import pytest

from fencepost.controller.features import FEATURES
from fencepost.controller.view import ImageHeader
from fencepost.quorum.opened_store import open_store
from fencepost.records.types import ImageVersion
from fencepost.snapshots.reader import APPLIED, MAP_BYTES, read_store
from fencepost.snapshots.rows import row_key
from fencepost.snapshots.store import Store
from fencepost.snapshots.sums import HEADER, SEAL, SealBroken, Verdict, read_seal, require_sealed
from tests.quorum.clients import Silence
from tests.snapshots.test_store import fill
from tests.together import table

COPY = "image.seal.copy"
ROW = row_key(0, FEATURES.name, FEATURES.encode_key("metadata.version"))
QUIET: Any = Silence()

Meta = dict[str, bytes]


def written(directory: Path, *versions: int) -> list[Meta]:
    """A node's store at each of these image versions, one after the other: its meta after each commit."""
    seen = []
    for version in versions:
        store = open_store(directory, sync=False, log=QUIET)
        fill(store, version)
        store.meta_put(APPLIED, msgspec.msgpack.encode((version + 1, 1)))
        store.meta_put("other", bytes((version,)))
        store.flush()
        store.abandon()
        seen.append(meta_of(directory))
    return seen


def meta_of(directory: Path) -> Meta:
    with (
        lmdb.open(str(directory / "store"), max_dbs=8, map_size=MAP_BYTES, readonly=True) as env,
        env.begin() as txn,
    ):
        cursor = txn.cursor(db=env.open_db(b"meta", txn, create=False))
        return {bytes(name).decode(): bytes(raw) for name, raw in cursor}


def put(directory: Path, values: dict[str, bytes | None], rows: Mapping[bytes, bytes] = {}) -> None:
    """Behind the store's back; None removes. A row of the image has the name ``row``, or is in ``rows``."""
    with lmdb.open(str(directory / "store"), max_dbs=8, map_size=MAP_BYTES, sync=False) as env:
        meta, image = env.open_db(b"meta"), env.open_db(b"image")
        with env.begin(write=True) as txn:
            for name, value in values.items():
                key, db = (ROW, image) if name == "row" else (name.encode(), meta)
                if value is None:
                    txn.delete(key, db=db)
                else:
                    txn.put(key, value, db=db)
            for key, value in rows.items():
                txn.put(key, value, db=image)


def flip(directory: Path, *names: str, at: int = -1) -> None:
    """A bit of each of these values."""
    with read_store(directory / "store") as reader:
        raws = {name: reader.meta_get(name) for name in names}
        if "row" in names:
            (raws["row"],) = [raw for table, key, raw in reader.rows() if row_key(0, table, key) == ROW]
    changed: dict[str, bytes | None] = {}
    for name, raw in raws.items():
        assert raw, name
        where = at % len(raw)
        changed[name] = raw[:where] + bytes((raw[where] ^ 1,)) + raw[where + 1 :]
    put(directory, changed)


def verdict_of(directory: Path) -> Verdict:
    """As a start gives it; what it would write is lost, as by a kill."""
    store = Store.open(directory / "store", sync=False)
    try:
        return store.verify_image()
    finally:
        store.abandon()


def opened_and_closed(directory: Path) -> Meta:
    """Meta after a start that ended."""
    open_store(directory, sync=False, log=QUIET).close()
    return meta_of(directory)


@table(
    ("names", "verdict"),
    [
        ((), Verdict.SOUND),
        ((SEAL,), Verdict.SOUND),
        ((COPY,), Verdict.SOUND),
        (("row",), Verdict.DAMAGED),
        (("row", SEAL), Verdict.DAMAGED),
        (("row", COPY), Verdict.DAMAGED),
        ((SEAL, COPY), Verdict.DAMAGED),
        (("row", SEAL, COPY), Verdict.DAMAGED),
        ((SEAL, HEADER), Verdict.DAMAGED),
        ((SEAL, APPLIED), Verdict.DAMAGED),
        ((SEAL, "other"), Verdict.SOUND),
    ],
)
def test_a_flipped_bit_of_a_seal_is_no_excuse(
    tmp_path_factory: pytest.TempPathFactory, names: tuple[str, ...], verdict: Verdict
) -> None:
    """Twice, for the first of two starts may have died before it wrote anything."""
    directory = tmp_path_factory.mktemp("node")
    written(directory, 1, 2)
    flip(directory, *names)
    assert [verdict_of(directory), verdict_of(directory)] == [verdict, verdict]


@table("broken", [SEAL, COPY])
def test_both_are_written_again_where_one_has_a_flipped_bit(
    tmp_path_factory: pytest.TempPathFactory, broken: str
) -> None:
    """Of every byte; the only voter of a cluster has no peer that could give it its image again."""
    directory = tmp_path_factory.mktemp("node")
    (before,) = written(directory, 1)
    assert before[SEAL] == before[COPY]
    for at in range(len(before[broken])):
        flip(directory, broken, at=at)
        assert opened_and_closed(directory) == before, at
    assert verdict_of(directory) is Verdict.SOUND


def test_what_of_meta_changed_beside_the_seal_is_put_right_by_the_copy(tmp_path: Path) -> None:
    (before,) = written(tmp_path, 1)
    flip(tmp_path, SEAL, "other")
    assert opened_and_closed(tmp_path) == before


def test_a_name_of_meta_that_became_another_is_named(tmp_path: Path) -> None:
    """Its value is put back; the other name stays, and says that something changed."""
    (before,) = written(tmp_path, 1)
    put(tmp_path, {"other": None, "othes": before["other"]})
    store = Store.open(tmp_path / "store", sync=False)
    assert store.verify_image() is Verdict.SOUND
    assert sorted(store.mended) == ["other", "othes"]
    assert store.meta_get("other") == before["other"]
    store.abandon()


def test_a_store_whose_seals_are_both_broken_is_forgotten_and_sealed_anew(tmp_path: Path) -> None:
    written(tmp_path, 1)
    flip(tmp_path, SEAL, COPY)
    store = open_store(tmp_path, sync=False, log=QUIET)
    assert (store.image.header, list(store.image.items(FEATURES))) == (ImageHeader(), [])
    store.close()
    after = meta_of(tmp_path)
    assert HEADER not in after
    assert after[SEAL] == after[COPY]
    assert verdict_of(tmp_path) is Verdict.SOUND


# -- earlier versions --------------------------------------------------------------------------------------


def test_a_seal_without_a_copy_counts_and_gets_one(tmp_path: Path) -> None:
    """An earlier version's store."""
    (before,) = written(tmp_path, 1)
    put(tmp_path, {COPY: None})
    assert verdict_of(tmp_path) is Verdict.SOUND
    assert opened_and_closed(tmp_path) == before


def test_a_broken_seal_that_never_had_a_copy_is_damage(tmp_path: Path) -> None:
    written(tmp_path, 1)
    put(tmp_path, {COPY: None})
    flip(tmp_path, SEAL)
    assert verdict_of(tmp_path) is Verdict.DAMAGED


def test_a_copy_that_an_earlier_version_left_behind_is_passed_over(tmp_path: Path) -> None:
    """It sealed what it wrote, and the copy is of what was before."""
    before, after = written(tmp_path, 1, 2)
    put(tmp_path, {COPY: before[COPY]})
    assert verdict_of(tmp_path) is Verdict.SOUND
    assert opened_and_closed(tmp_path) == after


@table("names", [(SEAL,), (SEAL, "row")])
def test_a_copy_that_an_earlier_version_left_behind_is_no_seal_of_another_image(
    tmp_path_factory: pytest.TempPathFactory, names: tuple[str, ...]
) -> None:
    directory = tmp_path_factory.mktemp("node")
    before, _ = written(directory, 1, 2)
    put(directory, {COPY: before[COPY]})
    flip(directory, *names)
    assert verdict_of(directory) is Verdict.DAMAGED


def test_an_earlier_version_seals_the_copy_as_any_other_name_of_meta(tmp_path: Path) -> None:
    before, after = written(tmp_path, 1, 2)
    seal = read_seal(after[SEAL])
    assert seal is not None
    earlier = seal._replace(meta={**seal.meta, COPY: before[COPY]}).encode()
    put(tmp_path, {SEAL: earlier, COPY: before[COPY]})
    assert verdict_of(tmp_path) is Verdict.SOUND
    assert opened_and_closed(tmp_path) == after


def test_what_was_written_without_any_seal_is_taken_and_sealed_anew(tmp_path: Path) -> None:
    """By the first versions: the seal is of an image before this one, or there is none."""
    before, after = written(tmp_path, 1, 2)
    kept: tuple[dict[str, bytes | None], ...] = (
        {SEAL: before[SEAL], COPY: before[COPY]},
        {SEAL: None, COPY: None},
        {SEAL: None},
    )
    for left in kept:
        put(tmp_path, left)
        assert verdict_of(tmp_path) is Verdict.UNSEALED
        assert opened_and_closed(tmp_path) == after
    store = Store.open(tmp_path / "store", sync=False)
    assert store.image.header.version == ImageVersion(2)
    store.abandon()


# -- copies of rows ----------------------------------------------------------------------------------------


@table(
    ("names", "is_taken"),
    [
        ((SEAL,), True),
        ((COPY,), True),
        ((SEAL, COPY), False),
        (("row", SEAL), False),
        (("row", COPY), False),
        ((SEAL, HEADER), False),
        ((HEADER,), False),
        ((APPLIED,), False),
    ],
)
def test_rows_are_copied_under_a_seal_alone(
    tmp_path_factory: pytest.TempPathFactory, names: tuple[str, ...], is_taken: bool
) -> None:
    directory = tmp_path_factory.mktemp("node")
    written(directory, 1)
    flip(directory, *names)
    with read_store(directory / "store") as reader:
        if is_taken:
            require_sealed(reader)
        else:
            with pytest.raises(SealBroken):
                require_sealed(reader)


def test_rows_without_a_seal_are_copied(tmp_path: Path) -> None:
    """Nothing was verified at the start, either."""
    written(tmp_path, 1)
    put(tmp_path, {SEAL: None})
    with read_store(tmp_path / "store") as reader:
        require_sealed(reader)


def test_what_changes_on_the_disk_while_a_node_runs_is_not_sealed(tmp_path: Path) -> None:
    """The next commit seals what was written, and the next start puts it right."""
    written(tmp_path, 1)
    store = open_store(tmp_path, sync=False, log=QUIET)
    store.txn.put(b"other", b"flipped", db=store.meta_db)
    store.meta_put("more", b"x")
    store.commit()
    store.abandon()
    store = open_store(tmp_path, sync=False, log=QUIET)
    assert [store.meta_get(name) for name in ("other", "more")] == [bytes((1,)), b"x"]
    assert store.image.header.version == 1
    store.abandon()
