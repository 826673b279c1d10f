"""``storage format`` and ``storage info`` of a node with several log directories."""

import json
from pathlib import Path
from uuid import UUID

import pytest

from fencepost.settings.node_identity import id_text, read_identity
from tests.harness.command import here

Capture = pytest.CaptureFixture[str]


def test_every_log_directory_has_an_id_of_its_own(tmp_path: Path, capsys: Capture) -> None:
    file = tmp_path / "node.properties"
    settings = (
        "node.id=1\nprocess.roles=controller\nlisteners=CONTROLLER://127.0.0.1:9192\nmetadata.log.dir=meta\n"
        "controller.quorum.voters=1@127.0.0.1:9292\ncontroller.quorum.bootstrap.servers=127.0.0.1:9192\n"
        "quorum.secret.file=secret\n"
    )
    file.write_text(settings + "log.dirs=a,b\n")
    cluster_id, directory_id = id_text(UUID(int=1 << 80)), id_text(UUID(int=1 << 81))
    words = ["storage", "format", "-c", file, "-t", cluster_id]
    assert here(capsys, *words, "--initial-controllers", f"1@{directory_id}").status == 0
    ids = [id_text(read_identity(tmp_path / name).directory_id) for name in ("meta", "a", "b")]
    assert ids[0] == directory_id
    assert len(set(ids)) == 3
    assert read_identity(tmp_path / "a").initial_voters is None

    file.write_text(settings + "log.dirs=a,b,c\n")  # one more disk
    assert here(capsys, *words).status == 1
    assert not (tmp_path / "c").exists()
    assert here(capsys, *words, "--ignore-formatted").status == 0
    after = [id_text(read_identity(tmp_path / name).directory_id) for name in ("meta", "a", "b", "c")]
    assert after[:3] == ids
    (row,) = json.loads(here(capsys, "storage", "info", "-c", file, "--format", "json").stdout)["nodes"]
    assert row["log_dirs"] == dict(zip([str(tmp_path / name) for name in "abc"], after[1:], strict=True))
