"""Up to where a log was cleaned: the file and its copy, of which one changes or is lost."""

from pathlib import Path

import pytest

from fencepost.broker.log.cleaned_end import (
    CLEANED_FILE,
    COPY,
    load_cleaned_end,
    mend_cleaned_end,
    read_cleaned_end,
    save_cleaned_end,
)
from fencepost.broker.log.partition_log import PartitionLog
from fencepost.broker.log.repair import inspect
from fencepost.records.types import Offset
from tests.broker.log.builders import NOW_MS, open_log
from tests.broker.log.test_cleaner import CONFIG, clean, committed, play
from tests.together import table

END = Offset(1_234)


def test_an_earlier_version_reads_the_file(tmp_path: Path) -> None:
    """Two words, the first of which is 0."""
    save_cleaned_end(tmp_path, END)
    assert (tmp_path / CLEANED_FILE).read_bytes() == b"0\n00000000000000001234\n"
    assert (tmp_path / COPY).read_bytes() == b"0\n00000000000000001234\n2558f92a\n"
    version, end = (tmp_path / CLEANED_FILE).read_text("ascii").split()
    assert (version, end.isdigit(), int(end)) == ("0", True, END)


def test_it_only_grows(tmp_path: Path) -> None:
    assert load_cleaned_end(tmp_path) == 0
    for end in (5, 9, 7):
        save_cleaned_end(tmp_path, Offset(end))
    assert load_cleaned_end(tmp_path) == 9
    assert mend_cleaned_end(tmp_path) == ""


@pytest.mark.parametrize("name", [CLEANED_FILE, COPY])
def test_whichever_bit_flips_the_offset_is_the_same(tmp_path: Path, name: str) -> None:
    save_cleaned_end(tmp_path, END)
    raw = (tmp_path / name).read_bytes()
    for at in range(len(raw)):
        for mask in (*(1 << bit for bit in range(8)), 0xFF):
            (tmp_path / name).write_bytes(raw[:at] + bytes((raw[at] ^ mask,)) + raw[at + 1 :])
            assert load_cleaned_end(tmp_path) == END, (at, mask)
            assert name in read_cleaned_end(tmp_path).wrong
    assert mend_cleaned_end(tmp_path) != ""
    assert (tmp_path / name).read_bytes() == raw


FOUND = [
    (None, None, 0, False),
    (b"0\n1234\n", None, 1_234, False),  # an earlier version's, with no copy yet
    (b"0\n2000\n", 1_234, 2_000, False),  # it cleaned since
    (b"0\n1234\n", 1_234, 1_234, False),  # up to the same offset
    (b"0\n1200\n", 1_234, 1_234, True),  # which changed since
    (b"0\n00000000000000001000\n", 1_234, 1_234, True),  # killed between the two, or changed
    (b"0\n00000000000000001234\n", None, 1_234, False),
    (None, 1_234, 1_234, True),
    (b"", 1_234, 1_234, True),
    (b"0\n", None, 0, True),
]


@table(("file", "copy", "end", "is_wrong"), FOUND)
def test_which_of_the_two_counts(
    tmp_path_factory: pytest.TempPathFactory, file: bytes | None, copy: int | None, end: int, is_wrong: bool
) -> None:
    directory = tmp_path_factory.mktemp("log")
    if copy is not None:
        save_cleaned_end(directory, Offset(copy))
        (directory / CLEANED_FILE).unlink()
    if file is not None:
        (directory / CLEANED_FILE).write_bytes(file)
    assert (load_cleaned_end(directory), bool(mend_cleaned_end(directory))) == (end, is_wrong)
    assert read_cleaned_end(directory) == (end, "", True)


@pytest.mark.parametrize("is_copied", [True, False])
def test_a_sound_log_whose_file_changed_is_opened_and_cleaned(tmp_path: Path, is_copied: bool) -> None:
    """It looked damaged: offsets that were left out looked lost, and a cut was offered."""
    log = open_log(tmp_path, CONFIG)
    play(log)
    log.flush()
    clean(log)
    values = committed(log)
    log.close()
    (log.directory / CLEANED_FILE).write_bytes(b"0\n00000000000000000001\n" if is_copied else b"0\nx\n")
    if not is_copied:
        (log.directory / COPY).unlink()
    found = inspect(log.directory, machine_went_down=False)
    assert found.damage is None
    assert "the next start writes it again" in str(found.changed)
    again = PartitionLog.open(log.directory, CONFIG, NOW_MS)
    assert CLEANED_FILE in again.repairs[0]
    assert committed(again) == values
    clean(again)
    assert committed(again) == values
    again.close()
    assert inspect(log.directory, machine_went_down=False).changed is None
