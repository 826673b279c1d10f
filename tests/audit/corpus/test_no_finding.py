"""Healthy clusters have no finding: nodes that died, moved and cleaned, stopped or copied while they ran.

Of one that was stopped all but a hundredth is decided of what its coordinators' logs still tell.
"""

from contextlib import closing
from pathlib import Path

import pytest

from tests.audit.conftest import Recorded
from tests.audit.corpus import recording

pytestmark = pytest.mark.slow


@pytest.mark.row("beyond.7")
@pytest.mark.parametrize("name", recording.names())
def test_a_healthy_cluster_has_no_finding(name: str, recorded: Recorded, tmp_path: Path) -> None:
    from fencepost.audit.engine.embedded import EmbeddedEngine
    from tests.audit.corpus.share import SHARE_MAX, share_of
    from tests.audit.faults import engine

    with closing(EmbeddedEngine(str(tmp_path))) as embedded:
        relations = engine.relations_of(embedded, recorded(name), is_stopped=False)
        found, _ = engine.judged(relations)
        share = share_of(relations)
    assert found == []
    if name.endswith("-stopped"):
        assert share.judged > 100
        assert share.unknown_share <= SHARE_MAX, share
