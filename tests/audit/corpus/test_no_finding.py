"""Healthy clusters have no finding: nodes that died, moved and cleaned, stopped or copied while they ran."""

from contextlib import closing
from pathlib import Path

import pytest

from tests.audit.corpus import recording
from tests.audit.faults import engine

pytestmark = pytest.mark.slow
TAIL = "only high watermarks show that a dead leader alone had a batch, and the checks do not get these yet"


@pytest.mark.row("beyond.7")
@pytest.mark.parametrize("name", recording.names())
def test_a_healthy_cluster_has_no_finding(name: str, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    from fencepost.audit.engine.embedded import EmbeddedEngine

    if name == "kafka-4.4.0-stopped":
        request.applymarker(pytest.mark.xfail(reason=TAIL))
    root = recording.unpack(tmp_path, name)
    (tmp_path / "engine").mkdir()
    with closing(EmbeddedEngine(str(tmp_path / "engine"))) as embedded:
        found, _ = engine.audit(embedded, root)
    assert found == []
