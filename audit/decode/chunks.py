"""A segment's batches by the thousand: their headers as columns, and whose checksum is right."""

import re
from collections.abc import Iterator
from pathlib import PurePath
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt
from numpy.lib.stride_tricks import sliding_window_view

from fencepost.audit.decode.checksums import checksums
from fencepost.audit.decode.files import Bytes, Files
from fencepost.audit.decode.walk import Bounds, Positions, Run, Stop, Unreadable, spans
from fencepost.records.batch_layout import CHECKED_AT, CONTROL, FIELDS, HEADER_BYTES, LENGTH_COUNTS_FROM

CHUNK_ROWS: Final = 65_536

HEADER: Final = np.dtype([(name, f">{code}") for name, code in FIELDS])
_NAME: Final = re.compile(r"(\d{20})\.log")


class Chunk(NamedTuple):
    """Batches one after another, at most ``CHUNK_ROWS``. The columns are of one length, a row a batch."""

    buffer: Bytes
    origin: int  # of ``buffer`` in the file
    positions: Positions  # in ``buffer``
    sizes: npt.NDArray[np.int64]
    headers: npt.NDArray[Any]  # of HEADER
    computed: npt.NDArray[np.uint32] | None  # checksums; None: not requested
    is_sound: npt.NDArray[np.bool_]

    @property
    def is_control(self) -> npt.NDArray[np.bool_]:
        """Which of them are control batches."""
        control: npt.NDArray[np.bool_] = (self.headers["attributes"] & CONTROL) != 0
        return control

    def content(self, row: int) -> bytes:
        """The bytes of one batch."""
        start = int(self.positions[row])
        return self.buffer[start : start + int(self.sizes[row])].tobytes()


def segment_base(path: str) -> int | None:
    """The offset that a segment's name says it begins with; None for another name."""
    matched = _NAME.fullmatch(PurePath(path).name)
    return int(matched[1]) if matched else None


def chunks(
    path: str, start: int, end: int | None, *, crc: bool, files: Files
) -> Iterator[Chunk | Unreadable]:
    """What begins in ``[start, end)`` of a file, in its order. Raises OSError."""
    opened = files.open(path)
    try:
        limit = opened.size if end is None else end
        for span in spans(opened, start, Bounds.of(segment_base(path))):
            if isinstance(span, Stop):
                return
            if isinstance(span, Run):
                yield from _chunks_of(span, limit, crc)
                reached = span.end
            else:
                if span.position < limit:
                    yield span._replace(size=min(span.size, limit - span.position))
                reached = span.position + span.size
            if reached >= limit:
                return
    finally:
        opened.close()


def _chunks_of(run: Run, limit: int, crc: bool) -> Iterator[Chunk]:
    within = run.positions[: np.searchsorted(run.positions, limit - run.origin)]
    for first in range(0, len(within), CHUNK_ROWS):
        positions = within[first : first + CHUNK_ROWS]
        headers = sliding_window_view(run.buffer, HEADER_BYTES)[positions].view(HEADER)[:, 0]
        sizes = headers["length"].astype(np.int64) + LENGTH_COUNTS_FROM
        if crc:
            computed = checksums(run.buffer, positions + CHECKED_AT, positions + sizes)
            is_sound = computed == headers["crc"]
        else:
            computed, is_sound = None, np.ones(len(positions), np.bool_)
        yield Chunk(run.buffer, run.origin, positions, sizes, headers, computed, is_sound)
