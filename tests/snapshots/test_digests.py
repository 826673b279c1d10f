"""Digests of the rows that changed: their bytes, which nodes of two versions compare."""

from contextlib import closing
from hashlib import blake2b
from pathlib import Path

import msgspec

from fencepost.controller.features import FEATURES, FeatureLevel
from fencepost.controller.view import ImageHeader, Overlay
from fencepost.records.types import ImageVersion
from fencepost.snapshots.digests import DIGEST_EVERY, ChangedRows
from fencepost.snapshots.rows import row_key
from fencepost.snapshots.store import Store
from fencepost.snapshots.sums import row_hash


def test_a_digest_is_of_the_header_and_of_the_sum_of_the_rows_as_they_are_now(tmp_path: Path) -> None:
    with closing(Store.open(tmp_path / "store", sync=False)) as store:
        changed = ChangedRows()
        changed.begin(0)
        total = 0
        for version, (name, level) in enumerate((("old", 1), ("kept", 7), ("old", None)), DIGEST_EVERY - 2):
            overlay = Overlay(store.image)
            if level is None:
                overlay.delete(FEATURES, name)
            else:
                overlay.put(FEATURES, name, FeatureLevel(level))
            overlay.header = ImageHeader(version=ImageVersion(version))
            changed.note(overlay)
            overlay.write_to(store.image)
            digest = changed.take(store.image)
            assert (digest is None) == (version < DIGEST_EVERY)
        for name, value in (("old", b""), ("kept", FEATURES.encode_value(FeatureLevel(7)))):
            total += row_hash(row_key(0, FEATURES.name, FEATURES.encode_key(name)), value)
        content = msgspec.msgpack.encode(store.image.header) + (total % (1 << 128)).to_bytes(16, "big")
        assert digest == blake2b(content, digest_size=16).digest()
