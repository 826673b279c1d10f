"""One flipped byte in what a store holds: the node has the right image, or it says that its store is lost."""

from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import lmdb
import pytest
import structlog

import fencepost.quorum.snapshotter
from fencepost.controller.brokers import BROKERS
from fencepost.controller.producer_ids import PRODUCER_IDS
from fencepost.controller.view import ImageHeader
from fencepost.quorum.opened_store import open_store
from fencepost.records.types import ImageVersion
from fencepost.snapshots.image import image_digest
from fencepost.snapshots.sums import StoreDamaged
from tests.quorum.clients import Silence
from tests.quorum.conftest import MakeRig
from tests.quorum.rig import Rig
from tests.quorum.test_lost_image import INTERVAL, advance

TABLES = (b"meta", b"image", b"journal", b"sums")
QUIET: Any = Silence()
OWN = (b"image.seal", b"image.seal.copy", b"raft.ballot")
"""What of meta the first versions do not write."""


@pytest.fixture
def led(make_rig: MakeRig, monkeypatch: pytest.MonkeyPatch) -> Rig:
    """Node 1 leads; node 2 has a snapshot, a journal behind it, and was killed."""
    monkeypatch.setattr(fencepost.quorum.snapshotter, "TAIL_ENTRIES", 0)
    rig = make_rig(3, snapshot_entries=INTERVAL)
    rig.elect(1)
    rig.register(1)
    advance(rig, 2 * INTERVAL)
    for node in (1, 2):
        rig.maintenance_tick(node)
    rig.work()
    advance(rig, 2)
    rig.flush(2)
    rig.crash(2)
    return rig


def environment(rig: Rig) -> lmdb.Environment:
    return lmdb.open(str(rig.root / "node-2" / "store"), max_dbs=8, map_size=1 << 40)


def stored(rig: Rig) -> dict[bytes, dict[bytes, bytes]]:
    """Everything that node 2's store holds, by table."""
    env = environment(rig)
    dbs = {name: env.open_db(name) for name in TABLES}
    with env.begin() as txn:
        found = {name: {bytes(k): bytes(v) for k, v in txn.cursor(db=db)} for name, db in dbs.items()}
    env.close()
    return found


def put_back(rig: Rig, content: dict[bytes, dict[bytes, bytes]]) -> None:
    env = environment(rig)
    dbs = {name: env.open_db(name) for name in TABLES}
    with env.begin(write=True) as txn:
        for name, db in dbs.items():
            txn.drop(db, delete=False)
            for key, value in content[name].items():
                txn.put(key, value, db=db)
    env.close()


def outcome(rig: Rig) -> str:
    """``lost``: node 2 does not start with it. Else ``right`` or ``wrong``, by the leader's image."""
    try:
        rig.start(2)
    except StoreDamaged:
        return "lost"
    rig.connect(2)
    rig.heartbeat()
    rig.flow()
    right = image_digest(rig[2].store) == image_digest(rig[1].store)
    rig.crash(2)
    return "right" if right else "wrong"


def flips(raw: bytes) -> Iterator[bytes]:
    """The value with one bit of some bytes flipped: the first, the last, and some between."""
    for at in sorted({0, 1, len(raw) // 2, len(raw) - 1} & set(range(len(raw)))):
        for bit in (0x01, 0x80):
            yield raw[:at] + bytes((raw[at] ^ bit,)) + raw[at + 1 :]


@pytest.mark.parametrize("table", TABLES, ids=lambda name: name.decode())
def test_a_flipped_byte_of_a_value_is_never_believed(led: Rig, table: bytes) -> None:
    whole, seen = stored(led), set()
    for key, value in whole[table].items():
        for changed in list(flips(value))[:: 1 if table != b"journal" else 3]:
            put_back(led, {**whole, table: {**whole[table], key: changed}})
            said = outcome(led)
            seen.add(said)
            assert said != "wrong", (table, key, changed)
            assert said == "right" or table in (b"journal", b"sums"), (table, key, changed)
    assert seen == {b"meta": {"right"}, b"image": {"right"}}.get(table, {"lost"})


def named(rig: Rig) -> set[str]:
    """What node 2 logs as it starts: of values that were put right which ones."""
    with structlog.testing.capture_logs() as logged, pytest.MonkeyPatch.context() as patch:
        patch.setattr(rig, "log_of", lambda _node: structlog.get_logger())
        rig.start(2)
    rig.crash(2)
    found = {str(line.get("values", line["event"])) for line in logged if line["log_level"] != "info"}
    return {name for each in found for name in each.split(", ")}


def test_what_of_meta_changed_is_named(led: Rig) -> None:
    """Each value is there twice: it is put right, where no image has to be made again."""
    whole = stored(led)
    ballot = {b"raft.term", b"raft.vote"}
    for key, value in whole[b"meta"].items():
        for changed in flips(value):
            put_back(led, {**whole, b"meta": {**whole[b"meta"], key: changed}})
            said = named(led)
            meant = {each.decode() for each in (ballot if key in ballot else {key})}
            assert meant <= said or "image_damaged" in said, (key, changed, said)
        moved = key[:-1] + bytes((key[-1] ^ 1,))
        rest = {each: raw for each, raw in whole[b"meta"].items() if each != key}
        put_back(led, {**whole, b"meta": {**rest, moved: value}})
        is_as_by_an_earlier_version = key == b"image.seal"  # at this log level
        assert {moved.decode(), "image_damaged"} & named(led) or is_as_by_an_earlier_version, key
    put_back(led, whole)
    assert named(led) == set()


def test_a_checksum_with_another_key_or_that_is_gone_is_a_lost_store(led: Rig) -> None:
    """But the last ones may never have been: an earlier version appends entries without."""
    whole = stored(led)
    sums = whole[b"sums"]
    *others, last = sorted(sums)
    for key in (*others, last):
        rest = {each: raw for each, raw in sums.items() if each != key}
        for at in range(len(key)):
            moved = key[:at] + bytes((key[at] ^ 0x80,)) + key[at + 1 :]
            put_back(led, {**whole, b"sums": {**rest, moved: sums[key]}})
            assert outcome(led) == "lost", moved
        put_back(led, {**whole, b"sums": rest})
        assert outcome(led) == ("right" if key == last else "lost"), key


def test_a_row_that_changed_is_not_believed_where_the_seal_changed_too(led: Rig) -> None:
    """As where the start that found the row died before it wrote anything."""
    whole = stored(led)
    seal = next(flips(whole[b"meta"][b"image.seal"]))
    for key, value in whole[b"image"].items():
        for changed in flips(value):
            rows = {**whole[b"image"], key: changed}
            put_back(led, {**whole, b"meta": {**whole[b"meta"], b"image.seal": seal}, b"image": rows})
            assert outcome(led) == "right", (key, changed)


def test_a_row_that_is_gone_or_has_another_key_is_never_believed(led: Rig) -> None:
    whole = stored(led)
    for key, value in whole[b"image"].items():
        rest = {each: raw for each, raw in whole[b"image"].items() if each != key}
        moved = key[:-1] + bytes((key[-1] ^ 1,))
        for rows in (rest, {**rest, moved: value}):
            put_back(led, {**whole, b"image": rows})
            assert outcome(led) == "right", key


@pytest.mark.parametrize("value", [b"\x40", b"\xff", b"\xcf" + b"\xff" * 8], ids=bytes.hex)
def test_without_a_seal_an_image_of_another_generation_is_made_again(led: Rig, value: bytes) -> None:
    content = stored(led)
    content[b"meta"][b"generation"] = value
    del content[b"meta"][b"image.seal"]
    put_back(led, content)
    assert outcome(led) == "right"


@pytest.mark.parametrize("value", [b"\x40", b"\xff", b"\xc1"], ids=bytes.hex)
def test_a_generation_that_changed_is_put_right_by_the_seal(tmp_path: Path, value: bytes) -> None:
    """Of an image that a snapshot became: no row is of another generation, and nothing else has them."""
    store = open_store(tmp_path, sync=False, log=QUIET)
    generation = store.fresh_generation()
    store.put_rows(generation, [(BROKERS.name, bytes(8), b"a row")])
    store.flip(generation, ImageHeader(version=ImageVersion(9)))
    store.close()
    env = lmdb.open(str(tmp_path / "store"), max_dbs=8, map_size=1 << 40)
    with env.begin(write=True, db=env.open_db(b"meta")) as txn:
        assert txn.get(b"generation") == b"\x01"
        txn.put(b"generation", value)
    env.close()
    store = open_store(tmp_path, sync=False, log=QUIET)
    assert (store.generation, store.image.header.version) == (generation, 9)
    store.close()


def test_an_entry_that_is_gone_is_a_lost_store(led: Rig) -> None:
    whole = stored(led)
    for key in list(whole[b"journal"])[1:]:
        rest = {each: raw for each, raw in whole[b"journal"].items() if each != key}
        put_back(led, {**whole, b"journal": rest})
        assert outcome(led) == "lost"


def test_swapped_rows_are_never_believed(led: Rig) -> None:
    whole = stored(led)
    keys = sorted(whole[b"image"])
    for one, other in pairwise(keys):
        rows = {**whole[b"image"], one: whole[b"image"][other], other: whole[b"image"][one]}
        put_back(led, {**whole, b"image": rows})
        assert outcome(led) == "right"


def test_what_an_earlier_version_wrote_is_taken_and_sealed_anew(led: Rig) -> None:
    """It leaves seal, ballot and sums as they were, and goes on with all else."""
    before = stored(led)
    assert outcome(led) == "right"
    advance(led, 3)
    led.start(2)
    led.connect(2)
    led.heartbeat()
    led.flow()
    led.flush(2)
    led.crash(2)
    after = stored(led)
    kept = {name: before[b"meta"][name] for name in OWN}
    put_back(led, {**after, b"meta": {**after[b"meta"], **kept}, b"sums": before[b"sums"]})
    assert outcome(led) == "right"
    led.start(2)
    led.flush(2)
    led.crash(2)
    again = stored(led)
    assert again[b"sums"].keys() == again[b"journal"].keys()
    row = next(key for key in again[b"image"] if PRODUCER_IDS.name.encode() in key)
    changed = again[b"image"][row][:-1] + bytes((again[b"image"][row][-1] ^ 1,))
    put_back(led, {**again, b"image": {**again[b"image"], row: changed}})
    assert outcome(led) == "right"


def test_without_seal_and_sums_a_store_is_what_it_was(led: Rig) -> None:
    """A directory of before: opened, it gets them."""
    whole = stored(led)
    bare = {key: raw for key, raw in whole[b"meta"].items() if key not in OWN}
    put_back(led, {**whole, b"meta": bare, b"sums": {}})
    assert outcome(led) == "right"
    led.start(2)
    led.flush(2)
    led.crash(2)
    made = stored(led)
    assert made[b"meta"].keys() >= set(OWN)
    assert made[b"sums"].keys() == made[b"journal"].keys()
