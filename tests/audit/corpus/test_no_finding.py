"""Healthy clusters have no finding: nodes that died, moved and cleaned, stopped or copied while they ran."""

from contextlib import closing
from pathlib import Path

import pytest

from tests.audit.corpus import recording
from tests.audit.faults import engine

pytestmark = pytest.mark.slow


@pytest.mark.row("beyond.7")
@pytest.mark.parametrize("name", recording.names())
def test_a_healthy_cluster_has_no_finding(name: str, tmp_path: Path) -> None:
    from fencepost.audit.engine.embedded import EmbeddedEngine

    root = recording.unpack(tmp_path, name)
    (tmp_path / "engine").mkdir()
    with closing(EmbeddedEngine(str(tmp_path / "engine"))) as embedded:
        found, _ = engine.audit(embedded, root, is_stopped=False)
    assert found == []
