"""Commands as others see them: exit statuses, JSON and its schema, errors in sentences, the page about it."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import msgspec
import pytest
from click.shell_completion import BashComplete

from fencepost.cli.documents.base import Failure
from fencepost.cli.documents.catalogue import DOCUMENTS, schema, schema_of
from fencepost.cli.main import fencepost as root
from fencepost.cli.output import in_snake_case
from fencepost.cluster.console import EXIT_STATUSES, NotAuthorized
from tests.harness.command import here
from tests.together import table

PAGE = (Path(__file__).parents[2] / "docs" / "commands.md").read_text("utf-8")
Capture = pytest.CaptureFixture[str]


def leaves(command: click.Command, words: tuple[str, ...] = ()) -> Iterator[tuple[str, click.Command]]:
    """Every command that does something, by its words."""
    if not isinstance(command, click.Group):
        yield " ".join(words), command
        return
    context = click.Context(command)
    for name in command.list_commands(context):
        found = command.get_command(context, name)
        assert found is not None
        yield from leaves(found, (*words, name))


LEAVES = dict(leaves(root))


def test_every_command_with_json_has_a_schema_and_no_other() -> None:
    printing = {
        name for name, each in LEAVES.items() if any(one.name == "output_format" for one in each.params)
    }
    assert printing == {name for name in DOCUMENTS if not name.startswith("demo ")}
    assert printing ^ set(LEAVES) == {
        "container probe", "container run", "node", "schema", "storage random-uuid",
    }  # fmt: skip


def test_the_schema_is_printed_whole_and_by_command(capsys: Capture) -> None:
    whole = json.loads(here(capsys, "schema").stdout)
    assert whole == json.loads(json.dumps(schema()))
    assert set(whole["commands"]) == set(DOCUMENTS)
    for reference in (*whole["commands"].values(), whole["error"]):
        assert reference["$ref"].removeprefix("#/$defs/") in whole["$defs"]
    assert json.loads(here(capsys, "schema", "quorum", "describe").stdout) == schema_of("quorum describe")
    refused = here(capsys, "schema", "quorum")
    assert (refused.status, "no command 'quorum' prints JSON" in refused.stderr) == (2, True)


def test_heads_are_keys_in_snake_case_and_names_stay() -> None:
    heads = {
        "LOG-END-OFFSET": 1,
        "COORDINATOR (ID)": "x",
        "#MEMBERS": 2,
        "Duration(min)": 3,
        "CurrentVoters": [{"directoryId": None}],
        "Configs": {"Upper.Case": "1"},
        "TopicPartition": ({"LeaderEpoch": 1},),
    }
    assert in_snake_case(heads) == {
        "log_end_offset": 1,
        "coordinator_id": "x",
        "members": 2,
        "duration_min": 3,
        "current_voters": [{"directory_id": None}],
        "configs": {"Upper.Case": "1"},
        "topic_partition": [{"leader_epoch": 1}],
    }


REFUSALS = [
    pytest.param(("ps", "--dir", "missing"), 3, "there is no cluster in", id="unreadable"),
    pytest.param(("ps", "--nope"), 2, "No such option", id="usage"),
    pytest.param(("kill",), 2, "Missing argument", id="missing"),
    pytest.param(("up", "-n", "0", "--dir", "c"), 2, "expected 1 to", id="count"),
    pytest.param(("up", "--dir", "file"), 1, "file is not a folder", id="failed"),
    pytest.param(("ps", "--dir", "x" * 300), 3, "File name too long", id="path"),
]


@pytest.mark.parametrize(("words", "status", "sentence"), REFUSALS)
def test_an_error_is_a_sentence_and_in_json_a_document(
    capsys: Capture,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    words: tuple[str, ...],
    status: int,
    sentence: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "file").touch()
    plain = here(capsys, *words)
    assert (plain.status, plain.stdout) == (status, "")
    assert sentence in plain.stderr
    assert "Error: " in plain.stderr
    for form in (("--format", "json"), ("--format=json",)):
        said = here(capsys, *words, *form)
        failure = msgspec.json.decode(said.stderr, type=Failure)
        assert (said.status, failure.error.exit_status) == (status, status)
        assert sentence in failure.error.message
    text = here(capsys, *words, "--format", "json", "--format", "text")
    assert text.stderr == plain.stderr
    assert [each.name for each in tmp_path.iterdir()] == ["file"], "what was refused left something"


@table("name", sorted(name for name in DOCUMENTS if not name.startswith("demo ")))
def test_each_command_says_in_json_why_it_does_nothing(capsys: Capture, name: str) -> None:
    """``here`` holds what it prints against the schema."""
    said = here(capsys, *name.split(), "--format", "json", "--no-such-option")
    assert (said.status, said.stdout) == (2, "")
    assert "--no-such-option" in msgspec.json.decode(said.stderr, type=Failure).error.message


@pytest.mark.parametrize(
    ("raised", "status"),
    [(NotAuthorized("no"), 4), (KeyboardInterrupt(), 130), (click.Abort(), 130)],
    ids=["refused", "ctrl-c", "abort"],
)
def test_the_other_exit_statuses(
    capsys: Capture, monkeypatch: pytest.MonkeyPatch, raised: BaseException, status: int
) -> None:
    def opened(*_: Any) -> None:
        raise raised

    monkeypatch.setattr("fencepost.cli.cluster.open_cluster", opened)
    assert here(capsys, "ps").status == status
    assert here(capsys, "--version").status == 0


def test_exit_statuses_are_on_the_page_and_in_the_help(capsys: Capture) -> None:
    rows = re.findall(r"^\| (\d+) \| (.+?) \|$", PAGE, re.MULTILINE)
    assert {int(status): means for status, means in rows} == EXIT_STATUSES
    helped = " ".join(here(capsys, "--help").stdout.split())
    for status, means in EXIT_STATUSES.items():
        assert f"{status} {means}" in helped
    assert {status for *_, status, _ in (each.values for each in REFUSALS)} | {0, 4, 130} == set(
        EXIT_STATUSES
    )


def test_page_help_and_completion_have_the_same_commands(capsys: Capture) -> None:
    listed = re.findall(r"^\| `([a-z -]+)` \| (.*?) \|$", PAGE, re.MULTILINE)
    assert [name for name, _ in listed] == list(LEAVES)
    for name, text in listed:
        assert text == LEAVES[name].get_short_help_str(200), f"{name}: run tests/cli/commands_page.py"
    helped = here(capsys, "--help").stdout
    completion = BashComplete(root, {}, "fencepost", "_FENCEPOST_COMPLETE")
    completed = [each.value for each in completion.get_completions([], "")]
    assert completed == sorted({name.split()[0] for name in LEAVES}, key=completed.index)
    assert {name.split()[0] for name in LEAVES} == set(completed)
    assert all(re.search(rf"^  {name} ", helped, re.MULTILINE) for name in completed)
    assert [each.value for each in completion.get_completions(["ps"], "--f")] == ["--format"]
