"""A file of Kafka's that has an offset for each partition of a log directory.

Layout   text: 0, the count, then a line ``<topic> <partition> <offset>`` for each. It is replaced whole.
Source   Kafka OffsetCheckpointFile, CheckpointFile.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Final

from fencepost.broker.log.checkpoints import replace_file
from fencepost.records.types import Offset

CLEANER_FILE: Final = "cleaner-offset-checkpoint"
"""Up to where each compacted log of the directory is clean."""

ENTRIES_MAX: Final = 1_000_000

Offsets = dict[tuple[str, int], Offset]


def load_offsets(path: Path) -> Offsets:
    """What the file says; nothing if there is none or it is no use. Raises OSError."""
    try:
        lines = path.read_text("ascii").splitlines()
        if lines[0] != "0" or int(lines[1]) != len(lines) - 2 or len(lines) > ENTRIES_MAX:
            return {}
        rows = [line.split(" ") for line in lines[2:]]
        return {(topic, int(index)): Offset(int(offset)) for topic, index, offset in rows}
    except FileNotFoundError:
        return {}
    except (ValueError, IndexError):
        return {}


def save_offsets(path: Path, offsets: Mapping[tuple[str, int], Offset]) -> None:
    """Replace the file, durably. Raises OSError."""
    rows = [f"{topic} {index} {offset}" for (topic, index), offset in sorted(offsets.items())]
    replace_file(path, "\n".join(("0", str(len(rows)), *rows, "")).encode("ascii"), durable=True)
