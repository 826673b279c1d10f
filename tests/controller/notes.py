"""Records of ``__consumer_offsets`` for tests of the log itself: notes, plain or of a transaction.

What they do to the image is what offsets do, in short: a plain one counts at once; one of a producer counts
from its COMMIT on, unless a later one took its place; a tombstone takes every one of that name away.
"""

import struct
from collections.abc import Iterator
from contextlib import contextmanager

import msgspec

from fencepost.controller.replay import REPLAY_AT
from fencepost.controller.view import MutableView, Table, decode_int_key, encode_int_key
from fencepost.records.end_marker import EndMarker
from fencepost.records.group_log import DECODERS, ENCODERS
from fencepost.records.types import Log, Offset, ProducerId
from fencepost.snapshots.rows import TABLES
from tests.controller.own_log import guarded

KEY_TYPE = 9_999
_PREFIX = struct.Struct(">h").pack(KEY_TYPE)


class Note(msgspec.Struct, frozen=True):
    """``text`` None: a tombstone."""

    name: str
    text: str | None
    producer_id: ProducerId = ProducerId(-1)
    producer_epoch: int = -1


def _encode_pending(key: tuple[int, str]) -> bytes:
    return encode_int_key(key[0]) + key[1].encode()


def _decode_pending(key: bytes) -> tuple[int, str]:
    return decode_int_key(key[:8]), key[8:].decode()


NOTES: Table[str, tuple[str, int]] = Table(
    "test_notes", tuple[str, int], str.encode, bytes.decode, log=Log.CONSUMER_OFFSETS
)
"""The text and the record's offset, by name."""
PENDING: Table[tuple[int, str], tuple[str, int]] = Table(
    "test_pending_notes", tuple[str, int], _encode_pending, _decode_pending, log=Log.CONSUMER_OFFSETS
)
"""The same, by producer id and name."""


def encode_note(note: Note) -> tuple[bytes, bytes | None]:
    return _PREFIX + note.name.encode(), None if note.text is None else note.text.encode()


def decode_note(key: bytes, value: bytes | None, producer_id: ProducerId, producer_epoch: int) -> Note:
    text = None if value is None else value.decode()
    return Note(key[len(_PREFIX) :].decode(), text, producer_id, producer_epoch)


def replay_note(view: MutableView, note: Note, offset: Offset) -> None:
    if note.text is None:
        view.delete(NOTES, note.name)
        for key, _ in list(view.items(PENDING)):
            if key[1] == note.name:
                view.delete(PENDING, key)
    elif note.producer_id < 0:
        view.put(NOTES, note.name, (note.text, offset))
    else:
        view.put(PENDING, (note.producer_id, note.name), (note.text, offset))


def replay_marker(view: MutableView, marker: EndMarker, offset: Offset) -> None:
    for key, (text, written_at) in list(view.items(PENDING)):
        if key[0] != marker.producer_id:
            continue
        view.delete(PENDING, key)
        there = view.get(NOTES, key[1])
        if marker.committed and (there is None or there[1] < written_at):
            view.put(NOTES, key[1], (text, written_at))


@contextmanager
def known() -> Iterator[None]:
    """Notes can be written, read and replayed meanwhile."""
    before = REPLAY_AT[EndMarker]
    ENCODERS[Note], DECODERS[KEY_TYPE] = encode_note, decode_note  # type: ignore[assignment]
    TABLES.update({table.name: table for table in (NOTES, PENDING)})

    def replay_marker_too(view: MutableView, marker: EndMarker, offset: Offset) -> None:
        before(view, marker, offset)
        replay_marker(view, marker, offset)

    REPLAY_AT[Note] = guarded(Log.CONSUMER_OFFSETS, replay_note)
    REPLAY_AT[EndMarker] = guarded(Log.CONSUMER_OFFSETS, replay_marker_too)
    try:
        yield
    finally:
        del ENCODERS[Note], DECODERS[KEY_TYPE], REPLAY_AT[Note]
        REPLAY_AT[EndMarker] = before
        del TABLES[NOTES.name], TABLES[PENDING.name]


def marker(producer_id: int, producer_epoch: int = 0, *, committed: bool = True, epoch: int = 1) -> EndMarker:
    return EndMarker(
        producer_id=ProducerId(producer_id),
        producer_epoch=producer_epoch,
        committed=committed,
        coordinator_epoch=epoch,
    )
