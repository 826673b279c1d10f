"""What ``fencepost migrate export-znodes`` wrote: the producer-id block that ZooKeeper held last.

Row         source "zookeeper", ``offset`` the zxid that wrote the znode, ``timestamp_ms`` when the export was
            taken. A fence in the block's place names the last block that it took the place of, of which only
            the end is known.
History     ZooKeeper keeps the current block alone: whatever was given out before it is unknown.
Faults      an export that cannot be read, or a znode that Kafka did not write, is a row of RECORD_FAULTS.
Source      bridge/export.py, bridge/znodes.py (the formats); docs/kafka-notes.md A5.
"""

import base64
import binascii
import json
from collections.abc import Iterator
from typing import Any, Final

import pyarrow as pa

from fencepost.audit.decode.batches import Where
from fencepost.audit.decode.files import LOCAL, Files
from fencepost.audit.decode.rows import Rows
from fencepost.records.invariant import CorruptData
from fencepost.records.types import PRODUCER_ID_MAX

EXPORT_BYTES_MAX: Final = 512 * 1024 * 1024  # as bridge/export.py bounds it
_BLOCK_PATH: Final = "/latest_producer_id_block"
_FORMAT: Final = "fencepost-znodes"
_INT64_MAX: Final = 2**63 - 1
_INT32_MAX: Final = 2**31 - 1


def decode_export(path: str, where: Where, *, files: Files = LOCAL) -> Iterator[tuple[str, pa.RecordBatch]]:
    """PRODUCER_ID_BLOCKS of an export, at most one row, or RECORD_FAULTS. Raises OSError."""
    blocks, faults = Rows("producer_id_blocks", where), Rows("record_faults", where)
    try:
        row = _block(_parse(path, files))
    except CorruptData as error:
        faults.add(0, -1, "record", str(error))
    else:
        if row is not None:
            blocks.add(0, "zookeeper", *row)
    yield from blocks.batches()
    yield from faults.batches()


def _parse(path: str, files: Files) -> dict[str, Any]:
    opened = files.open(path)
    try:
        if opened.size > EXPORT_BYTES_MAX:
            raise CorruptData(f"{opened.size} bytes, at most {EXPORT_BYTES_MAX} expected")
        document = _object(opened.read(0, opened.size).tobytes(), "the export")
    finally:
        opened.close()
    if document.get("format") != _FORMAT or document.get("version") != 1:
        said = f"{document.get('format')!r} version {document.get('version')!r}"
        raise CorruptData(f"expected {_FORMAT!r} version 1, found {said}"[:200])
    return document


def _object(raw: bytes, what: str) -> dict[str, Any]:
    try:
        document = json.loads(raw)
    except (ValueError, RecursionError) as error:
        raise CorruptData(f"{what} is not JSON: {error}") from error
    if not isinstance(document, dict):
        raise CorruptData(f"{what} is not a JSON object")
    return document


def _block(document: dict[str, Any]) -> tuple[int, int, int, int, None, int | None, int] | None:
    """Offset, leader epoch, time, broker, its epoch, first, end; None: no block was ever given out."""
    znodes = document.get("znodes")
    if not isinstance(znodes, dict):
        raise CorruptData("the export has no znodes")
    znode = znodes.get(_BLOCK_PATH)
    if znode is None:
        return None
    if not isinstance(znode, dict):
        raise CorruptData(f"{_BLOCK_PATH} is not an object")
    content = _content(znode)
    if not content:
        return None
    block = _object(content, _BLOCK_PATH)
    zxid = _number(znode, "modified_zxid", _INT64_MAX)
    taken_ms = _number(document, "taken_ms", _INT64_MAX)
    fence = block.get("fencepost")
    if isinstance(fence, dict):
        if "block_end" not in fence:
            return None
        last = _number(fence, "block_end", PRODUCER_ID_MAX - 1)
        return zxid, -1, taken_ms, -1, None, None, last + 1
    first = _number(block, "block_start", PRODUCER_ID_MAX)
    last = _number(block, "block_end", PRODUCER_ID_MAX - 1)
    if last < first:
        raise CorruptData(f"{_BLOCK_PATH}: block_end {last} before block_start {first}")
    return zxid, -1, taken_ms, _number(block, "broker", _INT32_MAX, lowest=-1), None, first, last + 1


def _content(znode: dict[str, Any]) -> bytes | None:
    text, encoding = znode.get("data"), znode.get("encoding")
    if text is None:
        return None
    if not isinstance(text, str) or encoding not in {"utf-8", "base64"}:
        raise CorruptData(f"{_BLOCK_PATH}: expected text in utf-8 or base64, found {encoding!r}"[:200])
    try:
        return text.encode() if encoding == "utf-8" else base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError) as error:
        raise CorruptData(f"{_BLOCK_PATH}: {error}") from error


def _number(fields: dict[str, Any], name: str, highest: int, *, lowest: int = 0) -> int:
    """A number, or one in a string, as Kafka writes its longs."""
    value = fields.get(name)
    if isinstance(value, str) and value.isascii() and value.isdigit() and len(value) <= 19:
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, int) or not lowest <= value <= highest:
        raise CorruptData(f"{name} is {value!r}, expected {lowest} to {highest}"[:200])
    return value
