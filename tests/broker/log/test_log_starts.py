"""Where logs begin whose first records were deleted: Kafka's checkpoint file, with a checksum and a copy."""

import errno
from pathlib import Path

import pytest

from fencepost.broker.log.log_starts import COPY, LOG_STARTS, LogStarts, encode_starts
from fencepost.broker.log.offset_checkpoint import decode_offsets
from fencepost.records.types import Offset
from tests.together import table

FOLDERS = ("orders-0", "a-b.c_d-12", "n" * 249 + "-7")
ONE, OTHER = "orders-0", "a-b.c_d-12"


def loaded(directory: Path, *folders: str) -> tuple[LogStarts, str]:
    starts = LogStarts(directory)
    return starts, starts.load(folders)


def lines(directory: Path) -> list[str]:
    """Of the file, without its check."""
    version, count, check, *others = (directory / LOG_STARTS).read_text().splitlines()
    assert (version, int(count)) == ("0", len(others) + 1)
    assert check.startswith("~crc32c 0 ")
    assert (directory / LOG_STARTS).read_bytes() == (directory / COPY).read_bytes()
    return others


def test_what_is_written_is_read_again_in_kafkas_format(tmp_path: Path) -> None:
    starts, wrong = loaded(tmp_path, *FOLDERS)
    assert wrong == ""
    starts.raise_to({ONE: Offset(5)})
    starts.raise_to({OTHER: Offset(2**62), ONE: Offset(3)})
    assert lines(tmp_path) == ["orders 0 5", f"a-b.c_d 12 {2**62}"]
    again, wrong = loaded(tmp_path, *FOLDERS)
    assert wrong == ""
    assert [again.of(each) for each in FOLDERS] == [5, 2**62, 0]
    again.forget(ONE)
    assert lines(tmp_path) == [f"a-b.c_d 12 {2**62}"]


def test_the_bytes_are_these(tmp_path: Path) -> None:
    """A later version reads them; the checksum is that of ``0 | 1 | orders 0 5``."""
    loaded(tmp_path, ONE)[0].raise_to({ONE: Offset(5)})
    assert (tmp_path / LOG_STARTS).read_bytes() == b"0\n2\n~crc32c 0 3410870065\norders 0 5\n"


def test_an_earlier_version_passes_the_check_over(tmp_path: Path) -> None:
    """It reads lines so, and removes those of logs that have no folder; as does Kafka's LogManager."""
    loaded(tmp_path, ONE)[0].raise_to({ONE: Offset(5)})
    found = decode_offsets((tmp_path / LOG_STARTS).read_bytes())
    assert found.senseless == 0
    assert {folder: start for folder, start in found.by_folder.items() if folder in FOLDERS} == {ONE: 5}


def test_lines_of_logs_that_are_not_there_are_removed_at_once(tmp_path: Path) -> None:
    """Another log of that name may be made before the file is written the next time."""
    loaded(tmp_path, *FOLDERS)[0].raise_to({ONE: Offset(5), OTHER: Offset(6)})
    loaded(tmp_path, OTHER)
    assert lines(tmp_path) == ["a-b.c_d 12 6"]


EARLIER = [
    ("0\n1\norders 0 5\n", False, 5),
    ("", True, 0),
    ("0\n", True, 0),
    ("1\n1\norders 0 5\n", True, 5),
    ("0\n2\norders 0 5\n", True, 5),
    ("0\n1\norders 0\n", True, 0),
    ("0\n1\norders 0 -5\n", True, 0),
    ("0\n1\norders x 5\n", True, 0),
    ("0\n2\norders 0 5\n\x80\n", True, 5),
    ("0\n1\norders 0 5 6\n", True, 0),
]


@table(("text", "is_wrong", "start"), EARLIER)
def test_of_an_earlier_versions_file_what_makes_no_sense_is_passed_over(
    tmp_path_factory: pytest.TempPathFactory, text: str, is_wrong: bool, start: int
) -> None:
    """It is written again with a checksum. A copy is of the past: the file was written since."""
    directory = tmp_path_factory.mktemp("starts")
    (directory / COPY).write_bytes(encode_starts({ONE: Offset(77)}))
    (directory / LOG_STARTS).write_text(text, "latin-1")
    starts, wrong = loaded(directory, ONE)
    assert (bool(wrong), starts.of(ONE)) == (is_wrong, start)
    assert lines(directory) == ([f"orders 0 {start}"] if start else [])
    assert loaded(directory, ONE)[1] == ""


def test_without_a_file_logs_begin_with_their_first_segments(tmp_path: Path) -> None:
    starts, wrong = loaded(tmp_path, *FOLDERS)
    assert (wrong, starts.of(ONE)) == ("", 0)
    starts.forget(ONE)
    assert starts.scrub() == ""
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", [LOG_STARTS, COPY])
def test_whichever_byte_changes_no_log_begins_elsewhere(tmp_path: Path, name: str) -> None:
    known = {ONE: Offset(100), OTHER: Offset(9)}
    loaded(tmp_path, *FOLDERS)[0].raise_to(known)
    raw = (tmp_path / name).read_bytes()
    unsaid = 0
    for at in range(len(raw)):
        for mask in (1 << at % 8, 1 << (at + 5) % 8, 0xFF):
            (tmp_path / name).write_bytes(raw[:at] + bytes((raw[at] ^ mask,)) + raw[at + 1 :])
            starts, wrong = loaded(tmp_path, *FOLDERS)
            assert {each: starts.of(each) for each in known} == known, (at, mask)
            assert (tmp_path / name).read_bytes() == raw
            unsaid += not wrong
    assert unsaid <= 3, "all but a changed first character of the check is named"


@pytest.mark.parametrize("name", [LOG_STARTS, COPY])
def test_a_file_that_is_gone_empty_or_cut_is_written_from_the_other(tmp_path: Path, name: str) -> None:
    loaded(tmp_path, *FOLDERS)[0].raise_to({ONE: Offset(100)})
    raw = (tmp_path / name).read_bytes()
    for size in (*range(5, len(raw)), None):
        (tmp_path / name).unlink() if size is None else (tmp_path / name).write_bytes(raw[:size])
        starts, wrong = loaded(tmp_path, *FOLDERS)
        assert starts.of(ONE) == 100, size
        assert wrong or (size is None and name == COPY)
        assert lines(tmp_path) == ["orders 0 100"]


def test_killed_between_the_two_the_copy_counts(tmp_path: Path) -> None:
    """It was written first: what it says was on the disk. Nothing is damaged."""
    (tmp_path / COPY).write_bytes(encode_starts({ONE: Offset(7)}))
    (tmp_path / LOG_STARTS).write_bytes(encode_starts({ONE: Offset(5)}))
    starts, wrong = loaded(tmp_path, ONE)
    assert (starts.of(ONE), wrong) == (7, "")
    assert lines(tmp_path) == ["orders 0 7"]


def test_of_two_changed_files_counts_what_both_say(tmp_path: Path) -> None:
    """And no log begins where only one of them says: its records would be hidden, and deleted."""
    raw = encode_starts({ONE: Offset(100), OTHER: Offset(9)})
    (tmp_path / LOG_STARTS).write_bytes(raw.replace(b" 100\n", b" 900\n"))
    (tmp_path / COPY).write_bytes(raw.replace(b"~crc32c 0 ", b"~crc32c 1 "))
    starts, wrong = loaded(tmp_path, *FOLDERS)
    assert (starts.of(ONE), starts.of(OTHER)) == (0, 9)
    assert wrong.endswith(f"also {ONE}")
    assert lines(tmp_path) == ["a-b.c_d 12 9"]


def test_what_changes_in_use_is_written_again(tmp_path: Path) -> None:
    """What logs begin with is in memory meanwhile."""
    starts, _ = loaded(tmp_path, *FOLDERS)
    starts.raise_to({ONE: Offset(100)})
    assert starts.scrub() == ""
    raw = (tmp_path / LOG_STARTS).read_bytes()
    for name in (LOG_STARTS, COPY):
        (tmp_path / name).write_bytes(raw.replace(b" 100\n", b" 900\n"))
        assert name in starts.scrub()
        assert lines(tmp_path) == ["orders 0 100"]
    for name in (LOG_STARTS, COPY):
        (tmp_path / name).write_bytes(encode_starts({}))
    assert "other lines" in starts.scrub()
    assert lines(tmp_path) == ["orders 0 100"]
    assert starts.of(ONE) == 100


def test_on_a_full_disk_a_start_reads_what_it_cannot_write_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """But a line of a log that is gone must go: another log of that name would begin there."""
    (tmp_path / LOG_STARTS).write_text("0\n1\norders 0 5\n")

    def full(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, "no space")

    with monkeypatch.context() as patch:
        patch.setattr("fencepost.broker.log.log_starts.replace_file", full)
        starts, wrong = loaded(tmp_path, ONE)
        assert (wrong, starts.of(ONE)) == ("", 5)
        with pytest.raises(OSError, match="no space"):
            starts.scrub()
        with pytest.raises(OSError, match="no space"):
            loaded(tmp_path)
    assert "other lines" in starts.scrub()
    assert lines(tmp_path) == ["orders 0 5"]
