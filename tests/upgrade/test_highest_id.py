"""The highest producer id in Kafka's logs: what carries one, what is left out, what is refused."""

import struct
from collections.abc import Callable
from pathlib import Path

import pytest

from fencepost.cli.highest_id import highest_producer_id
from fencepost.records.batch import BatchRecord, encode_batch
from fencepost.records.invariant import CorruptData
from tests.together import table

OLD_MESSAGE = struct.pack(">qiIbb", 0, 14, 0, 1, 0) + b"\0" * 8


def batch(producer_id: int, key: bytes = b"k", value: bytes = b"v") -> bytes:
    return encode_batch([BatchRecord(key, value)], timestamp_ms=1, producer_id=producer_id)


def transaction(producer_id: int) -> bytes:
    """As __transaction_state holds it: the batch's own producer is nobody."""
    return batch(-1, b"\0\0\0\x02id", struct.pack(">hqh", 0, producer_id, 0))


def written(folder: Path, partition: str, *contents: bytes) -> list[Path]:
    paths = [folder / partition / f"{number:020}.log" for number in range(len(contents))]
    paths[0].parent.mkdir(parents=True)
    for path, content in zip(paths, contents, strict=True):
        path.write_bytes(content)
    return paths


@table(
    ("partition", "contents", "highest", "remarks"),
    [
        pytest.param("t-0", [batch(-1)], -1, 0, id="nobody"),
        pytest.param("t-0", [batch(7) + batch(9001) + batch(3)], 9001, 0, id="the-highest-of-several"),
        pytest.param("t-0", [b"", batch(4)], 4, 0, id="an-empty-segment"),
        pytest.param("t-0", [OLD_MESSAGE + batch(5)], 5, 0, id="old-messages-are-passed-over"),
        pytest.param(
            "__transaction_state-3", [transaction(77) + transaction(8)], 77, 0, id="a-transactions-id"
        ),
        pytest.param("t-0", [transaction(77)], -1, 0, id="a-value-that-looks-like-a-transaction"),
        pytest.param("t-0", [batch(6) + batch(9)[:-3]], 6, 1, id="a-torn-end"),
        pytest.param("t-0", [batch(6) + b"\0" * 4096], 6, 1, id="a-preallocated-end"),
    ],
)
def test_the_highest_id_is_found(
    tmp_path: Path, partition: str, contents: list[bytes], highest: int, remarks: int
) -> None:
    written(tmp_path, partition, *contents)
    seen = highest_producer_id([tmp_path], lambda _text: None)
    assert (seen.producer_id, len(seen.remarks), seen.files) == (highest, remarks, len(contents))


def flipped(raw: bytes) -> bytes:
    """One bit of the producer id."""
    return raw[:43] + bytes([raw[43] ^ 0x10]) + raw[44:]


@table(
    ("contents", "said"),
    [
        pytest.param([flipped(batch(7))], "CRC", id="a-flipped-bit-of-the-id"),
        pytest.param([batch(7)[:-3], batch(8)], "are there", id="torn-in-the-middle-of-the-log"),
        pytest.param([struct.pack(">qi", 0, -1) + b"\1" * 60], "bytes", id="an-absurd-length"),
    ],
)
def test_what_is_not_a_torn_end_is_refused_by_its_file(
    tmp_path: Path, contents: list[bytes], said: str
) -> None:
    paths = written(tmp_path, "t-0", *contents)
    with pytest.raises(CorruptData, match=said) as refused:
        highest_producer_id([tmp_path], lambda _text: None)
    assert str(paths[0]) in str(refused.value)


@pytest.mark.parametrize(
    "make", [pytest.param(Path.mkdir, id="empty"), pytest.param(lambda _path: None, id="missing")]
)
def test_a_folder_without_logs_is_an_error(tmp_path: Path, make: Callable[[Path], None]) -> None:
    make(tmp_path / "logs")
    with pytest.raises(FileNotFoundError, match="logs"):
        highest_producer_id([tmp_path / "logs"], lambda _text: None)
