"""The files of several servers: the highest transaction of a majority wins, less is for a look only.

``real_ensemble`` are the files of three servers of ZooKeeper 3.9.5. Server 1 was killed after three blocks,
the others after six.
"""

import shutil
from pathlib import Path

import pytest

from fencepost.bridge.ensemble import EnsembleTree, members, read_ensemble
from fencepost.bridge.files import ServerFiles
from fencepost.bridge.znodes import BLOCK_PATH, ZnodeBlock, parse_block
from fencepost.records.invariant import CorruptData

REAL = Path(__file__).parent / "real_ensemble"
ALONE = Path(__file__).parent / "real_files"
LAST_OF_THREE_BLOCKS, LAST_OF_SIX = 2_999, 5_999


@pytest.fixture
def servers(tmp_path: Path) -> Path:
    return Path(shutil.copytree(REAL, tmp_path / "servers"))


def read(servers: Path, *numbers: int, size: int | None = None) -> EnsembleTree:
    return read_ensemble([ServerFiles(servers / str(number)) for number in numbers], size)


def last_id(tree: EnsembleTree) -> int:
    znode = tree.chosen.znodes[BLOCK_PATH]
    block = parse_block(znode.data, znode.version)
    assert isinstance(block, ZnodeBlock)
    return block.last


@pytest.mark.parametrize("numbers", [(1, 2, 3), (3, 2, 1), (1, 2), (1, 3), (2, 3)], ids=str)
def test_any_majority_knows_every_block(servers: Path, numbers: tuple[int, ...]) -> None:
    tree = read(servers, *numbers)
    assert last_id(tree) == LAST_OF_SIX
    assert (tree.reasons, tree.size, tree.chosen.epoch) == ((), 3, 1)
    assert tree.chosen.number in (2, 3)


@pytest.mark.parametrize(("number", "last"), [(1, LAST_OF_THREE_BLOCKS), (2, LAST_OF_SIX)])
def test_one_server_of_three_is_for_a_look_only(servers: Path, number: int, last: int) -> None:
    tree = read(servers, number)
    assert last_id(tree) == last
    assert tree.reasons == (
        "whole files of 1 of 3 servers, 2 are needed: the others may hold later transactions",
    )


def test_the_servers_of_the_ensemble_are_in_its_tree(servers: Path) -> None:
    found = members(read(servers, 1).chosen.znodes)
    assert found is not None
    assert sorted(found) == [1, 2, 3]


def test_damaged_files_count_for_nothing(servers: Path) -> None:
    log = servers / "2" / "version-2" / "log.100000001"
    log.write_bytes(log.read_bytes().replace(b"block_end", b"block-end", 1))
    tree = read(servers, 1, 2, 3)
    assert (last_id(tree), tree.reasons, len(tree.unreadable)) == (LAST_OF_SIX, (), 1)
    reasons = " ".join(read(servers, 1, 2).reasons)
    assert "whole files of 1 of 3 servers" in reasons
    assert f"{log}, position" in reasons
    with pytest.raises(CorruptData, match="the checksum of a transaction fails"):
        read(servers, 2)


def test_files_that_lack_their_logs_count_for_nothing(servers: Path) -> None:
    for log in (servers / "1" / "version-2").glob("log.*"):
        log.unlink()
    assert read(servers, 1, 2, 3).reasons == ()
    reasons = " ".join(read(servers, 1, 2).reasons)
    assert "whole files of 1 of 3 servers" in reasons
    assert "dataLogDir" in reasons


def test_a_server_that_follows_a_later_leader_is_believed_before_one_with_more(servers: Path) -> None:
    """ZooKeeper elects by epoch first: what server 2 has more was never acknowledged."""
    (servers / "1" / "version-2" / "currentEpoch").write_text("2")
    tree = read(servers, 1, 2)
    assert (tree.chosen.number, last_id(tree)) == (1, LAST_OF_THREE_BLOCKS)


def test_the_same_server_twice_is_no_majority(servers: Path) -> None:
    shutil.copytree(servers / "2", servers / "again")
    tree = read_ensemble([ServerFiles(servers / "2"), ServerFiles(servers / "again")])
    assert tree.reasons[0] == "server 2 is given twice"
    assert "whole files of 1 of 3 servers" in tree.reasons[1]


def test_a_server_without_its_number_is_no_majority(servers: Path) -> None:
    (servers / "2" / "myid").unlink()
    reasons = read(servers, 1, 2).reasons
    assert "has no myid file" in reasons[0]
    assert "whole files of 1 of 3" in reasons[1]


def test_a_stranger_is_no_majority(servers: Path) -> None:
    (servers / "2" / "myid").write_text("7")
    assert "is no voting member: 1, 2, 3 are" in read(servers, 1, 2).reasons[0]


@pytest.mark.parametrize(("size", "expected"), [(3, None), (5, "5 servers were said")])
def test_a_size_that_is_said_is_compared(servers: Path, size: int, expected: str | None) -> None:
    reasons = read(servers, 1, 2, 3, size=size).reasons
    assert (expected is None) == (reasons == ())
    assert expected is None or expected in reasons[0]


def test_servers_of_two_ensembles_are_noticed(servers: Path) -> None:
    """Two servers at one transaction with different trees."""
    folder = servers / "3" / "version-2"
    (folder / "snapshot.0.gz").rename(folder / "snapshot.100000008.gz")
    (folder / "log.100000001").write_bytes(b"")
    assert "differ at transaction 0x100000008: of one ensemble?" in " ".join(read(servers, 1, 2, 3).reasons)


def test_one_that_always_stood_alone_is_its_own_majority() -> None:
    tree = read_ensemble([ServerFiles(ALONE)])
    assert (tree.size, tree.reasons) == (1, ())
    assert "3 servers were said" in read_ensemble([ServerFiles(ALONE)], 3).reasons[0]


def test_old_files_do_not_name_the_servers(servers: Path) -> None:
    """ZooKeeper 3.4 has no /zookeeper/config: the size must be said."""
    for number in (1, 2, 3):
        folder = servers / str(number) / "version-2"
        for path in folder.glob("snapshot.*"):
            path.unlink()
    assert "say how many the ensemble has" in read(servers, 1, 2).reasons[0]
    assert read(servers, 1, 2, size=3).reasons == ()
    assert "whole files of 2 of 5 servers" in read(servers, 1, 2, size=5).reasons[0]


def test_no_files_at_all_are_refused(tmp_path: Path) -> None:
    with pytest.raises(CorruptData, match="no server's files are given"):
        read_ensemble([])
    with pytest.raises(FileNotFoundError):
        read_ensemble([ServerFiles(tmp_path / "nowhere")])
