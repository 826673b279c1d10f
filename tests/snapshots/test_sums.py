"""Sums, seals and ballots by themselves."""

from hashlib import blake2b
from pathlib import Path

import msgspec
import pytest
from crc32c import crc32c
from hypothesis import given, settings
from hypothesis import strategies as st

from fencepost.controller.brokers import BROKERS
from fencepost.controller.features import FEATURES, FeatureLevel
from fencepost.controller.view import ImageHeader, Overlay
from fencepost.records.types import ImageVersion
from fencepost.snapshots.reader import APPLIED
from fencepost.snapshots.store import Store
from fencepost.snapshots.sums import (
    HEADER,
    Seal,
    SealBroken,
    Verdict,
    ballot,
    encode_ballot,
    entry_sum,
    judge,
    read_seal,
    row_hash,
    seal_of,
)
from tests.examples import examples
from tests.together import table

SET, DELETE, FLUSH = "set", "delete", "flush"
steps = st.lists(
    st.tuples(st.sampled_from((SET, SET, DELETE, FLUSH)), st.integers(0, 4), st.integers(0, 300)), max_size=25
)


def meta(version: int, applied: int) -> dict[str, bytes]:
    header = ImageHeader(version=ImageVersion(version))
    return {HEADER: msgspec.msgpack.encode(header), APPLIED: msgspec.msgpack.encode((applied, 1))}


def fresh(tmp_path: Path) -> Store:
    store = Store.open(tmp_path / "store", sync=False)
    assert store.verify_image() is Verdict.UNSEALED
    return store


@settings(max_examples=examples(60))
@given(steps)
def test_the_sum_is_that_of_the_rows_whatever_was_written(
    tmp_path_factory: pytest.TempPathFactory, played: list[tuple[str, int, int]]
) -> None:
    directory = tmp_path_factory.mktemp("sums")
    store = fresh(directory)
    for number, (what, key, value) in enumerate(played, 1):
        overlay = Overlay(store.image)
        if what == SET:
            overlay.put(FEATURES, f"feature-{key}", FeatureLevel(value))
        elif what == DELETE:
            overlay.delete(FEATURES, f"feature-{key}")
        overlay.header = ImageHeader(version=ImageVersion(number))
        overlay.write_to(store.image)
        if what == FLUSH:
            store.flush()
    store.flush()
    kept = store.rows_sum
    store.close()
    again = Store.open(directory / "store", sync=False)
    assert again.verify_image() is Verdict.SOUND
    assert again.rows_sum == kept
    again.close()


def test_the_sum_of_an_installed_image_is_that_of_its_rows(tmp_path: Path) -> None:
    store = fresh(tmp_path)
    for _ in range(2):  # what an installation that never ended has put is not in the sum
        generation = store.fresh_generation()
        store.put_rows(
            generation, [(BROKERS.name, bytes(8), b"one"), (BROKERS.name, bytes(7) + b"\1", b"two")]
        )
    store.flip(generation, ImageHeader(version=ImageVersion(9)))
    store.flush()
    kept = store.rows_sum
    store.close()
    again = Store.open(tmp_path / "store", sync=False)
    assert again.verify_image() is Verdict.SOUND
    assert again.rows_sum == kept
    again.close()


@table(
    ("seal", "now", "verdict"),
    [
        (None, Seal(meta(3, 4), 7), Verdict.UNSEALED),
        (None, Seal({HEADER: b"\xc1"}, 7), Verdict.DAMAGED),
        (Seal(meta(3, 4), 7), Seal(meta(3, 4), 7), Verdict.SOUND),
        (Seal(meta(3, 4), 7), Seal(meta(3, 4), 8), Verdict.DAMAGED),
        (Seal(meta(3, 4), 7), Seal(meta(4, 4), 7), Verdict.DAMAGED),
        (Seal(meta(3, 4), 7), Seal(meta(3, 5), 7), Verdict.DAMAGED),
        (Seal(meta(3, 4), 7), Seal(meta(4, 5), 8), Verdict.UNSEALED),
        (Seal(meta(3, 4), 7), Seal(meta(2, 5), 8), Verdict.DAMAGED),
        (Seal(meta(3, 4), 7), Seal({**meta(4, 5), APPLIED: b"\xc1"}, 8), Verdict.DAMAGED),
    ],
)
def test_what_is_judged(seal: Seal | None, now: Seal, verdict: Verdict) -> None:
    assert judge(seal, now) is verdict


@table(
    ("term", "vote", "counts"),
    [
        (5, 2, (5, 2)),
        (5, 3, (5, 2)),
        (5, None, (5, 2)),
        (4, 2, (5, 2)),
        (-1, None, (5, 2)),
        (6, 3, (6, 3)),
        (6, None, (6, None)),
    ],
)
def test_term_and_vote_are_those_of_the_copy(
    term: int, vote: int | None, counts: tuple[int, int | None]
) -> None:
    """A later term is one of an earlier version, which writes no copy."""
    assert ballot(encode_ballot(5, 2), term, vote) == counts


def test_a_vote_that_an_earlier_version_gave_counts() -> None:
    assert ballot(encode_ballot(5, None), 5, 3) == (5, 3)


def test_a_copy_or_seal_with_a_flipped_bit_says_nothing() -> None:
    kept, seal = encode_ballot(5, 2), Seal(meta(3, 4), 7).encode()
    assert read_seal(seal) == Seal(meta(3, 4), 7)
    assert seal_of(meta(3, 4), None, seal) is None
    for at in range(len(kept)):
        assert ballot(kept[:at] + bytes((kept[at] ^ 1,)) + kept[at + 1 :], 9, 1) == (9, 1)
    for at in range(len(seal)):
        broken = seal[:at] + bytes((seal[at] ^ 1,)) + seal[at + 1 :]
        assert read_seal(broken) is None
        assert seal_of(meta(3, 4), broken, seal) == Seal(meta(3, 4), 7)
        assert seal_of(meta(3, 4), seal, broken) == Seal(meta(3, 4), 7)
        for copy, now in ((None, meta(3, 4)), (broken, meta(3, 4)), (seal, meta(3, 5)), (seal, meta(4, 4))):
            with pytest.raises(SealBroken):
                seal_of(now, broken, copy)


def test_the_sealed_value_of_another_name_says_nothing() -> None:
    """Its checksum is right: two values of a page changed places."""
    kept, seal = encode_ballot(5, 2), Seal(meta(3, 4), 7).encode()
    assert ballot(seal, 9, 1) == (9, 1)
    assert read_seal(kept) is None
    assert seal_of(meta(3, 4), kept, seal) == Seal(meta(3, 4), 7)


def test_the_hash_of_a_row_is_that_of_its_length_key_and_value() -> None:
    """Its key in the store begins with four bytes of the generation, which may be any."""
    expected = blake2b(b"\x00\x03" + b"key" + b"value", digest_size=16).digest()
    assert row_hash(bytes(4) + b"key", b"value") == int.from_bytes(expected, "big")
    assert row_hash(b"\x00\x00\x00\x07key", b"value") == int.from_bytes(expected, "big")


def test_the_sum_of_a_journal_entry_is_a_crc_of_four_bytes() -> None:
    assert entry_sum(b"key", b"value") == crc32c(b"keyvalue").to_bytes(4, "big")
