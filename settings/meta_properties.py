"""``meta.properties``: whose directory it is, in lines ``key=value`` as Kafka writes it; checked, and copied.

Check       the last line, ``fencepost.crc32c=<hex>``, is the CRC-32C of the lines before it. Kafka's readers
            and earlier versions skip it. Without it the file is an earlier version's: it is not checked.
Copy        ``meta.properties.copy`` is the same, written first: it counts where the file is not as it was
            written. A copy that is not is named too, and written again: else it is found when it is needed.
            An operator who changes the file by hand removes that line.
Source      Kafka ``MetaProperties``, ``PropertiesUtils``.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Final, NamedTuple

from crc32c import crc32c

from fencepost.records.named_errors import naming, why
from fencepost.settings.durable_file import write_durably

META_PROPERTIES: Final = "meta.properties"
COPY: Final = f"{META_PROPERTIES}.copy"
FILE_BYTES_MAX: Final = 64 * 1024  # of a file of an identity; what we write is below 2 KiB

_CHECK: Final = "fencepost.crc32c="


def write_properties(directory: Path, properties: Mapping[str, str]) -> None:
    """Replace both files, durably. Raises OSError."""
    content = "".join(f"{key}={value}\n" for key, value in properties.items())
    for name in (COPY, META_PROPERTIES):
        write_durably(directory / name, _checked(content))


class Properties(NamedTuple):
    """What the file says; what is wrong with it or with its copy, or ""; whether what counts has a check."""

    pairs: dict[str, str]
    wrong: str
    is_checked: bool


def read_properties(directory: Path) -> Properties:
    """What the file says. Raises ValueError, OSError."""
    content, wrong = _read(directory / META_PROPERTIES), ""
    copy, copy_is = _read_copy(directory / COPY)
    if _is_checked(content):
        if not _is_checked(copy):
            wrong = f"{COPY} {copy_is}: {META_PROPERTIES} counts"
    elif _CHECK.encode() in content:
        wrong = f"{META_PROPERTIES} is not as it was written, by its line {_CHECK.rstrip('=')}"
        if not _is_checked(copy):
            raise ValueError(f"{wrong}, nor is {COPY}. If you changed it by hand, remove that line")
        content, wrong = copy, f"{wrong}: its copy counts"
    text = content.decode("utf-8", errors="replace")
    lines = [line for line in text.splitlines() if not line.startswith("#")]
    pairs = dict(line.split("=", 1) for line in lines if "=" in line)
    return Properties(pairs, wrong, _is_checked(content))


def read_bounded(file: Path) -> str:
    """The text of a file of an identity. Raises ValueError, OSError."""
    return _read(file).decode("utf-8")


def _read(file: Path) -> bytes:
    with naming(file), file.open("rb") as stream:
        content = stream.read(FILE_BYTES_MAX + 1)
    if len(content) > FILE_BYTES_MAX:
        raise ValueError(f"{file.name} is larger than {FILE_BYTES_MAX} bytes")
    return content


def _read_copy(file: Path) -> tuple[bytes, str]:
    """Nothing of a copy that cannot be read; and what is to be said of one that is of no use."""
    changed = "is not as it was written"
    try:
        return _read(file), changed
    except (FileNotFoundError, ValueError):
        return b"", changed
    except OSError as error:
        return b"", f"cannot be read ({why(error).lower()})"


def _checked(content: str) -> str:
    return f"{content}{_CHECK}{crc32c(content.encode('utf-8')):08x}\n"


def _is_checked(content: bytes) -> bool:
    """It ends in its check."""
    before, check, _ = content.rpartition(_CHECK.encode())
    return bool(check) and content == before + f"{_CHECK}{crc32c(before):08x}\n".encode()
