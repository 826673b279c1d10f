"""``--deep``: the records of every topic are opened, of what was read without it, too."""

from pathlib import Path

import pytest

from fencepost.audit.decode import local
from fencepost.audit.tables.ingest import IngestReport, ingest
from fencepost.audit.tables.place import place_of
from fencepost.audit.tables.snapshot import required
from tests.audit.built_logs import Built
from tests.audit.decode.corpus import laid
from tests.audit.tables.rows import in_memory, on_disk
from tests.audit.tables.workers import Here
from tests.broker.log.builders import batch, compressed, resealed
from tests.harness.command import here

SOUND = batch(count=3, value=b"v" * 40)
NOT_OPENED = "its records were not opened before"


def noise() -> bytes:
    """A batch whose records no reader can unpack, and whose checksum is right."""
    raw = compressed(SOUND, "zstd")
    return resealed(raw[:61] + bytes(each ^ 0x5A for each in raw[61:]))


class Logs:
    """One log of data, one of the coordinator, and their tables."""

    def __init__(self, folder: Path) -> None:
        self.root, self.tables = folder / "logs", folder / "tables"
        self.data = self.root / "orders-0" / f"{0:020}.log"
        self.data.parent.mkdir(parents=True)
        self.write(SOUND, SOUND)
        Built(self.root, "__transaction_state").state("billing", "Empty")

    def write(self, *batches: bytes) -> None:
        self.data.write_bytes(laid([*batches]).content)

    def ingest(self, *, deep: bool) -> IngestReport:
        return ingest(Here(), [str(self.root)], str(self.tables), deep=deep)

    def opened(self) -> dict[str, bool]:
        """By topic, what is said of the last row of its file."""
        return {row["topic"]: row["is_opened"] for row in required(place_of(str(self.tables))).present()}


@pytest.fixture
def logs(tmp_path: Path) -> Logs:
    return Logs(tmp_path)


def test_noise_under_a_right_checksum_is_a_finding_of_a_deep_check(
    logs: Logs, capsys: pytest.CaptureFixture[str]
) -> None:
    logs.write(SOUND, noise())
    words = ("audit", "check", logs.root, "--check", "integrity", "--engine", "embedded")
    assert here(capsys, *words).status == 0
    found = here(capsys, *words, "--deep")
    assert (found.status, f"{logs.data}:{len(SOUND)}" in found.stdout) == (1, True), found
    assert found.stdout.count("compression") == 1


def test_an_ingest_opens_what_the_decoder_opens(logs: Logs) -> None:
    logs.write(noise(), SOUND)
    logs.ingest(deep=True)
    expected = in_memory(local.tables([str(logs.root)], deep=True))
    assert on_disk(logs.tables) == expected
    assert expected["record_faults"].total() == 1
    assert logs.opened() == {"orders": True, "__transaction_state": True}


def test_what_was_read_without_it_is_read_anew_once(logs: Logs) -> None:
    logs.write(SOUND, noise())
    logs.ingest(deep=False)
    assert logs.opened() == {"orders": False, "__transaction_state": True}
    assert logs.ingest(deep=True).read_anew == ((str(logs.data), NOT_OPENED),)
    assert on_disk(logs.tables) == in_memory(local.tables([str(logs.root)], deep=True))
    assert logs.ingest(deep=True).number is None


def test_a_tail_that_was_read_without_it_is_read_anew(logs: Logs) -> None:
    logs.ingest(deep=True)
    logs.write(SOUND, SOUND, noise())
    assert logs.ingest(deep=False).read_anew == ()
    assert logs.opened()["orders"] is False
    assert logs.ingest(deep=True).read_anew == ((str(logs.data), NOT_OPENED),)
    assert on_disk(logs.tables)["record_faults"].total() == 1


def test_a_tail_that_was_opened_is_read_from_where_it_begins(logs: Logs) -> None:
    logs.ingest(deep=True)
    logs.write(SOUND, SOUND, noise())
    report = logs.ingest(deep=True)
    assert (report.read_anew, report.bytes_read) == ((), len(noise()))
    assert on_disk(logs.tables)["record_faults"].total() == 1
