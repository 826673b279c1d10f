"""Whose directory it is: meta.properties has a checksum, and a copy that counts where it changed."""

from dataclasses import replace
from pathlib import Path
from uuid import UUID

import pytest

from fencepost.records.types import NodeId
from fencepost.settings.meta_properties import COPY, META_PROPERTIES, write_properties
from fencepost.settings.node_identity import (
    Identity,
    NotFormatted,
    format_directory,
    id_text,
    mended,
    read_identity,
    remember_store,
)

CLUSTER = id_text(UUID(int=1 << 100))


def formatted(directory: Path) -> Identity:
    remember_store(directory, format_directory(directory, CLUSTER, NodeId(1)))
    return read_identity(directory)


def test_the_file_has_a_line_more(tmp_path: Path) -> None:
    """Kafka's readers, and earlier versions, skip a key that they do not know."""
    write_properties(tmp_path, {"version": "1", "node.id": "7"})
    assert (tmp_path / META_PROPERTIES).read_text() == "version=1\nnode.id=7\nfencepost.crc32c=925ef46b\n"
    assert (tmp_path / COPY).read_bytes() == (tmp_path / META_PROPERTIES).read_bytes()


@pytest.mark.parametrize("name", [META_PROPERTIES, COPY])
@pytest.mark.parametrize("mask", [1, 4, 0x20, 0xFF])
def test_whichever_byte_changes_the_directory_is_whose_it_was(tmp_path: Path, name: str, mask: int) -> None:
    """With another id of its directory a node's store was not its own; of another cluster it did not run."""
    own = formatted(tmp_path)
    raw = (tmp_path / name).read_bytes()
    silent = 0
    for at in range(len(raw)):
        (tmp_path / name).write_bytes(raw[:at] + bytes((raw[at] ^ mask,)) + raw[at + 1 :])
        found = read_identity(tmp_path)
        assert replace(found, meta_fault="") == own, at
        silent += not found.meta_fault
        assert mended(tmp_path, found) == own
        assert (tmp_path / META_PROPERTIES).read_bytes() == (tmp_path / COPY).read_bytes() == raw
    assert silent <= len("fencepost.crc32c="), "a changed name of the check: the lines before it are the same"


def test_a_copy_that_changed_is_written_again_before_the_file_changes_too(tmp_path: Path) -> None:
    own = formatted(tmp_path)
    for name in (COPY, META_PROPERTIES):
        raw = (tmp_path / name).read_bytes()
        (tmp_path / name).write_bytes(raw.replace(b"node.id=1", b"node.id=2"))
        found = read_identity(tmp_path)
        assert f"{name} is not as it was written" in found.meta_fault
        assert mended(tmp_path, found) == own
    (tmp_path / COPY).unlink()
    assert mended(tmp_path, read_identity(tmp_path)) == own
    assert (tmp_path / COPY).exists()


def test_what_an_earlier_version_wrote_is_not_checked_until_it_is_written_again(tmp_path: Path) -> None:
    own = formatted(tmp_path)
    raw = (tmp_path / META_PROPERTIES).read_bytes()
    (tmp_path / META_PROPERTIES).write_bytes(raw[: raw.index(b"fencepost.crc32c")])
    (tmp_path / COPY).write_text("a copy of before")
    found = read_identity(tmp_path)
    assert (found, found.is_meta_checked) == (own, False)
    mended(tmp_path, found)
    assert (tmp_path / META_PROPERTIES).read_bytes() == (tmp_path / COPY).read_bytes() == raw


def test_killed_between_the_two_the_file_counts(tmp_path: Path) -> None:
    """What it says was so until then: what the copy says is done again."""
    own = formatted(tmp_path)
    raw = (tmp_path / COPY).read_bytes()
    format_directory(tmp_path / "other", CLUSTER, NodeId(2))
    (tmp_path / COPY).write_bytes((tmp_path / "other" / META_PROPERTIES).read_bytes())
    assert read_identity(tmp_path) == own
    (tmp_path / COPY).write_bytes(raw)


def test_changed_by_hand_it_says_what_to_do(tmp_path: Path) -> None:
    formatted(tmp_path)
    for name in (META_PROPERTIES, COPY):
        raw = (tmp_path / name).read_bytes()
        (tmp_path / name).write_bytes(raw.replace(b"node.id=1", b"node.id=2"))
    with pytest.raises(NotFormatted, match=r"nor is .*copy. If you changed it by hand, remove that line"):
        read_identity(tmp_path)
    lines = (tmp_path / META_PROPERTIES).read_text().splitlines(keepends=True)
    (tmp_path / META_PROPERTIES).write_text("".join(lines[:-1]))
    assert read_identity(tmp_path).node_id == 2
