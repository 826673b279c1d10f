"""Records that are opened: noise under a right checksum is a fault."""

from pathlib import Path

import pytest

from fencepost.audit.decode.batches import Where
from fencepost.audit.decode.tables import decode_log
from fencepost.records.batch import encode_batch
from tests.broker.log.builders import CODECS, compressed, resealed

PLAIN = encode_batch([(b"k", b"v" * 40, ())] * 3, timestamp_ms=5, base_offset=0)


def faults(tmp_path: Path, content: bytes, *, deep: bool) -> list[tuple[int, str]]:
    path = tmp_path / f"{0:020}.log"
    path.write_bytes(content)
    where = Where(1, "orders", 0, str(path))
    return [
        (row["offset"], row["fault"])
        for name, rows in decode_log(str(path), where, deep=deep)
        if name == "record_faults"
        for row in rows.to_pylist()
    ]


def garbled(batch: bytes) -> bytes:
    """Noise where the records were, and the checksum of that."""
    return resealed(batch[:61] + bytes(each ^ 0x5A for each in batch[61:]))


@pytest.mark.parametrize("codec", sorted(CODECS))
def test_noise_under_a_right_checksum_is_a_fault_of_the_records(tmp_path: Path, codec: str) -> None:
    content = garbled(compressed(PLAIN, codec))
    assert faults(tmp_path, content, deep=False) == []
    assert len(faults(tmp_path, content, deep=True)) == 1


@pytest.mark.parametrize("codec", sorted(CODECS))
def test_sound_records_are_no_fault(tmp_path: Path, codec: str) -> None:
    assert faults(tmp_path, compressed(PLAIN, codec), deep=True) == []


def test_records_with_offsets_that_their_batch_has_not_are_a_fault(tmp_path: Path) -> None:
    """Behind the last one, or one of them twice: a consumer would skip it, or have it twice."""
    (third,) = (at for at in range(61, len(PLAIN)) if PLAIN[at : at + 4] == b"\x04\x02k\x50")
    for delta in (b"\x06", b"\x02"):
        content = resealed(PLAIN[:third] + delta + PLAIN[third + 1 :])
        assert faults(tmp_path, content, deep=True) == [(0, "record")]


def test_records_that_are_not_compressed_are_opened_as_well(tmp_path: Path) -> None:
    assert faults(tmp_path, garbled(PLAIN), deep=True) == [(0, "record")]
