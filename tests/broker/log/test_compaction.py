"""What a cleaner keeps of a compacted log's batches, against a plain model of keys and transactions."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fencepost.broker.log.compaction import (
    KEY_BYTES_MAX,
    NOTHING,
    AbortedRanges,
    Compaction,
    LastOffsets,
)
from fencepost.broker.log.producer_state import Ended, Producer, ProducerStates
from fencepost.records.batch import (
    BatchHeader,
    batch_header,
    checked_header,
    decode_batch,
    decode_records,
    stamp,
)
from fencepost.records.batch_builder import BatchBuilder
from fencepost.records.batch_layout import HEADER_BYTES
from fencepost.records.compression import GZIP, LZ4, NONE, SNAPPY, ZSTD
from fencepost.records.end_marker import EndMarker, encode_end_marker, end_marker
from fencepost.records.filtered import opened
from fencepost.records.types import ImageVersion, Offset, ProducerId, Term
from tests.broker.log.builders import NOW_MS, patched
from tests.examples import examples

DAY_MS = 86_400_000
Read = tuple[int, bytes, bytes | None]  # offset, key, value


@dataclass
class Log:
    """Batches as they would lie in a log, with the states of their producers."""

    batches: list[bytes] = field(default_factory=list)
    states: ProducerStates = field(default_factory=ProducerStates)
    ended: list[Ended] = field(default_factory=list)
    end: Offset = Offset(0)
    version: int = 0

    def put(
        self, producer: int, keys: Sequence[tuple[bytes, bytes | None]], codec: int, transactional: bool
    ) -> None:
        """Append a batch."""
        builder = BatchBuilder()
        for number, (key, value) in enumerate(keys):
            builder.append(key, value, ((b"h", b"1"),) if number % 3 == 1 else (), NOW_MS - 5 + 3 * number)
        state = self.states.table.get(ProducerId(producer), Producer())
        raw = builder.build(
            builder.body(codec), codec=codec, producer_id=producer, producer_epoch=max(state.epoch, 0),
            base_sequence=state.last_sequence + 1, transactional=transactional,
        )  # fmt: skip
        self._add(stamp(raw, self.end, Term(0)))

    def mark(self, producer: int, committed: bool, bumps: bool) -> None:
        """Append a marker."""
        self.version += 1
        state = self.states.table.get(ProducerId(producer), Producer())
        marker = EndMarker(
            producer_id=ProducerId(producer), producer_epoch=max(state.epoch, 0) + bumps,
            committed=committed, coordinator_epoch=1, version=ImageVersion(self.version),
        )  # fmt: skip
        raw = encode_end_marker(marker, base_offset=self.end, leader_epoch=Term(0), now_ms=NOW_MS)
        self._add(raw, marker)

    def _add(self, raw: bytes, marker: EndMarker | None = None) -> None:
        header = batch_header(raw)
        self.batches.append(raw)
        if marker is None:
            self.states.take(header, self.end, NOW_MS)
        else:
            ended = self.states.take_marker(marker, self.end, NOW_MS, NOW_MS)
            if ended is not None and not marker.committed:
                self.ended.append(ended)
        self.end = header.end

    def settle(self) -> None:
        """End every open transaction."""
        for producer_id, state in tuple(self.states.table.items()):
            if state.transaction_first >= 0:
                self.mark(producer_id, committed=producer_id % 2 == 0, bumps=False)


def play(history: list[tuple[Any, ...]]) -> Log:
    """The log of a history; a producer writes plain batches or transactions, never mixed."""
    log = Log()
    for step in history:
        if step[0] == "data":
            _, producer, keys, codec, transactional = step
            state = log.states.table.get(ProducerId(producer))
            is_open = state is not None and state.transaction_first >= 0
            log.put(producer, keys, codec, transactional or is_open)
        else:
            log.mark(*step[1:])
    log.settle()
    return log


keys = st.sampled_from([b"a", b"b", b"c", b"k" * KEY_BYTES_MAX, b"k" * (KEY_BYTES_MAX + 1)])
values = st.sampled_from([b"", b"1", b"two", None, b"v" * 200])
history = st.lists(
    st.one_of(
        st.tuples(
            st.just("data"), st.integers(0, 3), st.lists(st.tuples(keys, values), min_size=1, max_size=4),
            st.sampled_from([NONE, NONE, GZIP, SNAPPY, LZ4, ZSTD]), st.booleans(),
        ),
        st.tuples(st.just("marker"), st.integers(0, 3), st.booleans(), st.booleans()),
    ),
    min_size=1, max_size=25,
)  # fmt: skip


def read(batches: Sequence[bytes], ended: Sequence[Ended], *, committed: bool) -> list[Read]:
    """What a consumer reads."""
    aborted = AbortedRanges(ended)
    found: list[Read] = []
    for raw in batches:
        header = checked_header(raw)
        is_aborted = header.is_transactional and aborted.holds(header.producer_id, header.base_offset)
        if header.is_control or (committed and is_aborted):
            continue
        body = opened(raw, header)
        for record in decode_records(
            body, 0, header.record_count, header.base_offset, header.base_timestamp_ms
        ):
            assert record.key is not None
            found.append((record.offset, record.key, record.value))
    return found


def last_values(records: Sequence[Read]) -> dict[bytes, bytes | None]:
    """The last value of each key, tombstones left out."""
    last = {key: value for _, key, value in records}
    return {key: value for key, value in last.items() if value is not None}


def cleaned(
    log: Log, batches: Sequence[bytes], ended: Sequence[Ended], *, now_ms: int, end: Offset, dirty: int = 0,
    keys_max: int | None = None, retention_ms: int = DAY_MS,
) -> tuple[list[bytes], list[Ended]]:  # fmt: skip
    """One pass over batches below ``end``; those above stay."""
    aborted = AbortedRanges(ended)
    last = LastOffsets(aborted, Offset(dirty))
    if keys_max is not None:
        last._keys_max = keys_max
    below = [raw for raw in batches if batch_header(raw).end <= end]
    all(last.take(raw, checked_header(raw)) for raw in below)
    compaction = Compaction(last, aborted, log.states.table, now_ms, retention_ms)
    kept = []
    for raw in below:
        left = compaction.clean(raw, checked_header(raw))
        if left == NOTHING and raw is below[-1]:
            left = compaction.end_of_group(raw, checked_header(raw))
        if left != NOTHING:
            kept.append(left)
    above = [each for each in ended if each.last_offset >= end]
    return kept + [raw for raw in batches if batch_header(raw).end > end], compaction.kept_aborted + above


def rebuilt(batches: Sequence[bytes]) -> ProducerStates:
    """The producers that a recovery makes of batches alone."""
    states = ProducerStates()
    for raw in batches:
        header = checked_header(raw)
        if not header.is_control:
            states.take(header, header.base_offset, NOW_MS)
        elif (marker := end_marker(decode_batch(raw)[0])) is not None:
            states.take_marker(marker, header.base_offset, NOW_MS, NOW_MS)
    return states


def known(states: ProducerStates) -> dict[int, tuple[object, ...]]:
    """Of each producer what must survive: epoch, last sequence and offset, open transaction, last marker."""
    return {
        producer_id: (
            state.epoch, state.last_sequence, state.batches[-1].last_offset if state.batches else None,
            state.transaction_first, state.marker_version,
        )
        for producer_id, state in states.table.items()
    }  # fmt: skip


@settings(max_examples=examples(300))
@given(history, st.data())
def test_passes_change_nothing_that_a_reader_or_a_producer_relies_on(
    steps: list[tuple[Any, ...]], data: st.DataObject
) -> None:
    log = play(steps)
    ends = [batch_header(raw).end for raw in log.batches]
    batches, ended = list(log.batches), list(log.ended)
    before = last_values(read(log.batches, log.ended, committed=True))
    newest = {key: offset for offset, key, _ in read(log.batches, log.ended, committed=True)}
    now_ms, end = NOW_MS, Offset(0)
    for _ in range(data.draw(st.integers(1, 4), label="passes")):
        now_ms += data.draw(st.sampled_from([1, DAY_MS - 2, DAY_MS, DAY_MS + 1]), label="later")
        dirty, end = end, data.draw(st.sampled_from([each for each in ends if each >= end]), label="end")
        batches, ended = cleaned(log, batches, ended, now_ms=now_ms, end=end, dirty=dirty)
        committed = read(batches, ended, committed=True)
        assert last_values(committed) == before
        below = [each for each in read(batches, ended, committed=False) if each[0] < end]
        assert all(offset == newest[key] for offset, key, _ in below if newest[key] < end)
        assert len({key for _, key, _ in below}) == len(below), "one record of each key"
        assert known(rebuilt(batches)) == known(log.states)
        headers = [batch_header(raw) for raw in batches]
        assert all(one.end <= other.base_offset for one, other in pairwise(headers))
        assert any(header.end == end for header in headers), "where it ends is still known"


@settings(max_examples=examples(100))
@given(history)
def test_after_two_retentions_only_values_and_what_producers_need_is_left(
    steps: list[tuple[Any, ...]],
) -> None:
    log = play(steps)
    batches, ended = list(log.batches), list(log.ended)
    for days in range(1, 8):  # values and batches go, then markers get a horizon, then they go
        now_ms = NOW_MS + 2 * days * DAY_MS
        batches, ended = cleaned(log, batches, ended, now_ms=now_ms, end=log.end)
    values = last_values(read(log.batches, log.ended, committed=True))
    assert len(read(batches, ended, committed=False)) == len(values)
    headers = [checked_header(raw) for raw in batches]
    empty = [header for header in headers if not header.record_count]
    assert len(empty) <= len(log.states.table) + 1
    alone = {each: state.epoch for each, state in log.states.table.items() if not state.batches}
    markers = [
        each for each in headers if each.is_control and alone.get(each.producer_id) != each.producer_epoch
    ]
    assert len(markers) <= 2 * len(log.states.table) + len(values) + 1
    assert {each.producer_id for each in ended} <= {header.producer_id for header in empty}


def test_a_tombstone_stays_for_its_retention_and_says_when_it_may_go() -> None:
    log = Log()
    log.put(1, [(b"a", b"1")], NONE, transactional=False)
    log.put(1, [(b"a", None), (b"b", b"2")], NONE, transactional=False)
    log.put(1, [(b"c", b"3")], NONE, transactional=False)
    first, _ = cleaned(log, log.batches, (), now_ms=NOW_MS, end=log.end)
    header = checked_header(first[0])
    assert header.delete_horizon_ms == NOW_MS + DAY_MS
    assert header.base_offset == 1, "what it hides is gone at once"
    times = [each.timestamp_ms for each in decoded(first[0], header)]
    assert times == [NOW_MS - 5, NOW_MS - 2], "times are what they were"
    early, _ = cleaned(log, first, (), now_ms=NOW_MS + DAY_MS - 1, end=log.end)
    assert early == first
    late, _ = cleaned(log, first, (), now_ms=NOW_MS + DAY_MS, end=log.end)
    assert [each[1] for each in read(late, (), committed=False)] == [b"b", b"c"]


def test_a_marker_stays_until_its_data_is_gone_and_for_a_retention_then() -> None:
    log = Log()
    log.put(0, [(b"a", b"1")], NONE, transactional=True)
    log.mark(0, committed=True, bumps=False)
    log.put(0, [(b"a", b"2")], NONE, transactional=True)
    log.mark(0, committed=True, bumps=False)
    for later, markers, horizon in (
        (0, [1, 3], None),  # the data goes in this pass
        (10 * DAY_MS, [1, 3], NOW_MS + 11 * DAY_MS),
        (11 * DAY_MS - 1, [1, 3], NOW_MS + 11 * DAY_MS),
        (11 * DAY_MS, [3], None),
    ):
        log.batches, _ = cleaned(log, log.batches, (), now_ms=NOW_MS + later, end=log.end)
        found = [header for header in map(checked_header, log.batches) if header.is_control]
        assert [each.base_offset for each in found] == markers
        assert found[0].delete_horizon_ms == horizon


def test_what_does_not_fit_into_the_memory_is_left_to_the_next_pass() -> None:
    log = Log()
    for number in range(6):
        log.put(1, [(b"k%d" % (number % 3), b"%d" % number), (b"same", b"x")], NONE, transactional=False)
    first, _ = cleaned(log, log.batches, (), now_ms=NOW_MS, end=log.end, keys_max=4)
    assert [each[0] for each in read(first, (), committed=False)] == [0, *range(2, 12)]


@pytest.mark.parametrize("base_ms", [-(2**63), -1, 2**63 - 1], ids=str)
def test_a_tombstone_of_an_absurd_time_does_not_stop_a_cleaner(base_ms: int) -> None:
    log = Log()
    log.put(1, [(b"a", None), (b"b", b"1")], NONE, transactional=False)
    raw = log.batches[0]
    log.batches = [patched(raw, 27, base_ms.to_bytes(8, "big", signed=True))]
    (left,), _ = cleaned(log, log.batches, (), now_ms=NOW_MS, end=log.end)
    assert checked_header(left).record_count == 2


def decoded(raw: bytes, header: BatchHeader) -> Sequence[Any]:
    """The records of a batch without compression."""
    return decode_records(
        raw, HEADER_BYTES, header.record_count, header.base_offset, header.base_timestamp_ms
    )
