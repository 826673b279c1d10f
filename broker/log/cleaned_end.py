"""``cleaned.metadata`` of a partition's log: below which offset a cleaner may have left offsets out.

File     version 0, and the offset in 20 digits, as segments are named. Earlier versions read it, and write it
         without leading zeros.
Copy     ``cleaned.metadata.copy``: the same and its CRC-32C in hex, written first. It counts, unless an
         earlier version wrote the file since: then the higher of both, for the offset only grows.
Why      with a lower one a sound log looks damaged, with a higher one a changed offset looks left out.
Damage   where neither makes sense offsets may have been left out of any full segment: no record is lost.
"""

import re
from contextlib import suppress
from pathlib import Path
from typing import Final, NamedTuple

from crc32c import crc32c

from fencepost.records.types import Offset
from fencepost.snapshots.flushes import replace_file
from fencepost.snapshots.reads import read_if_there
from fencepost.snapshots.segments import LOG_START, list_segments

CLEANED_FILE: Final = "cleaned.metadata"
COPY: Final = f"{CLEANED_FILE}.copy"

_OURS: Final = re.compile(rb"0\n(\d{20})\n")
_EARLIER: Final = re.compile(rb"0\n(0|[1-9]\d{0,18})\n")


class CleanedEnd(NamedTuple):
    """What the two files say; what is wrong with them, or ""; ``is_as_written``: neither is to be written."""

    end: Offset
    wrong: str = ""
    is_as_written: bool = False


def read_cleaned_end(directory: Path) -> CleanedEnd:
    """What the files of a log say; offset 0: no cleaner was here. Nothing is changed. Raises OSError."""
    file = read_if_there(directory / CLEANED_FILE)
    copy = read_if_there(directory / COPY)  # read last: it is written first
    if file is None and copy is None:
        return CleanedEnd(LOG_START, is_as_written=True)
    checked = _of_copy(copy)
    if checked is not None and file == _encoded(checked):
        return CleanedEnd(checked, is_as_written=True)
    earlier, ours = _offset(_EARLIER, file), _offset(_OURS, file)
    if earlier is not None and (checked is None or checked <= earlier):
        return CleanedEnd(earlier)
    if checked is not None:
        return CleanedEnd(checked, f"{CLEANED_FILE}: not as it was written, its copy says {checked}")
    if ours is not None:
        return CleanedEnd(ours, "" if copy is None else f"{COPY}: not as it was written")
    end = max((segment.base for segment in list_segments(directory)), default=LOG_START)
    return CleanedEnd(end, f"{CLEANED_FILE}: not as it was written, nor is a copy: taken to be {end}")


def load_cleaned_end(directory: Path) -> Offset:
    """The offset below which a cleaner may have left offsets out. Raises OSError."""
    return read_cleaned_end(directory).end


def save_cleaned_end(directory: Path, end: Offset) -> None:
    """Write the files durably, unless they say as much already. Raises OSError."""
    if end > load_cleaned_end(directory):
        _save(directory, end)


def mend_cleaned_end(directory: Path) -> str:
    """Write the files again if they are not as this version writes them. Returns what was wrong, or "".

    On a full disk they stay as they are, and so does what they say. Raises OSError.
    """
    found = read_cleaned_end(directory)
    if not found.is_as_written:
        with suppress(OSError):
            _save(directory, found.end)
    return found.wrong


def _save(directory: Path, end: Offset) -> None:
    replace_file(directory / COPY, _checked(_encoded(end)), durable=True)
    replace_file(directory / CLEANED_FILE, _encoded(end), durable=True)


def _encoded(end: Offset) -> bytes:
    return b"0\n%020d\n" % end


def _checked(content: bytes) -> bytes:
    return content + _check(content)


def _check(content: bytes) -> bytes:
    return b"%08x\n" % crc32c(content)


def _of_copy(copy: bytes | None) -> Offset | None:
    """What it says, if its checksum is right."""
    content = (copy or b"")[: -len(_check(b""))]
    return _offset(_OURS, content) if copy == _checked(content) else None


def _offset(form: re.Pattern[bytes], content: bytes | None) -> Offset | None:
    """What a file of that form says."""
    matched = form.fullmatch(content or b"")
    return None if matched is None else Offset(int(matched[1]))
