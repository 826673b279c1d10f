"""What voters say to each other: every message comes back, everything else is corrupt, whatever its bytes."""

import pickle
import random
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fencepost.quorum.messages import (
    CHUNK_BYTES_MAX,
    ENTRIES_MAX,
    NAME_MAX,
    REFUSED_MAX,
    Ack,
    AppendEntries,
    Behind,
    Message,
    NewerTerm,
    RequestVote,
    SnapshotAck,
    SnapshotBegin,
    SnapshotChunk,
    TimeoutNow,
    Vote,
    decode,
    encode,
)
from fencepost.records.batch import BatchRecord, encode_batch
from fencepost.records.entry import ENTRY_BYTES_MAX, Entry, encode_entry
from fencepost.records.invariant import CorruptData
from fencepost.records.types import ImageVersion, Log, NodeId, ProposalNumber, Term
from fencepost.snapshots.snapshot import MANIFEST_BYTES_MAX
from tests.together import table

terms = st.integers(0, 2**31 - 1)
indexes = st.integers(1, 2**62)


def whole_entry(value: bytes) -> bytes:
    """An entry with one batch of one record."""
    batch = encode_batch([BatchRecord(None, value)], timestamp_ms=1_763_600_000_000)
    entry = Entry(ImageVersion(5), Term(2), NodeId(1), ProposalNumber(9), ((Log.METADATA, batch),))
    return encode_entry(entry)


def entry_of_groups() -> bytes:
    """An entry with two batches of the log of groups, behind one of metadata."""
    batch = encode_batch([BatchRecord(None, b"x")], timestamp_ms=1_763_600_000_000)
    logs = (Log.METADATA, Log.CONSUMER_OFFSETS, Log.CONSUMER_OFFSETS)
    batches = tuple((log, batch) for log in logs)
    return encode_entry(Entry(ImageVersion(5), Term(2), NodeId(1), ProposalNumber(9), batches))


def entry_of(size: int) -> bytes:
    """An entry of so many bytes."""
    around = len(whole_entry(bytes(size - 200))) - (size - 200)
    entry = whole_entry(bytes(size - around))
    assert len(entry) == size
    return entry


def flipped(entry: bytes) -> bytes:
    """The entry with one bit of its last byte changed, which is under the batch's CRC."""
    return entry[:-1] + bytes([entry[-1] ^ 1])


@st.composite
def appends(draw: st.DrawFn) -> AppendEntries:
    """Consecutive indexes, terms that never go back."""
    prev_index = draw(indexes)
    steps = draw(st.lists(st.integers(0, 3), max_size=5))
    prev_term = draw(st.integers(0, 100))
    entries, term = [], prev_term
    for offset, step in enumerate(steps, start=1):
        term += step
        kind = draw(st.sampled_from([b"\x00", b"\x01"]))
        payload = (
            whole_entry(draw(st.binary(max_size=20))) if kind == b"\x00" else draw(st.binary(max_size=9))
        )
        entries.append((kind + payload, prev_index + offset, term))
    return AppendEntries(
        term + draw(st.integers(0, 9)), draw(st.integers(0, 9)), prev_index, prev_term, entries
    )


names = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
messages: st.SearchStrategy[Message] = st.one_of(
    appends(),
    st.builds(Behind, terms, indexes),
    st.builds(Ack, terms, indexes, st.booleans(), st.booleans()),
    st.builds(RequestVote, terms, indexes, terms),
    st.builds(Vote, terms),
    st.builds(TimeoutNow, terms),
    st.builds(NewerTerm, terms),
    st.builds(SnapshotBegin, terms, names, st.binary(max_size=50)),
    st.builds(SnapshotChunk, terms, names, names, st.integers(0, 2**40), st.binary(max_size=50)),
    st.builds(SnapshotAck, terms, names, names, st.integers(0, 2**40), names, st.booleans()),
)


@given(messages)
def test_every_message_comes_back(message: Message) -> None:
    assert decode(encode(message)) == message


def packed(*fields: Any) -> bytes:
    return msgspec.msgpack.encode(fields)


def append(*entries: tuple[bytes, int, int], term: int = 3, prev: tuple[int, int] = (5, 2)) -> bytes:
    return packed(1, term, 0, *prev, list(entries))


CORRUPT = [
    pytest.param(b"", "not a Raft message", id="nothing"),
    pytest.param(pickle.dumps({"type": "append_entries"}), "not a Raft message", id="a-pickle"),
    pytest.param(packed(99, 1), "not a Raft message", id="an-unknown-kind"),
    pytest.param(packed(5, "one"), "not a Raft message", id="a-term-in-letters"),
    pytest.param(packed(5), "not a Raft message", id="a-field-missing"),
    pytest.param(b"\x91" * 5000, "not a Raft message", id="deep-nesting"),
    pytest.param(packed(5, -1), "out of bounds", id="a-negative-term"),
    pytest.param(packed(5, 2**31), "out of bounds", id="a-term-that-is-no-leader-epoch"),
    pytest.param(packed(5, 2**63), "out of bounds", id="a-term-of-63-bits"),
    pytest.param(append((b"\x00", 7, 2)), "entry (7, term 2) after (5, term 2)", id="a-gap"),
    pytest.param(append((b"\x00", 5, 2)), "after (5, term 2)", id="an-index-twice"),
    pytest.param(append((b"\x00", 6, 1)), "entry (6, term 1)", id="a-term-that-goes-back"),
    pytest.param(append((b"\x00", 6, 4)), "of term 3", id="a-term-beyond-the-messages"),
    pytest.param(append((b"", 6, 2)), "of kind b''", id="no-kind"),
    pytest.param(append((b"\x02", 6, 2)), "of kind", id="H13-membership"),
    pytest.param(append((b"\x03", 6, 2)), "of kind", id="H13-code-version"),
    pytest.param(append(prev=(0, 0)), "prev index 0", id="before-the-first-index"),
    pytest.param(packed(1, 3, -1, 5, 2, []), "commit index -1", id="a-negative-commit-index"),
    pytest.param(
        append((b"\x00" * (ENTRY_BYTES_MAX + 2), 6, 2)), f"at most {ENTRY_BYTES_MAX}", id="an-entry-too-large"
    ),
    pytest.param(
        append(*((b"\x01", 6 + n, 2) for n in range(ENTRIES_MAX + 1))),
        f"at most {ENTRIES_MAX}",
        id="too-many",
    ),
    pytest.param(
        packed(9, 1, "n", "f", 0, b"x" * (CHUNK_BYTES_MAX + 1)),
        f"at most {CHUNK_BYTES_MAX}",
        id="a-long-chunk",
    ),
    pytest.param(append((b"\x00" + whole_entry(b"x")[:-1], 6, 2)), "entry 6 is damaged", id="a-cut-entry"),
    pytest.param(append((b"\x00" + whole_entry(b"x") + b"\0", 6, 2)), "after the last", id="a-longer-entry"),
    pytest.param(
        append((b"\x00" + flipped(whole_entry(b"x")), 6, 2)), "entry 6 is damaged: batch", id="a-crc"
    ),
    pytest.param(
        append((b"\x00" + flipped(entry_of_groups()), 6, 2)), "entry 6 is damaged: batch", id="a-later-crc"
    ),
    pytest.param(
        append((b"\x00" + entry_of_groups()[:-1], 6, 2)), "entry 6 is damaged", id="a-later-batch-cut"
    ),
    pytest.param(append(prev=(2**63, 0)), "prev index", id="a-prev-index-of-64-bits"),
    pytest.param(packed(1, 3, 2**63, 5, 2, []), "commit index", id="a-commit-index-of-64-bits"),
    pytest.param(packed(3, 1, -1, False, True), "not a Raft message", id="an-ack-before-the-log"),
    pytest.param(packed(3, 1, 2**63, False, True), "not a Raft message", id="an-ack-of-64-bits"),
    pytest.param(packed(4, 1, 2**63, 0), "not a Raft message", id="a-candidate-of-64-bits"),
    pytest.param(packed(8, 1, "n" * (NAME_MAX + 1), b""), "not a Raft message", id="a-long-name"),
    pytest.param(
        packed(8, 1, "n", bytes(MANIFEST_BYTES_MAX + 1)), "not a Raft message", id="a-long-manifest"
    ),
    pytest.param(packed(9, 1, "n", "f", -1, b""), "not a Raft message", id="a-chunk-before-the-file"),
    pytest.param(packed(10, 1, "n", "f", -1, "", False), "not a Raft message", id="an-ack-before-the-file"),
    pytest.param(packed(10, 1, "n", "f", 2**63, "", False), "not a Raft message", id="an-ack-past-all-files"),
    pytest.param(
        packed(10, 1, "n", "f", 0, "r" * (REFUSED_MAX + 1), False), "not a Raft message", id="a-long-reason"
    ),
]


@table(("frame", "reason"), CORRUPT)
def test_anything_else_is_corrupt(frame: bytes, reason: str) -> None:
    with pytest.raises(CorruptData) as refused:
        decode(frame)
    assert reason in str(refused.value)


def test_as_much_as_may_be() -> None:
    entries = [(b"\x01", 6 + n, 2) for n in range(ENTRIES_MAX)]
    full = AppendEntries(3, 0, 5, 2, entries)
    assert decode(encode(full)) == full
    large = AppendEntries(3, 0, 5, 2, [(b"\x00" + entry_of(ENTRY_BYTES_MAX), 6, 2)])
    assert decode(encode(large)) == large
    chunk = SnapshotChunk(1, "n" * NAME_MAX, "f" * NAME_MAX, 2**63 - 1, b"x" * CHUNK_BYTES_MAX)
    assert decode(encode(chunk)) == chunk
    begin = SnapshotBegin(1, "n", bytes(MANIFEST_BYTES_MAX))
    assert decode(encode(begin)) == begin
    ack = SnapshotAck(1, "n", "f", 0, "r" * REFUSED_MAX)
    assert decode(encode(ack)) == ack


def test_random_bytes_are_corrupt_or_a_message_and_nothing_else() -> None:
    """10,000 of them, and 10,000 messages with one byte changed."""
    rng = random.Random(20261120)
    whole = encode(AppendEntries(3, 2, 5, 2, [(b"\x00" + whole_entry(b"abc"), 6, 2), (b"\x01", 7, 3)]))
    for _ in range(10_000):
        changed = bytearray(whole)
        changed[rng.randrange(len(whole))] = rng.randrange(256)
        for frame in (rng.randbytes(rng.randrange(80)), bytes(changed)):
            try:
                decode(frame)
            except CorruptData:
                continue
