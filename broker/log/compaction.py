"""What a cleaner keeps of each batch of a compacted log: the last value of each key, and what that needs.

First       ``LastOffsets`` takes the batches that are dirty: of each key the offset of its last record.
Then        ``Compaction.clean`` takes every batch from the log's start on, in order.
Records     with a key that has a later record go; so do those without one, and those of aborted transactions.
Tombstones  (no value) stay until their batch's delete horizon: ``delete_retention_ms`` after the pass that
            found them to be the last of their key.
Markers     stay as long as a batch of their transaction is there; then they get a horizon, too.
Producers   the last batch of each that is known stays, if need be without records, for its sequence; so does
            its last marker, for its epoch and version.
End         of what is cleaned together stays known: its last batch stays, if need be without records.
Bounds      no transaction of what is cleaned is open: it lies below the last stable offset.
Kafka       keeps an empty control batch for a producer's epoch; its own loader passes over it. Here the
            marker stays whole. Only tombstones that the pass has mapped get a horizon: older values go then.
Source      Kafka LogCleaner, Cleaner, CleanedTransactionMetadata; KIP-534; docs/kafka-notes.md C6.
"""

from bisect import bisect_left
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Final

from fencepost.broker.log.producer_state import Ended, Producer
from fencepost.broker.log.validation import RECORDS_MAX
from fencepost.records.batch import BatchHeader, decode_batch
from fencepost.records.end_marker import NO_VERSION, EndMarker, end_marker
from fencepost.records.filtered import Keyed, empty_batch, filtered_batch, keyed_records, opened
from fencepost.records.types import Offset, ProducerId

KEYS_MAX: Final = 500_000
"""Known at once, some 100 MB: a pass ends at the batch whose keys do not fit, the next one goes on there."""

KEY_BYTES_MAX: Final = 32  # a longer key is known by its SHA-256

NOTHING: Final = b""


class AbortedRanges:
    """Which offsets of which producers were aborted."""

    def __init__(self, ended: Iterable[Ended]) -> None:
        """``ended``: the aborted transactions, in the order of their markers."""
        self._by_producer: dict[ProducerId, list[Ended]] = {}
        for each in ended:
            self._by_producer.setdefault(each.producer_id, []).append(each)

    def holds(self, producer_id: ProducerId, offset: Offset) -> bool:
        """A transactional batch of the producer at ``offset`` is of an aborted transaction."""
        found = self._after(producer_id, offset)
        return found is not None and found.first_offset <= offset

    def ended_by(self, producer_id: ProducerId, marker_offset: Offset) -> Ended | None:
        """The aborted transaction whose marker is there."""
        found = self._after(producer_id, marker_offset)
        return found if found is not None and found.last_offset == marker_offset else None

    def _after(self, producer_id: ProducerId, offset: Offset) -> Ended | None:
        """The first of the producer's that ends at or after ``offset``."""
        known = self._by_producer.get(producer_id)
        if known is None:
            return None
        number = bisect_left(known, offset, key=lambda each: each.last_offset)
        return known[number] if number < len(known) else None


class LastOffsets:
    """The offset of each key's last record among dirty batches, which are taken in order."""

    def __init__(self, aborted: AbortedRanges, first_dirty: Offset, keys_max: int = KEYS_MAX) -> None:
        self._aborted = aborted
        self._keys_max = max(keys_max, RECORDS_MAX)  # the first batch always fits
        self._offsets: dict[bytes, int] = {}
        self.end = first_dirty  # every batch before it is known

    def __len__(self) -> int:
        return len(self._offsets)

    def take(self, batch: bytes, header: BatchHeader) -> bool:
        """Learn what a batch says, whose CRC is right. False: there is no room for it; take no more.

        Raises   CorruptData.
        """
        if header.end <= self.end:
            return True
        if not (header.is_control or _is_aborted(header, self._aborted)):
            if len(self._offsets) + header.record_count > self._keys_max:
                return False
            base, offsets = header.base_offset, self._offsets
            for _, _, delta, _, key, _ in keyed_records(opened(batch, header), header.record_count):
                if key is not None:
                    offsets[key if len(key) <= KEY_BYTES_MAX else sha256(key).digest()] = base + delta
        self.end = header.end
        return True

    def is_last(self, key: bytes, offset: int) -> bool:
        """No known record of the key is later."""
        return offset >= self._offsets.get(key if len(key) <= KEY_BYTES_MAX else sha256(key).digest(), offset)


@dataclass(slots=True)
class Compaction:
    """One pass over a log. ``producers``: those of its owner, as they are now."""

    last: LastOffsets
    aborted: AbortedRanges
    producers: Mapping[ProducerId, Producer]
    now_ms: int
    delete_retention_ms: int
    kept_aborted: list[Ended] = field(default_factory=list)  # of markers that stay; taken by the caller
    _seen: set[ProducerId] = field(default_factory=set)  # whose transaction has a batch before this offset

    def clean(self, batch: bytes, header: BatchHeader) -> bytes:
        """What stays of the next batch, whose CRC is right: NOTHING, the same bytes, or others.

        Raises   CorruptData.
        """
        if header.is_control:
            return self._clean_marker(batch, header)
        if header.is_transactional:
            self._seen.add(header.producer_id)
        if header.end > self.last.end:
            return batch
        kept: list[Keyed] = []
        body = NOTHING
        if header.record_count and not _is_aborted(header, self.aborted):
            body = opened(batch, header)
            kept = self._kept(header, body)
        if kept:
            has_tombstones = not all(has_value for _, _, _, _, _, has_value in kept)
            horizon_ms = self.now_ms + self.delete_retention_ms if has_tombstones else None
            if len(kept) == header.record_count and (
                horizon_ms is None or header.delete_horizon_ms is not None
            ):
                return batch
            return filtered_batch(header, body, kept, horizon_ms)
        if not self._is_last_of_producer(header):
            return NOTHING
        return batch if not header.record_count else empty_batch(header)

    def end_of_group(self, batch: bytes, header: BatchHeader) -> bytes:
        """What stays of the last batch of what is cleaned together, of which ``clean`` keeps nothing."""
        return batch if header.is_control or not header.record_count else empty_batch(header)

    def _kept(self, header: BatchHeader, body: bytes) -> list[Keyed]:
        horizon_ms = header.delete_horizon_ms
        drops_tombstones = horizon_ms is not None and horizon_ms <= self.now_ms
        base, is_last = header.base_offset, self.last.is_last
        return [
            record
            for record in keyed_records(body, header.record_count)
            if record[4] is not None
            and (record[5] or not drops_tombstones)
            and is_last(record[4], base + record[2])
        ]

    def _clean_marker(self, batch: bytes, header: BatchHeader) -> bytes:
        marker = end_marker(decode_batch(batch)[0]) if header.record_count else None
        if marker is None:  # another control record than ours, or an empty one, as Kafka's cleaner leaves it
            return batch
        if header.producer_id in self._seen:
            self._seen.remove(header.producer_id)
            ended = (
                None if marker.committed else self.aborted.ended_by(header.producer_id, header.base_offset)
            )
            if ended is not None:
                self.kept_aborted.append(ended)
            return batch
        if header.end > self.last.end:
            return batch
        if header.delete_horizon_ms is None:
            body = opened(batch, header)
            kept = keyed_records(body, header.record_count)
            return filtered_batch(header, body, kept, self.now_ms + self.delete_retention_ms)
        if header.delete_horizon_ms > self.now_ms or self._is_last_marker(marker):
            return batch
        return NOTHING

    def _is_last_of_producer(self, header: BatchHeader) -> bool:
        state = self.producers.get(header.producer_id)
        if state is None or not state.batches:
            return False
        return state.batches[-1].last_offset == header.end - 1

    def _is_last_marker(self, marker: EndMarker) -> bool:
        """The producer's epoch, or the version of its last marker, is known from it alone."""
        state = self.producers.get(marker.producer_id)
        if state is None:
            return False
        if marker.version != NO_VERSION and marker.version == state.marker_version:
            return True
        return not state.batches and marker.producer_epoch == state.epoch


def _is_aborted(header: BatchHeader, aborted: AbortedRanges) -> bool:
    return header.is_transactional and aborted.holds(header.producer_id, header.base_offset)
