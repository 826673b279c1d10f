"""The lock on a broker's log directory, and what it remembers of the machine's starts."""

from pathlib import Path

import pytest

from fencepost.broker.log import log_directory
from fencepost.broker.log.log_directory import LOCK_FILE, LogDirectory, LogDirectoryInUse


def test_one_process_at_a_time(tmp_path: Path) -> None:
    first = LogDirectory(tmp_path)
    with pytest.raises(LogDirectoryInUse, match="stop that one first"):
        LogDirectory(tmp_path)
    first.release()
    LogDirectory(tmp_path).release()


def test_what_is_written_after_the_recovery_is_of_this_start_of_the_machine(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    boot = tmp_path / "boot_id"
    monkeypatch.setattr(log_directory, "_BOOT_ID", boot)
    seen = []
    for number, is_recovered in ((1, False), (1, True), (1, True), (2, False), (2, True), (2, True)):
        boot.write_text(f"boot-{number}\n")
        directory = LogDirectory(tmp_path)
        seen.append(directory.machine_went_down)
        if is_recovered:
            directory.remember()
        directory.release()
    assert seen == [True, True, False, True, True, False], "killed while it recovered, it recovers again"
    boot.unlink()
    directory = LogDirectory(tmp_path)
    assert directory.machine_went_down, "a machine that does not say is one that went down"
    directory.remember()
    directory.release()
    assert (tmp_path / LOCK_FILE).read_text() == "\n"
    again = LogDirectory(tmp_path)
    assert again.machine_went_down, "what was remembered of it says nothing either"
    again.release()
