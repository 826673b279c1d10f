"""The file of leader epochs: what makes no sense is not believed, and nothing of it."""

from pathlib import Path

from fencepost.broker.log.checkpoints import EPOCHS_FILE, LeaderEpochs
from fencepost.broker.log.shapes import NO_EPOCH
from fencepost.records.types import Offset
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
