"""What a broker remembers of the logs that it made."""

import errno
import os
import uuid
from pathlib import Path

import pytest
from crc32c import crc32c
from hypothesis import given
from hypothesis import strategies as st

from fencepost.broker.hosted_logs import HOSTED_LOGS, PAST_LINES_MAX, HostedLog, HostedLogs
from fencepost.settings.node_identity import id_text, parse_id
from tests.examples import examples

HERE, THERE = uuid.UUID(int=1 << 90), uuid.UUID(int=2 << 90)
TOPICS = [uuid.UUID(int=number << 64) for number in range(1, 4)]
logs = st.builds(HostedLog, st.just("orders"), st.integers(0, 2), st.sampled_from(TOPICS), st.just(HERE))


def hosted(home: Path) -> HostedLogs:
    made = HostedLogs(home)
    assert made.load() == 0
    made.tidy()
    return made


@given(st.lists(st.tuples(st.booleans(), logs), max_size=examples(20)))
def test_what_was_said_last_of_a_log_is_what_is_read(
    tmp_path_factory: pytest.TempPathFactory, steps: list[tuple[bool, HostedLog]]
) -> None:
    home = tmp_path_factory.mktemp("home")
    writing = hosted(home)
    expected: dict[tuple[uuid.UUID, int], HostedLog] = {}
    for is_made, log in steps:
        if is_made:
            writing.add((log,))
            expected[log.topic_id, log.index] = log
        else:
            writing.forget(log.topic_id, log.index)
            expected.pop((log.topic_id, log.index), None)
    assert set(hosted(home)) == set(writing) == set(expected.values())


def test_a_line_that_was_cut_short_anywhere_takes_no_other_with_it(tmp_path: Path) -> None:
    first, second = HostedLog("orders", 0, TOPICS[0], HERE), HostedLog("orders", 1, TOPICS[0], THERE)
    hosted(tmp_path).add((first,))
    before = (tmp_path / HOSTED_LOGS).read_bytes()
    hosted(tmp_path).add((second,))
    whole = (tmp_path / HOSTED_LOGS).read_bytes()
    for size in range(len(before), len(whole)):
        (tmp_path / HOSTED_LOGS).write_bytes(whole[:size])
        again = hosted(tmp_path)
        is_whole = size > whole.index(b"\n", len(before))  # without its check
        assert set(again) == ({first, second} if is_whole else {first}), size
        again.add((second,))
        assert set(hosted(tmp_path)) == {first, second}, size


def test_lines_that_make_no_sense_are_counted_and_the_others_hold(tmp_path: Path) -> None:
    kept = HostedLog("orders", 0, TOPICS[0], HERE)
    hosted(tmp_path).add((kept,))
    with (tmp_path / HOSTED_LOGS).open("ab") as file:
        file.write(b"\xff\n+ x 1 y z\n- \n\n")
    again = HostedLogs(tmp_path)
    assert again.load() == 4
    again.tidy()
    assert set(again) == {kept}
    assert hosted(tmp_path).find(TOPICS[0], 0) == kept, "it was written anew"


def test_a_line_of_which_only_a_part_could_be_written_is_taken_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept, refused = HostedLog("orders", 0, TOPICS[0], HERE), HostedLog("orders", 1, TOPICS[0], HERE)
    writing = hosted(tmp_path)
    writing.add((kept,))
    with monkeypatch.context() as patch:
        write = os.write
        patch.setattr("fencepost.broker.hosted_logs.os.write", lambda file, content: write(file, content[:7]))
        with pytest.raises(OSError, match="only a part"):
            writing.add((refused,))
    assert set(writing) == {kept}
    writing.add((refused,))
    assert set(hosted(tmp_path)) == {kept, refused}


@pytest.mark.parametrize("past", [PAST_LINES_MAX - 4, PAST_LINES_MAX + 4], ids=["kept", "written-anew"])
def test_lines_of_the_past_are_bounded(tmp_path: Path, past: int) -> None:
    log = HostedLog("orders", 0, TOPICS[0], HERE)
    hosted(tmp_path).add((log,))
    line = (tmp_path / HOSTED_LOGS).read_bytes()
    (tmp_path / HOSTED_LOGS).write_bytes(line * past)
    assert set(hosted(tmp_path)) == {log}
    lines = (tmp_path / HOSTED_LOGS).read_bytes().count(b"\n")
    assert lines == 2 * (past if past < PAST_LINES_MAX else 1)


@pytest.mark.parametrize("mask", [1, 8, 0x20, 0xFF])
def test_whichever_byte_changes_no_log_is_taken_for_another(tmp_path: Path, mask: int) -> None:
    """A changed topic id made another topic's log of it, which was deleted: there is no such topic."""
    known = {HostedLog("orders", index, TOPICS[index], HERE, index) for index in range(2)}
    hosted(tmp_path).add(sorted(known, key=str))
    raw = (tmp_path / HOSTED_LOGS).read_bytes()
    for at in range(len(raw)):
        (tmp_path / HOSTED_LOGS).write_bytes(raw[:at] + bytes((raw[at] ^ mask,)) + raw[at + 1 :])
        found = HostedLogs(tmp_path)
        unread = found.load()
        assert set(found) <= known, at
        assert unread or {(each, each.leader_epoch) for each in found} == {
            (each, each.leader_epoch) for each in known
        }, at
        found.tidy()
        assert set(hosted(tmp_path)) == set(found)


def test_an_earlier_version_passes_the_checks_over(tmp_path: Path) -> None:
    """It takes each for a deletion, of a log that never was."""
    hosted(tmp_path).add((HostedLog("orders", 1, TOPICS[1], HERE, 7),))
    line, check = (tmp_path / HOSTED_LOGS).read_text().splitlines()
    assert line == f"+ {id_text(TOPICS[1])} 1 {id_text(HERE)} orders 7"
    sign, topic_id, index = check.split(" ")
    assert (sign, index) == ("-", "0")
    assert parse_id(topic_id).bytes == b"line checked" + crc32c(f"{line}\n".encode()).to_bytes(4, "big")


def test_what_an_earlier_version_wrote_is_not_checked_until_it_is_written_again(tmp_path: Path) -> None:
    (tmp_path / HOSTED_LOGS).write_text(f"+ {id_text(TOPICS[0])} 0 {id_text(HERE)} orders\n")
    first = HostedLogs(tmp_path)
    assert first.load() == 0
    first.tidy()
    assert [each.is_checked for each in (*first, *hosted(tmp_path))] == [False, True]


def test_what_changes_in_use_is_written_again(tmp_path: Path) -> None:
    writing = hosted(tmp_path)
    writing.add((HostedLog("orders", 0, TOPICS[0], HERE), HostedLog("orders", 1, TOPICS[0], HERE)))
    raw = (tmp_path / HOSTED_LOGS).read_bytes()
    assert not writing.scrub()
    for changed in (raw.replace(b"orders", b"orderr", 1), b"", raw[: len(raw) // 2]):
        (tmp_path / HOSTED_LOGS).write_bytes(changed)
        assert writing.scrub()
        assert (tmp_path / HOSTED_LOGS).read_bytes() == raw


def test_on_a_full_disk_an_earlier_versions_lines_stay_as_they_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / HOSTED_LOGS).write_text(f"+ {id_text(TOPICS[0])} 0 {id_text(HERE)} orders\n")

    def full(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, "no space")

    monkeypatch.setattr("fencepost.broker.hosted_logs.replace_file", full)
    assert set(hosted(tmp_path)) == {HostedLog("orders", 0, TOPICS[0], HERE)}
