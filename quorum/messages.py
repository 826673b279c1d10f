"""What one Raft node says to another: typed, bounded, no pickle.

Frames are msgpack, decoded against these types, so a frame of another shape is CorruptData and
closes that connection. Lengths are bounded by ``FRAME_BYTES_MAX`` before a byte is decoded.

Versions   a field is added at the end and has a default: an earlier version ignores what it does not know,
           and what it leaves out reads as the default. A message of a new tag would close its connection.
"""

import uuid
from typing import Annotated, Final, TypeAlias

import msgspec

from fencepost.records.batch import checked_header
from fencepost.records.entry import ENTRY_BYTES_MAX, decode_entry
from fencepost.records.invariant import CorruptData
from fencepost.records.levels import LevelTooHigh
from fencepost.snapshots.digests import DIGEST_BYTES
from fencepost.snapshots.snapshot import MANIFEST_BYTES_MAX

FRAME_BYTES_MAX: Final = 16 * 1024 * 1024
"""One append-entries message: a batch of entries under 4 MiB, one more of at most 4 MiB, and room."""
ENTRIES_MAX: Final = 1024  # per message; the journal's SLICE_MAX keeps below it
CHUNK_BYTES_MAX: Final = 512 * 1024  # of a snapshot
NAME_MAX: Final = 64  # characters of a snapshot's name, 31, and of its files'
REFUSED_MAX: Final = 1024  # characters of why a snapshot is refused
REPORTS_MAX: Final = 64  # in one message: the last of each voter, and others that the follower has not
EARLIER_MAX: Final = 64  # reports of one follower in one ack, beside its last one

Number = Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)]  # an index, or a position in a file: an i64
Name = Annotated[str, msgspec.Meta(max_length=NAME_MAX)]
Digest = Annotated[bytes, msgspec.Meta(min_length=DIGEST_BYTES, max_length=DIGEST_BYTES)]
Report = tuple[Number, Digest]  # version and digest of an image (snapshots/digests.py)
Reported = tuple[Number, Number, Digest]  # by which node

_REGULAR: Final = b"\x00"  # the kind of a command that holds an entry


class AppendEntries(msgspec.Struct, frozen=True, array_like=True, tag=1):
    """Raft §5.3. An entry is (command, index, term); a command starts with its kind."""

    term: int
    commit_index: int
    prev_index: int
    prev_term: int
    entries: list[tuple[bytes, int, int]]
    reports: Annotated[list[Reported], msgspec.Meta(max_length=REPORTS_MAX)] = []  # see image_watch.py
    agreed_ms: Number | None = None  # what time a majority has; see peer_clocks.py


class Behind(msgspec.Struct, frozen=True, array_like=True, tag=2):
    """A heartbeat to a follower that needs a snapshot: the log before ``first_index`` is gone."""

    term: int
    first_index: Number


class Ack(msgspec.Struct, frozen=True, array_like=True, tag=3):
    """The answer to AppendEntries, stamped with the term it was given in (docs/raft-hazards.md H2)."""

    term: int
    next_index: Number
    reset: bool  # the leader shall go back to next_index
    success: bool  # the log matches the leader's below next_index
    report: Report | None = None  # the last of this follower
    wants_from: Number | None = None  # its image is bad: it requests a snapshot of this index or a later one
    unjumped_ms: Number | None = None  # what time the follower has; see peer_clocks.py
    earlier: Annotated[list[Report], msgspec.Meta(max_length=EARLIER_MAX)] = []  # since the ack before


class RequestVote(msgspec.Struct, frozen=True, array_like=True, tag=4):
    """Raft §5.2. ``directory`` is what the candidate's log binds the voter to (quorum/electorate.py)."""

    term: int
    last_index: Number
    last_term: Number
    directory: uuid.UUID | None = None


class Vote(msgspec.Struct, frozen=True, array_like=True, tag=5):
    """A granted vote; a refusal is silence, or NewerTerm."""

    term: int


class TimeoutNow(msgspec.Struct, frozen=True, array_like=True, tag=6):
    """Leadership transfer: campaign at once (Raft thesis §3.10)."""

    term: int


class NewerTerm(msgspec.Struct, frozen=True, array_like=True, tag=7):
    """The answer to a frame of an old term: here is ours (hazard L1)."""

    term: int


class SnapshotBegin(msgspec.Struct, frozen=True, array_like=True, tag=8):
    """A snapshot follows. ``manifest`` is its manifest file: sizes and SHA-256 of the rest."""

    term: int
    name: Name
    manifest: Annotated[bytes, msgspec.Meta(max_length=MANIFEST_BYTES_MAX)]


class SnapshotChunk(msgspec.Struct, frozen=True, array_like=True, tag=9):
    """Bytes of one file of the snapshot, in order."""

    term: int
    name: Name
    file: Name
    position: Number
    payload: bytes


class SnapshotAck(msgspec.Struct, frozen=True, array_like=True, tag=10):
    """The follower got everything before (file, position); or refuses the snapshot and says why."""

    term: int
    name: Name
    file: Name
    position: Number
    refused: Annotated[str, msgspec.Meta(max_length=REFUSED_MAX)] = ""
    installed: bool = False


Message: TypeAlias = (
    AppendEntries
    | Behind
    | Ack
    | RequestVote
    | Vote
    | TimeoutNow
    | NewerTerm
    | SnapshotBegin
    | SnapshotChunk
    | SnapshotAck
)

encode: Final = msgspec.msgpack.Encoder().encode
_decoder: Final = msgspec.msgpack.Decoder(Message)


def decode(frame: bytes | memoryview) -> Message:
    """Inverse of ``encode``. Raises CorruptData for anything else, numbers out of bounds included."""
    try:
        message: Message = _decoder.decode(frame)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise CorruptData(f"not a Raft message: {error}") from error
    if not 0 <= message.term < 2**31:  # a term is an i32 leader epoch on Kafka's wire
        raise CorruptData(f"term {message.term} is out of bounds")
    if isinstance(message, AppendEntries):
        _check_entries(message)
    elif isinstance(message, SnapshotChunk) and len(message.payload) > CHUNK_BYTES_MAX:
        raise CorruptData(f"a snapshot chunk of {len(message.payload)} bytes, at most {CHUNK_BYTES_MAX}")
    return message


def _check_entries(message: AppendEntries) -> None:
    """Consecutive indexes, terms that never go back and never pass the message's, known kinds."""
    if len(message.entries) > ENTRIES_MAX:
        raise CorruptData(f"{len(message.entries)} entries in a message, at most {ENTRIES_MAX}")
    if not 1 <= message.prev_index < 2**63 or not 0 <= message.commit_index < 2**63:
        raise CorruptData(f"prev index {message.prev_index}, commit index {message.commit_index}")
    index, term = message.prev_index, message.prev_term
    for command, entry_index, entry_term in message.entries:
        if entry_index != index + 1 or not term <= entry_term <= message.term:
            raise CorruptData(
                f"entry ({entry_index}, term {entry_term}) after ({index}, term {term}), "
                f"in a message of term {message.term}"
            )
        if command[:1] not in (b"\x00", b"\x01"):  # regular, no-op: no membership, no code version
            raise CorruptData(f"entry {entry_index} is of kind {command[:1]!r}")
        if len(command) > ENTRY_BYTES_MAX + 1:
            raise CorruptData(f"entry {entry_index} has {len(command)} bytes, at most {ENTRY_BYTES_MAX}")
        if command[:1] == _REGULAR:
            _check_command(command, entry_index)
        index, term = entry_index, entry_term


def _check_command(command: bytes, index: int) -> None:
    """A damaged entry closes its connection: once it is committed, it would halt every voter."""
    try:
        for _, batch in decode_entry(command[1:]).batches:
            if checked_header(batch).size != len(batch):
                raise CorruptData("bytes after a batch")
    except LevelTooHigh:
        pass  # it is sound for all we know; the node that must apply it says that it cannot
    except CorruptData as error:
        raise CorruptData(f"entry {index} is damaged: {error}") from error
