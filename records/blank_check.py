"""A checksum behind a JSON text, in white space: JSON has no other place that earlier versions pass over.

Layout   the text | newline | 32 characters, one for each bit of the text's CRC-32C, the highest first: 0 is a
         blank, 1 is a tab | newline. What earlier versions wrote ends behind the text, and is not checked.
"""

from typing import Final

from crc32c import crc32c

from fencepost.records.invariant import CorruptData

_WHITE_SPACE: Final = b" \t\r\n"
_BITS: Final = bytes.maketrans(b"01", b" \t")


def with_check(text: bytes) -> bytes:
    """The content of a file that has this text. Inverse: ``checked_text``."""
    return text + _behind(text)


def checked_text(content: bytes) -> bytes:
    """The text that a file has. Raises CorruptData: text and checksum are not of each other."""
    text = content.rstrip(_WHITE_SPACE)
    if content[len(text) :] not in (b"", b"\n", _behind(text)):
        raise CorruptData(f"other bytes than were written, by the checksum behind them: {content[:200]!r}")
    return text


def _behind(text: bytes) -> bytes:
    return b"\n%b\n" % f"{crc32c(text):032b}".encode().translate(_BITS)
