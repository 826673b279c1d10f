"""Every story in ``stories/`` goes as it is written. See transcript.py for the format and --rewrite."""

from pathlib import Path

import pytest

from tests.transcripts.offsets import OffsetStory
from tests.transcripts.paper import Paper
from tests.transcripts.transactions import TransactionStory
from tests.transcripts.transcript import Step, parse, render, rerun, stories
from tests.transcripts.voters import VoterStory

FOLDER = Path(__file__).with_name("stories")


@pytest.mark.parametrize("story", stories(FOLDER), ids=lambda path: path.stem)
def test_transcript(story: Path, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    written = story.read_text("utf-8")
    steps = parse(written)
    world = _world(steps[0].command, tmp_path)
    try:
        now = render(rerun(steps, world.perform))
    finally:
        if not isinstance(world, Paper | OffsetStory):
            world.close()
    if request.config.getoption("--rewrite", default=False):
        story.write_text(now, "utf-8")
    else:
        assert now.splitlines() == written.splitlines()


def _world(first: str, directory: Path) -> Paper | VoterStory | TransactionStory | OffsetStory:
    if first.startswith("offsets at level "):
        return OffsetStory(int(first.rpartition(" ")[2]))
    if first == "transactions":
        return TransactionStory()
    return VoterStory(directory) if first.startswith("voters") else Paper()


def test_a_transcript_comes_back() -> None:
    text = "# why\n# and how\nact n1\n----\none\ntwo\n\nact n2\n----\n"
    steps = parse(text)
    assert steps == [
        Step(("# why", "# and how"), "act n1", ("one", "two")),
        Step((), "act n2", ()),
    ]
    assert render(steps) == text


def test_a_command_without_a_rule_is_refused() -> None:
    with pytest.raises(ValueError, match="expected '----' after 'act'"):
        parse("act\nact\n----\n")
