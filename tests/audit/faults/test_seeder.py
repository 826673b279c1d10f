"""The seeder itself: a fault lies where it says, everything else stays as it was, checksums are right."""

from pathlib import Path
from random import Random

import pytest

from fencepost.records.batch import checked_header
from fencepost.records.invariant import CorruptData
from tests.audit.faults import harmless
from tests.audit.faults.cluster import unpacked
from tests.audit.faults.fault import Ground, NoPlace
from tests.audit.faults.kinds import KINDS, one_of_each, seed
from tests.audit.faults.tree import Entry, Log, Segment, Tree
from tests.audit.kafka import fixture
from tests.examples import seeds

ALL = [(kind, variant) for kind, variants in KINDS.items() for variant in variants]
IDS = [f"{kind}, {variant}".replace(" ", "-") for kind, variant in ALL]


@pytest.fixture(scope="module")
def ours(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return unpacked(tmp_path_factory.mktemp("ours"))


@pytest.fixture(scope="module")
def as_it_was(ours: Path) -> dict[Path, bytes]:
    """The files of ours, before any test."""
    return _files(ours)


@pytest.fixture(scope="module")
def kafkas(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return fixture.unpack(tmp_path_factory.mktemp("kafkas"))


def _files(root: Path) -> dict[Path, bytes]:
    return {each.relative_to(root): each.read_bytes() for each in root.rglob("*") if each.is_file()}


def test_a_tree_is_written_as_it_was_read(ours: Path, kafkas: Path) -> None:
    for root in (ours, kafkas):
        before = _files(root)
        Tree.read(root).write()
        assert _files(root) == before


@pytest.mark.parametrize(("kind", "variant"), ALL, ids=IDS)
def test_a_fault_is_planted_in_our_logs(
    kind: str, variant: str, ours: Path, as_it_was: dict[Path, bytes], tmp_path: Path
) -> None:
    (seeded,) = seed(ours, tmp_path / "copy", [(kind, variant)], Random(7))
    assert _files(ours) == as_it_was
    assert _files(tmp_path / "copy") != as_it_was
    places = seeded.planted.places()
    assert places
    for path, position in places:
        raw = path.read_bytes()
        assert 0 <= position < len(raw)
        if kind != "flipped byte":
            checked_header(raw, position)
    if kind == "flipped byte":
        with pytest.raises(CorruptData):
            Tree.read(tmp_path / "copy")
    else:
        Tree.read(tmp_path / "copy")


@pytest.mark.parametrize("number", seeds(range(5)))
def test_ten_faults_at_once_lie_in_ten_places(number: int, ours: Path, tmp_path: Path) -> None:
    random = Random(number)
    seeded = seed(ours, tmp_path / "copy", one_of_each(random), random)
    own = [seeded.planted.places()[0] for seeded in seeded]
    assert len(set(own)) == len(own)
    assert len(own) >= 8  # a variant may find no place beside the others


def test_the_other_replicas_of_a_changed_log_are_no_place_for_a_second_fault(ours: Path) -> None:
    """The changed one may have become the shorter one; what is planted into another would be written over."""
    log = next(each for each in Ground(Tree.read(ours), Random(1)).partitions() if len(each.entries) > 2)
    copies = [
        Log(Path(f"node-{node}"), node, log.topic, log.partition,
            [Segment(Path(f"node-{node}/0.log"), [Entry(each.raw) for each in log.entries])])
        for node in (1, 2)
    ]  # fmt: skip
    ground = Ground(Tree(ours, copies), Random(1))
    (first,) = ground.partitions()
    first.remove(first.entries[-1])
    ground.take(log=first)
    assert next(ground.tree.partitions()) is not first
    assert ground.partitions() == []


def test_one_producer_at_most_writes_after_its_coordinators_last_word(ours: Path) -> None:
    ground = Ground(Tree.read(ours), Random(1))
    ground.follow_coordinators()
    with pytest.raises(NoPlace):
        ground.follow_coordinators()


@pytest.mark.parametrize("name", harmless.HARMLESS)
def test_what_is_harmless_leaves_sound_logs(name: str, ours: Path, kafkas: Path, tmp_path: Path) -> None:
    done = []
    for number, root in enumerate((ours, kafkas)):
        try:
            done.append(harmless.change(root, tmp_path / str(number), name, Random(3)))
        except NoPlace:
            continue
        Tree.read(tmp_path / str(number))
    assert done


@pytest.mark.parametrize("name", ["shorter replica", "rolled"])
def test_a_last_file_of_one_batch_is_neither_shortened_nor_divided(name: str, ours: Path) -> None:
    ground = Ground(Tree.read(ours), Random(1))
    for log in ground.tree.logs:
        del log.segments[-1].entries[1:]
    with pytest.raises(NoPlace):
        harmless.HARMLESS[name](ground)
