"""Healthy clusters have no finding: nodes that died, moved and cleaned, stopped or copied while they ran.

Of one that was stopped all but a hundredth is decided of what its coordinators' logs still tell.
"""

import shutil
from collections.abc import Iterator
from contextlib import closing
from itertools import pairwise
from pathlib import Path

import pytest

from tests.audit.conftest import Recorded
from tests.audit.corpus import recording

pytestmark = pytest.mark.slow


@pytest.mark.row("beyond.7")
@pytest.mark.parametrize("name", recording.names())
def test_a_healthy_cluster_has_no_finding(name: str, recorded: Recorded, tmp_path: Path) -> None:
    from fencepost.audit.engine.embedded import EmbeddedEngine
    from tests.audit.corpus.share import share_of
    from tests.audit.faults import engine

    with closing(EmbeddedEngine(str(tmp_path))) as embedded:
        relations = engine.relations_of(embedded, recorded(name), is_stopped=False)
        found, _ = engine.judged(relations)
        share = share_of(relations)
    assert found == []
    if name.endswith("-stopped"):
        assert share.is_right, share


@pytest.mark.parametrize("name", [each for each in recording.names() if each.startswith("kafka")])
def test_nor_has_one_whose_metadata_log_begins_at_a_snapshot(
    name: str, recorded: Recorded, tmp_path: Path
) -> None:
    """Retention has taken the records of its elections, and of topics that were deleted."""
    from fencepost.audit.engine.embedded import EmbeddedEngine
    from tests.audit.faults import engine

    root = tmp_path / "copy"
    shutil.copytree(recorded(name), root)
    assert [*_without_log(root)]
    with closing(EmbeddedEngine(str(tmp_path))) as embedded:
        found, _ = engine.audit(embedded, root, is_stopped=False)
    assert found == []


def _without_log(root: Path) -> Iterator[Path]:
    """Takes out what the newest snapshot of each node's metadata replaces; the segments that are gone."""
    for folder in root.rglob("__cluster_metadata-0"):
        *older, newest = sorted(folder.glob("*.checkpoint"))
        end = int(newest.name.partition("-")[0])
        segments = sorted(folder.glob("*.log"))
        replaced = [each for each, following in pairwise(segments) if int(following.stem) <= end]
        for each in (*older, *replaced):
            each.unlink()
        yield from replaced
