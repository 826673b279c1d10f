"""``snapshot create`` while another one takes a snapshot of the same node."""

import threading
from collections.abc import Iterable
from pathlib import Path

import msgspec
import pytest

from fencepost.cli.main import main
from fencepost.cli.snapshot import BY_HAND, create
from fencepost.cluster.local_cluster import LocalCluster, create_cluster
from fencepost.controller.view import ImageHeader
from fencepost.records.types import ImageVersion, LogIndex, NodeId, Term
from fencepost.snapshots import snapshot
from fencepost.snapshots.reader import APPLIED
from fencepost.snapshots.store import Store
from tests.harness.command import contents, here


@pytest.fixture
def cluster(tmp_path: Path) -> LocalCluster:
    """One node, which has run."""
    made = create_cluster(tmp_path / "c", 1, 9092)
    store = Store.open(made.node(1).config.directory / "store")
    store.image.header = ImageHeader(ImageVersion(8), Term(1), NodeId(1), (4, 0, 0))
    store.meta_put(APPLIED, msgspec.msgpack.encode((LogIndex(8), Term(1))))
    store.flush()
    store.close()
    return made


def test_two_at_once_take_one_snapshot_after_the_other(
    cluster: LocalCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At each file of the first: the second waits, and both are sound."""
    words = ["snapshot", "create", "--dir", str(cluster.directory), "--node", "1", "--format", "json"]
    write_file = snapshot._write_file
    for number in range(3):
        left, second = number, None

        def begun(path: Path, chunks: Iterable[bytes]) -> tuple[int, str]:
            nonlocal left, second
            left -= 1
            written = write_file(path, chunks)
            if left == -1:
                second = threading.Thread(target=create.callback, args=(cluster.directory, 1, "json"))
                second.start()
                second.join(0.3)
            return written

        with monkeypatch.context() as patch:
            patch.setattr(snapshot, "_write_file", begun)
            with pytest.raises(SystemExit) as ended:
                main(words)  # what both print is in one stream, in whichever order
            assert second is not None
            second.join()
        assert not ended.value.code
        for path in snapshot.listed(cluster.node(1).config.directory / BY_HAND):
            snapshot.verify(path)


def test_what_a_killed_one_left_goes_with_the_next(
    cluster: LocalCluster, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = cluster.node(1).config.directory / BY_HAND
    (folder / "0-0.part").mkdir(parents=True)
    made = here(capsys, "snapshot", "create", "--dir", cluster.directory, "--node", 1, "--format", "json")
    assert [Path(each["snapshot"]) for each in contents(made.stdout)] == snapshot.listed(folder)
    assert not list(folder.glob("*.part"))
