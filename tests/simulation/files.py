"""Files beside a dead process's store that are not what was written: archive segments, snapshots, the clock.

A bit is another one, the end is gone, sectors are zeros, or the name is gone; of a segment often a bit of a
leader epoch, which no batch's checksum covers. What a process answers does not
depend on them: it must start, name what differs, and never use a wrong byte.
"""

import random
import shutil
from pathlib import Path
from typing import Final

from fencepost.records.batch_layout import HEADER_BYTES, LEADER_EPOCH_AT, size_at

PATTERNS: Final = (
    "archive/*/*.log",
    "archive/*/*.checksums",
    "archive/*/holes.json",
    "snapshots/*/state",
    "snapshots/*/*.checkpoint",
    "snapshots/*/manifest",
    "clock.json",
)
KINDS: Final = ("bit", "bit", "bit", "torn", "zeros", "gone")
ZEROS_MAX: Final = 512
EPOCH_SHARE: Final = 0.5  # of the bits of segments


def lose_snapshots(directory: Path) -> None:
    """The folder of a node's snapshots is gone."""
    shutil.rmtree(directory / "snapshots", ignore_errors=True)


def _batches(content: bytearray) -> list[int]:
    """Where the batches of a segment begin, by their lengths."""
    found, at = [], 0
    while at + HEADER_BYTES <= len(content):
        found.append(at)
        at += max(HEADER_BYTES, size_at(content, at))  # it may be a changed one
    return found


def damage_file(directory: Path, rng: random.Random) -> str | None:
    """Damage a file of a node's directory; says what, None if there is none."""
    files = [
        path for pattern in PATTERNS for path in sorted(directory.glob(pattern)) if path.stat().st_size > 0
    ]
    if not files:
        return None
    path = rng.choice(files)
    kind = rng.choice(KINDS)
    if kind == "gone":
        path.unlink()
        return f"{path.relative_to(directory)} is gone"
    content, mode = bytearray(path.read_bytes()), path.stat().st_mode
    at = rng.randrange(len(content))
    batches = _batches(content) if kind == "bit" and path.suffix == ".log" else []
    if batches and rng.random() < EPOCH_SHARE:
        at = rng.choice(batches) + LEADER_EPOCH_AT + 3
    if kind == "bit":
        content[at] ^= 1 << rng.randrange(8)
    elif kind == "torn":
        del content[at:]
    else:
        end = min(len(content), at + ZEROS_MAX)
        content[at:end] = bytes(end - at)
    path.chmod(0o600)
    path.write_bytes(content)
    path.chmod(mode)
    return f"{kind} of {path.relative_to(directory)} at {at}"
