"""The files of leader epochs and of the topic: what makes no sense is not believed, and nothing of it."""

from pathlib import Path
from uuid import UUID

import pytest

from fencepost.broker.log import checkpoints
from fencepost.broker.log.checkpoints import (
    EPOCHS_FILE,
    PARTITION_FILE,
    LeaderEpochs,
    load_topic_id,
    save_topic_id,
)
from fencepost.broker.log.shapes import NO_EPOCH, NO_OFFSET, EpochEnd
from fencepost.records.invariant import CorruptData
from fencepost.records.types import Offset, Term
from tests.together import table

SOUND = "0\n3\n1 0\n4 10\n5 30\n"


@table(
    ("text", "is_believed"),
    [
        (SOUND, True),
        (SOUND[:-1], False),
        (SOUND.replace("0\n3", "1\n3", 1), False),
        (SOUND.replace("3\n", "4\n", 1), False),
        (SOUND.replace("4 10", "1 10"), False),
        (SOUND.replace("4 10", "0 10"), False),
        (SOUND.replace("4 10", "4 0"), False),
        (SOUND.replace("4 10", "4 31"), False),
        (SOUND.replace("4 10", "4 x"), False),
        ("0\n", False),
        ("", False),
    ],
)
def test_a_file_of_epochs_is_believed_whole_or_not_at_all(
    tmp_path: Path, text: str, is_believed: bool
) -> None:
    (tmp_path / EPOCHS_FILE).write_text(text, "ascii")
    epochs = LeaderEpochs(tmp_path)
    assert epochs.load() == is_believed
    assert epochs.latest == (5 if is_believed else NO_EPOCH)
    assert epochs.at(Offset(12)) == (4 if is_believed else NO_EPOCH)


def known(directory: Path) -> LeaderEpochs:
    """Epoch 1 begins at offset 0, 4 at 10, 5 at 30."""
    (directory / EPOCHS_FILE).write_text(SOUND, "ascii")
    loaded = LeaderEpochs(directory)
    assert loaded.load()
    return loaded


def test_nothing_is_known_without_a_file_or_once_it_is_forgotten(tmp_path: Path) -> None:
    epochs = LeaderEpochs(tmp_path)
    assert epochs.latest == NO_EPOCH
    assert not epochs.load()
    epochs = known(tmp_path)
    (tmp_path / EPOCHS_FILE).write_text("?")
    assert not epochs.load()
    assert epochs.latest == NO_EPOCH
    epochs = known(tmp_path)
    epochs.forget_all()
    assert epochs.begins == []


def test_a_file_without_epochs_is_a_file(tmp_path: Path) -> None:
    (tmp_path / EPOCHS_FILE).write_text("0\n0\n")
    assert LeaderEpochs(tmp_path).load()


def test_a_file_has_a_bounded_number_of_lines(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    epochs = known(tmp_path)
    monkeypatch.setattr(checkpoints, "EPOCHS_MAX", 5)
    assert epochs.load()
    monkeypatch.setattr(checkpoints, "EPOCHS_MAX", 4)
    assert not epochs.load()


@table(("offset", "epoch"), [(0, 1), (9, 1), (10, 4), (29, 4), (30, 5), (1000, 5)])
def test_the_epoch_of_an_offset(tmp_path: Path, offset: int, epoch: int) -> None:
    assert known(tmp_path).at(Offset(offset)) == epoch


@table(
    ("epoch", "expected"),
    [
        (-1, EpochEnd(NO_EPOCH, NO_OFFSET)),
        (0, EpochEnd(Term(0), Offset(0))),
        (1, EpochEnd(Term(1), Offset(10))),
        (3, EpochEnd(Term(1), Offset(10))),
        (4, EpochEnd(Term(4), Offset(30))),
        (5, EpochEnd(Term(5), Offset(99))),
        (6, EpochEnd(NO_EPOCH, NO_OFFSET)),
    ],
)
def test_where_an_epoch_ends(tmp_path: Path, epoch: int, expected: EpochEnd) -> None:
    assert known(tmp_path).end_of(Term(epoch), Offset(99)) == expected


@table(
    ("first", "end", "expected"),
    [
        (0, 10, False),
        (0, 11, True),
        (9, 11, True),
        (10, 11, False),
        (10, 30, False),
        (29, 31, True),
        (30, 40, False),
    ],
)
def test_a_batch_in_which_an_epoch_begins(tmp_path: Path, first: int, end: int, expected: bool) -> None:
    assert known(tmp_path).begins_inside(Offset(first), Offset(end)) == expected


def test_the_oldest_epoch_begins_inside_the_first_batch_where_the_log_does(tmp_path: Path) -> None:
    epochs = known(tmp_path)
    epochs.forget_before(Offset(5))
    assert not epochs.begins_inside(Offset(0), Offset(10))
    assert epochs.begins_inside(Offset(0), Offset(11))


@table(
    ("epoch", "offset", "is_written", "is_contradicted"),
    [
        (4, 10, True, False),
        (1, 10, True, True),
        (1, 10, False, True),  # a later epoch is known, so that line was there
        (4, 29, False, False),
        (1, 29, False, True),
        (6, 30, False, False),  # the newest line says nothing of what came behind the file
        (6, 30, True, True),
    ],
)
def test_a_batch_that_the_file_contradicts(
    tmp_path: Path, epoch: int, offset: int, is_written: bool, is_contradicted: bool
) -> None:
    why = known(tmp_path).contradicted(Term(epoch), Offset(offset), is_written=is_written)
    assert (why is not None) == is_contradicted


@table(
    ("end", "forgotten", "begins"),
    [(31, False, [0, 10, 30]), (30, True, [0, 10]), (11, True, [0, 10]), (10, True, [0]), (0, True, [])],
)
def test_epochs_behind_the_end_are_forgotten(
    tmp_path: Path, end: int, forgotten: bool, begins: list[int]
) -> None:
    epochs = known(tmp_path)
    assert epochs.forget_after(Offset(end)) == forgotten
    assert epochs.begins == begins


@table(("start", "begins"), [(0, [0, 10, 30]), (9, [9, 10, 30]), (10, [10, 30]), (11, [11, 30]), (50, [50])])
def test_the_epoch_in_which_the_log_begins_begins_there(
    tmp_path: Path, start: int, begins: list[int]
) -> None:
    epochs = known(tmp_path)
    epochs.forget_before(Offset(start))
    assert epochs.begins == begins


def test_an_epoch_that_is_assigned_is_in_the_file_unless_that_is_not_wanted(tmp_path: Path) -> None:
    epochs = known(tmp_path)
    epochs.assign(Term(5), Offset(40))
    epochs.assign(Term(6), Offset(50), save=False)
    assert epochs.begins == [0, 10, 30, 50]
    assert (tmp_path / EPOCHS_FILE).read_text("ascii") == SOUND
    epochs.assign(Term(7), Offset(60))
    assert (tmp_path / EPOCHS_FILE).read_text("ascii") == "0\n5\n1 0\n4 10\n5 30\n6 50\n7 60\n"


TOPIC_ID = UUID("6f1c1d38-4d4c-4f0e-8f3c-2f6d8d5d7a10")


def test_the_topic_id_is_in_the_file_as_kafka_writes_it(tmp_path: Path) -> None:
    assert load_topic_id(tmp_path) is None
    save_topic_id(tmp_path, TOPIC_ID)
    assert (tmp_path / PARTITION_FILE).read_text() == "version: 0\ntopic_id: bxwdOE1MTw6PPC9tjV16EA\n"
    assert load_topic_id(tmp_path) == TOPIC_ID


@table(
    ("old", "new"),
    [
        ("version: 0", "version: 1"),
        ("version: 0\n", ""),
        ("topic_id: ", "topic: "),
        ("16EA", "16"),
        ("topic_id: ", "topic_id:"),
    ],
)
def test_a_topic_file_that_makes_no_sense_is_named(tmp_path: Path, old: str, new: str) -> None:
    save_topic_id(tmp_path, TOPIC_ID)
    path = tmp_path / PARTITION_FILE
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new))
    with pytest.raises(CorruptData, match=PARTITION_FILE):
        load_topic_id(tmp_path)
