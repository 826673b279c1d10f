"""Healthy clusters have no finding: nodes that died, moved and cleaned, stopped or copied while they ran."""

from contextlib import closing
from pathlib import Path

import pytest

from tests.audit.conftest import Recorded
from tests.audit.corpus import recording
from tests.audit.faults import engine

pytestmark = pytest.mark.slow


@pytest.mark.row("beyond.7")
@pytest.mark.parametrize("name", recording.names())
def test_a_healthy_cluster_has_no_finding(name: str, recorded: Recorded, tmp_path: Path) -> None:
    from fencepost.audit.engine.embedded import EmbeddedEngine

    with closing(EmbeddedEngine(str(tmp_path))) as embedded:
        found, _ = engine.audit(embedded, recorded(name), is_stopped=False)
    assert found == []
