"""The aborted transactions of a partition, searched by the offsets that are read.

Index       ``.txnindex`` of the segment that holds a transaction's ABORT marker, in the order of the markers;
            both their offsets and the last stable offsets after them only grow.
Search      entries before the offsets read are passed by with a binary search for the marker, those after
            them with one for the last stable offset. What is between may still begin behind the offsets read,
            as long as one old transaction is open: for each BLOCK_ENTRIES the least first offset is kept in
            memory, so that such blocks are not read.
Narrowed    to the producers whose batches are in the bytes returned: a consumer wants no others, and a list
            is never longer than twice the batches.
Source      Kafka TransactionIndex.collectAbortedTxns, UnifiedLog.collectAbortedTransactions.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Final, TypeAlias

from fencepost.broker.log.index_file import ABORTED_ENTRY, IndexFile
from fencepost.broker.log.shapes import Aborted
from fencepost.records.batch_layout import HEADER_BYTES, LENGTH_COUNTS_FROM, fields_of
from fencepost.records.types import Offset, ProducerId

BLOCK_ENTRIES: Final = 256
UNNARROWED_MAX: Final = 64
"""Entries that are listed as they are: the batches are looked at only where more come into question."""

BATCHES_MAX: Final = 4096
"""Looked at to narrow a longer list, some 3 ms; what comes after them is left to the next fetch."""

Producers: TypeAlias = frozenset[int] | None
"""Whose transactions are looked for; None: everyone's."""

_FIRST, _LAST, _STABLE = 2, 3, 4  # fields of an entry
_PRODUCED: Final = fields_of("length", "producer_id")
_OFFSETS: Final = fields_of("base_offset", "last_offset_delta")


class AbortedIndex(IndexFile):
    """The index of aborted transactions of one segment."""

    __slots__ = ("_firsts",)

    def __init__(self, path: Path, open_file: Callable[[Path, int], int]) -> None:
        super().__init__(path, ABORTED_ENTRY, open_file)

    def refresh(self) -> None:
        """Implements ``IndexFile.refresh``. Reads all of it."""
        super().refresh()
        self._firsts: list[int] = []  # the least first offset of each block
        for number, entry in enumerate(self.entries()):
            self._take(number, entry[_FIRST])

    def append(self, *entry: int) -> None:
        """Implements ``IndexFile.append``."""
        super().append(*entry)
        self._take(self.count - 1, entry[_FIRST])

    def between_offsets(self, offset: Offset, upper: Offset) -> range:
        """The numbers of the entries among which those that touch [offset, upper) are."""
        return range(self.count_below(_LAST, offset), min(self.count_below(_STABLE, upper) + 1, self.count))

    def touching(self, offset: Offset, upper: Offset, producers: Producers) -> list[Aborted]:
        """The transactions of these producers with an offset in [offset, upper), in the markers' order."""
        numbers = self.between_offsets(offset, upper)
        found: list[Aborted] = []
        at = numbers.start
        while at < numbers.stop:
            block = at // BLOCK_ENTRIES
            end = min((block + 1) * BLOCK_ENTRIES, numbers.stop)
            if self._firsts[block] < upper:
                found += [
                    Aborted(ProducerId(producer_id), Offset(first))
                    for _, producer_id, first, _, _ in self.between(at, end)
                    if first < upper and (producers is None or producer_id in producers)
                ]
            at = end
        return found

    def is_complete(self, upper: Offset) -> bool:
        """No later segment has a transaction with an offset below ``upper``."""
        return self.last is not None and self.last[_STABLE] >= upper

    def _take(self, number: int, first: int) -> None:
        block = number // BLOCK_ENTRIES
        if block == len(self._firsts):
            self._firsts.append(first)
        elif first < self._firsts[block]:
            self._firsts[block] = first


def producers_of(records: bytes) -> tuple[bytes, Offset, frozenset[int]]:
    """The producers of whole batches, up to BATCHES_MAX: these, the offset after them, the producers."""
    producers: set[int] = set()
    position = last = 0
    for _ in range(BATCHES_MAX):
        if position + HEADER_BYTES > len(records):
            break
        length, producer_id = _PRODUCED.unpack_from(records, position)
        producers.add(producer_id)
        last = position
        position += length + LENGTH_COUNTS_FROM
    base_offset, delta = _OFFSETS.unpack_from(records, last)
    end = base_offset + delta + 1
    return records[:position], Offset(end), frozenset(producers)
