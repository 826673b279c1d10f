"""One log in its order: what each producer left between two markers, and what no producer can have written.

Turn        a producer's data up to the marker that ends it; the last one of a producer may be open. ``pairs``
            holds turns against what the coordinator decided.
Sequences   of a producer's epoch go on where the last batch ended; 0 follows 2^31 - 1. A new epoch begins at
            0, and so does a producer's first batch in a log that is kept from offset 0 on: such a gap has no
            ``since_offset``. A gap no longer than what is missing in the log is that hole's. Not of compacted
            logs, nor of __consumer_offsets.
Zombie      data of an epoch below one that its producer had before. One finding for a run.
Early       a commit marker without data, and then data of the epoch that it ended.
None        data without a producer id is in no transaction, whatever its transactional bit says. Data of a
            producer without an epoch is a finding of its own, and counts as of the producer's current epoch.
Memory      one small row for each producer id of a log.
"""

from typing import Any, Final

import numpy as np
import pyarrow as pa

from fencepost.audit.walks.columns import (
    FLAG_AFTER_END,
    FLAG_AFTER_UNREAD,
    FLAG_COMPACTED,
    FLAG_DISPLACED,
    FLAG_HOLE,
    FLAG_OPAQUE,
    FLAG_STALE,
    FLAG_UNCOMMITTED,
    LOG_RESULT,
    LOG_SOURCE,
)
from fencepost.audit.walks.control import (
    CONTROL,
    ENDS,
    ENDS_AS_IT_SAYS,
    TRANSACTIONAL,
    UNREADABLE,
    odd_control,
)
from fencepost.audit.walks.found import Found, batch_of, found, producer_name
from fencepost.audit.walks.producer import Producer, signed
from fencepost.audit.walks.turns import Turns
from fencepost.audit.walks.walk import Batches, Walk, by_key

CONSUMER_OFFSETS: Final = "__consumer_offsets"
MARKER_BYTES_MAX: Final = 256
"""A marker is one record of a dozen bytes; ours has a header more. What is larger is none."""

_STAMPED_AT_APPEND: Final = 0x08
_ODD: Final = FLAG_OPAQUE | FLAG_HOLE | FLAG_DISPLACED
_LOOKED_AT: Final = _ODD | FLAG_AFTER_UNREAD
_READ: Final = (
    "base_offset", "last_offset", "attributes", "max_timestamp_ms", "producer_id", "producer_epoch",
    "base_sequence", "control_type", "coordinator_epoch", "flags", "size", "position", "node",
)  # fmt: skip


def run(batches: Batches) -> Batches:
    """LOG_RESULT of LOG_SOURCE."""
    for key, pieces in by_key(batches, LOG.keys):
        log = _Log(key)
        for piece in pieces:
            log.look(piece)
            yield from log.taken()
        log.end()
        yield from log.taken()


class _Log:
    """What is known of one log and its producers after the rows so far."""

    def __init__(self, key: tuple[Any, ...]) -> None:
        self._topic, self._partition = key
        self._producers: dict[int, Producer] = {}
        self._missing = 0  # offsets that no row has, or that a row has that is not counted
        self._holes = 0  # how often that was so
        self._opaque = 0  # how many rows may be markers that cannot be read
        self._server_ms = -1
        self._end = -1
        self._cut_at = -1  # the last offset behind what an election or a cleaner cut, or could not be read
        self._begins_at = -1  # a producer's first sequence; -1: any
        self._in_sequence = self._topic != CONSUMER_OFFSETS
        self._turns = Turns()
        self._found: list[Found] = []

    def look(self, rows: pa.RecordBatch) -> None:
        """The next rows of the log."""
        columns = {name: rows.column(name).fill_null(-1).to_numpy() for name in _READ}
        if self._end < 0 and int(columns["base_offset"][0]) == 0:
            self._begins_at = 0
        stamped = (columns["attributes"] & (CONTROL | _STAMPED_AT_APPEND)) != 0
        stamped &= (columns["flags"] & FLAG_OPAQUE) == 0
        times = np.where(stamped, columns["max_timestamp_ms"], -1)
        before = np.maximum.accumulate(np.concatenate(([self._server_ms], times)))
        self._server_ms = int(before[-1])
        # An opaque row holds no offset, and one that is displaced none of its place.
        flags = columns["flags"]
        ends = np.where((flags & FLAG_OPAQUE) != 0, columns["base_offset"], columns["last_offset"] + 1)
        ends = np.where((flags & FLAG_DISPLACED) != 0, -1, ends)
        after = np.maximum.accumulate(np.concatenate(([self._end], ends)))
        self._end = int(after[-1])
        chosen = np.flatnonzero((columns["producer_id"] >= 0) | ((flags & _LOOKED_AT) != 0))
        self._of_none(rows, columns)
        paths = rows.column("path").dictionary_encode()
        names = paths.dictionary.to_pylist()
        codes = paths.indices.to_numpy()[chosen].tolist()
        versions = rows.column("marker_version").take(pa.array(chosen)).to_pylist()
        said = (columns[name][chosen].tolist() for name in _READ)
        for row in zip(
            *said, codes, versions, before[:-1][chosen].tolist(), after[:-1][chosen].tolist(), strict=True
        ):
            self._row(row, names)

    def _row(self, row: tuple[Any, ...], names: list[str]) -> None:
        (base, last, attributes, time_ms, producer_id, epoch, sequence, kind, coordinator_epoch, flags, size,
         position, node, code, version, server_ms, due) = row  # fmt: skip
        if flags:
            self._flagged(flags, base, last, due, size <= MARKER_BYTES_MAX or producer_id < 0)
        if flags & FLAG_OPAQUE or producer_id < 0:
            return
        producer = self._producers.get(producer_id)
        if producer is None:
            producer = self._producers[producer_id] = Producer(producer_id, epoch, self._begins_at)
        place = (node, names[code], position)
        is_control = bool(attributes & CONTROL)
        odd = (
            odd_control(attributes, sequence, kind, size, flags, last - base + 1)
            if is_control or self._in_sequence
            else None
        )
        if odd is not None and not flags & FLAG_UNCOMMITTED:
            self._add("markers", *odd, producer, epoch, place, offset=base, end_offset=last + 1,
                      at_ms=time_ms, since_offset=producer.marker_offset)  # fmt: skip
        if (is_control or odd is not None) and (sequence < 0 or kind in ENDS):
            kind = UNREADABLE if odd is not None and odd[0] not in ENDS_AS_IT_SAYS else kind
            self._marker(producer, (epoch, base, time_ms, kind, coordinator_epoch, version, flags), place)
        elif 0 <= epoch < producer.epoch:
            self._stale(producer, (epoch, base, last, sequence, time_ms, flags), place)
        else:
            data = (base, last, epoch, time_ms, max(server_ms, -1), flags)
            self._data(producer, data, sequence, place, attributes & TRANSACTIONAL)

    def _flagged(self, flags: int, base: int, last: int, due: int, may_be_marker: bool) -> None:
        """What is missing before a row, or with it."""
        if flags & (_LOOKED_AT | FLAG_UNCOMMITTED):
            self._turns.next_opens(None)
        if flags & FLAG_HOLE and due >= 0:
            self._missing += base - due
            self._holes += 1
        if flags & FLAG_OPAQUE:
            self._opaque += may_be_marker
            return
        if flags & FLAG_DISPLACED:
            self._missing += last - base + 1
            self._holes += 1
        if flags & (FLAG_AFTER_UNREAD | FLAG_AFTER_END):
            self._cut_at = base
        if flags & FLAG_AFTER_UNREAD:
            self._begins_at = -1  # what is not there may be where a producer began

    def _of_none(self, rows: pa.RecordBatch, columns: dict[str, Any]) -> None:
        """Only a producer has transactions: no other data is marked as if it were in one."""
        attributes = columns["attributes"]
        odd = (columns["producer_id"] < 0) & (attributes >= 0) & ((attributes & TRANSACTIONAL) != 0)
        for at in np.flatnonzero(odd & ((columns["flags"] & (_ODD | FLAG_UNCOMMITTED)) == 0)).tolist():
            base, time_ms = int(columns["base_offset"][at]), int(columns["max_timestamp_ms"][at])
            self._found.append(
                found("ids", "no_producer", "it is marked as transactional, and has no producer id",
                      subject=f"offset {base}", topic=self._topic, partition=self._partition, offset=base,
                      end_offset=int(columns["last_offset"][at]) + 1, at_ms=time_ms,
                      node=rows.column("node")[at].as_py(), path=rows.column("path")[at].as_py(),
                      position=rows.column("position")[at].as_py())
            )  # fmt: skip

    def _data(
        self, producer: Producer, data: tuple[int, ...], sequence: int, place: tuple[Any, ...],
        transactional: int,
    ) -> None:  # fmt: skip
        base, last, epoch, time_ms, _, flags = data
        if epoch < 0 and not flags & FLAG_UNCOMMITTED:
            self._add("epochs", "none", "data of a producer without an epoch", producer, epoch, place,
                      offset=base, end_offset=last + 1, at_ms=time_ms)  # fmt: skip
        elif epoch > producer.epoch:
            self._begin(producer, epoch, sequence, base, flags)
        if self._in_sequence and not flags & (FLAG_COMPACTED if sequence >= 0 else FLAG_UNCOMMITTED):
            if epoch < 0 and sequence == 0:
                producer.expected = 0  # it may begin an epoch
            self._sequence(producer, (base, last, sequence, time_ms, flags), place)
        if transactional:
            self._turns.opens(producer.id, base)
        producer.add(data, place, transactional)

    def _begin(self, producer: Producer, epoch: int, sequence: int, base: int, flags: int) -> None:
        """Data of a higher epoch than its producer had."""
        if producer.is_of(epoch, sequence):
            producer.adopt(epoch)
            return
        is_known = bool(producer.batches) and not producer.is_assumed and not flags & FLAG_UNCOMMITTED
        if is_known and self._is_whole_since(producer):
            producer.late = base if producer.late is None else producer.late
        producer.begin(epoch)

    def _is_whole_since(self, producer: Producer) -> bool:
        """Whether nothing since its last marker may have been that of its data."""
        is_sound = self._opaque == producer.opaque and self._holes == producer.holes
        return is_sound and self._cut_at <= (-1 if producer.marker_offset is None else producer.marker_offset)

    def _sequence(self, producer: Producer, data: tuple[int, ...], place: tuple[Any, ...]) -> None:
        base, last, sequence, time_ms, flags = data
        if sequence < 0:
            self._add("sequences", "none", "data of a producer without a sequence", producer, producer.epoch,
                      place, offset=base, end_offset=last + 1, at_ms=time_ms)  # fmt: skip
            return
        count = last - base + 1
        expected = producer.expected
        if expected >= 0 and sequence != expected and not producer.follows(sequence, count):
            step = signed(sequence - producer.furthest)
            is_explained = 0 < step <= self._missing - producer.missing
            if not is_explained and not flags & FLAG_UNCOMMITTED:
                is_gap = step > 0 or producer.last_offset is None
                rule = "gap" if is_gap else "duplicate"
                meaning = "batches between them are missing" if is_gap else "it is there already"
                said = f"sequence {sequence}, expected {producer.furthest}: {meaning}"
                self._add("sequences", rule, said, producer, producer.epoch, place, offset=base,
                          end_offset=last + 1, since_offset=producer.last_offset, at_ms=time_ms)  # fmt: skip
        producer.wrote(sequence, count, last, self._missing)

    def _stale(self, producer: Producer, data: tuple[int, ...], place: tuple[Any, ...]) -> None:
        """Data of an epoch that was over."""
        epoch, base, last, sequence, time_ms, flags = data
        count = last - base + 1
        self._missing += count
        self._holes += 1
        if flags & FLAG_UNCOMMITTED:
            return
        run = producer.runs.get(epoch)
        if run is not None:
            run["batches"] += 1
            return
        is_early = producer.is_overtaken_by_its_marker(epoch, sequence)
        node, path, position = place
        producer.runs[epoch] = {
            "batches": 1, "is_early": is_early, "after": producer.epoch, "marker": producer.marker_offset,
            "node": node, "path": path, "position": position, "offset": base, "at_ms": time_ms,
            "since_offset": producer.marker_offset,
        }  # fmt: skip

    def _marker(self, producer: Producer, marker: tuple[Any, ...], place: tuple[Any, ...]) -> None:
        epoch, base, time_ms, kind, *_, flags = marker
        is_stale = epoch < producer.epoch
        known = not flags & FLAG_UNCOMMITTED
        if kind != UNREADABLE:
            self._coordinator(producer, marker, place, known=known)
        if producer.epoch < 0:
            producer.name_data(epoch)
        if is_stale and known:
            swapped = producer.is_exchanged(epoch)
            rule = ("markers", "exchanged") if swapped else ("epochs", "regressed")
            said = f"a marker of epoch {epoch}, after epoch {producer.epoch} was written on this partition"
            if swapped:
                said += f": it and the marker at offset {producer.marker_offset} have changed places"
                producer.runs.pop(epoch, None)
            self._add(*rule, said, producer, epoch, place, offset=base, at_ms=time_ms,
                      since_offset=producer.marker_offset)  # fmt: skip
        if is_stale:
            self._missing += 1
        flags = self._turn_flags(producer, flags) | (FLAG_STALE if is_stale else 0)
        self._turns.ended(producer, marker[:-1], place, flags, stale=is_stale)
        if not is_stale:
            producer.end_turn(epoch, base, kind, self._opaque, self._holes)

    def _coordinator(
        self, producer: Producer, marker: tuple[Any, ...], place: tuple[Any, ...], *, known: bool
    ) -> None:
        """A marker's coordinator epoch is not below that of the marker before; the odd one is named."""
        epoch, base, time_ms, _, coordinator_epoch, *_ = marker
        last, before = producer.coordinator_epoch, producer.coordinator_before
        goes_back = coordinator_epoch < last
        if known and (coordinator_epoch < 0 or goes_back):
            odd = {"epoch": epoch, "place": place, "offset": base, "at_ms": time_ms}
            less = "below 0" if coordinator_epoch < 0 else f"after {last}"
            said = f"a marker of coordinator epoch {coordinator_epoch}, {less}"
            if coordinator_epoch >= before > 0 and producer.marker:
                odd, said = producer.marker, f"a marker of coordinator epoch {last}, between {before} and"
                said += f" {coordinator_epoch}"
                producer.coordinator_epoch = coordinator_epoch
            self._add("epochs", "coordinator", said, producer, odd["epoch"], odd["place"],
                      offset=odd["offset"], at_ms=odd["at_ms"])  # fmt: skip
        else:
            producer.coordinator_before, producer.coordinator_epoch = last, coordinator_epoch
        producer.marker = {"epoch": epoch, "place": place, "offset": base, "at_ms": time_ms}

    def _turn_flags(self, producer: Producer, flags: int) -> int:
        flags = (flags | producer.flags) & (FLAG_UNCOMMITTED | FLAG_COMPACTED)
        if self._holes > producer.holes:
            flags |= FLAG_HOLE
        if self._opaque > producer.opaque:
            flags |= FLAG_OPAQUE
        return flags

    def end(self) -> None:
        """The log ends: what is open, and the runs of stale data."""
        self._turns.next_opens(self._end)
        for producer in self._producers.values():
            for epoch, run in producer.runs.items():
                self._run(producer, epoch, run)
            if producer.is_open:
                self._turns.left_open(producer, self._turn_flags(producer, 0))

    def _run(self, producer: Producer, epoch: int, run: dict[str, Any]) -> None:
        place = (run["node"], run["path"], run["position"])
        columns = {name: run[name] for name in ("offset", "at_ms", "since_offset")}
        many = f"{run['batches']} batches of epoch {epoch}, the first at offset {run['offset']}, after"
        if run["is_early"]:
            said = f"{many} the marker at offset {run['marker']} that ends them"
            self._add("markers", "early", said, producer, epoch, place, **columns)
        else:
            said = f"{many} epoch {run['after']} was written on this partition"
            self._add("fencing", "zombie", said, producer, epoch, place, **columns)

    def taken(self) -> Batches:
        """What was found since the last call, as rows."""
        yield from self._turns.taken(self._topic, self._partition)
        yield from batch_of(self._found, LOG_RESULT)
        self._found = []

    def _add(
        self, check: str, rule: str, detail: str, producer: Producer, epoch: int, place: tuple[Any, ...],
        **columns: Any,
    ) -> None:  # fmt: skip
        node, path, position = place
        self._found.append(
            found(check, rule, detail, subject=producer_name(producer.id, epoch), node=node, path=path,
                  position=position, topic=self._topic, partition=self._partition, producer_id=producer.id,
                  producer_epoch=epoch, **columns)
        )  # fmt: skip


LOG: Final = Walk("log", ("topic", "partition"), ("base_offset", "path", "position"),
                  LOG_SOURCE, LOG_RESULT, run)  # fmt: skip
