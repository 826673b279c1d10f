"""A file of Kafka's that has an offset for each of some logs of a log directory.

Layout   text: version 0, a count, a line ``<topic> <partition> <offset>`` for each. It is replaced whole.
Names    logs are named here by their folders, ``<topic>-<partition>``.
Damage   a line that makes no sense is passed over, and counted.
Source   Kafka OffsetCheckpointFile, CheckpointFile.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Final, NamedTuple

from fencepost.records.types import Offset
from fencepost.snapshots.flushes import replace_file
from fencepost.snapshots.reads import read_if_there

CLEANER_FILE: Final = "cleaner-offset-checkpoint"
"""Up to where each compacted log of the directory is clean."""

_HEADER_LINES: Final = 2  # version and count


class Offsets(NamedTuple):
    """What a file says: offsets by folder, and how many lines are wrong."""

    by_folder: dict[str, Offset]
    senseless: int = 0


def load_offsets(path: Path) -> Offsets:
    """What the file says; nothing if there is none. Raises OSError."""
    raw = read_if_there(path)
    return Offsets({}) if raw is None else decode_offsets(raw)


def save_offsets(path: Path, offsets: Mapping[str, Offset]) -> None:
    """Replace the file, durably. Raises OSError."""
    replace_file(path, encode_offsets(offsets), durable=True)


def encode_offsets(offsets: Mapping[str, Offset]) -> bytes:
    """The content of the file."""
    rows = (f"{' '.join(folder.rpartition('-')[::2])} {offset}" for folder, offset in offsets.items())
    return ("\n".join(["0", str(len(offsets)), *rows]) + "\n").encode("ascii")


def decode_offsets(content: bytes) -> Offsets:
    """What the content says. Inverse of ``encode_offsets``."""
    lines = content.splitlines()
    parsed = [_parse(line) for line in lines[_HEADER_LINES:]]
    known = [each for each in parsed if each is not None]
    is_sound = len(lines) >= _HEADER_LINES and lines[0] == b"0" and lines[1] == b"%d" % len(parsed)
    return Offsets(dict(known), len(parsed) - len(known) + (not is_sound))


def _parse(line: bytes) -> tuple[str, Offset] | None:
    """(folder, offset) of a line; None: it makes no sense."""
    try:
        topic, index, offset = line.decode("ascii").split(" ")
        if not (index.isdigit() and offset.isdigit()):
            return None
        return f"{topic}-{int(index)}", Offset(int(offset))
    except ValueError:
        return None
