"""Who may write an ingest, what a commit makes count, what is deleted: by several writers, one of them
dead.
"""

import errno
import os
import time
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest

from fencepost.audit.decode import local
from fencepost.audit.source.remote import Kept
from fencepost.audit.tables import place as places
from fencepost.audit.tables import writing
from fencepost.audit.tables.ingest import ingest
from fencepost.audit.tables.layout import STORED, Part, document_name, reservation_name
from fencepost.audit.tables.merging import merge
from fencepost.audit.tables.parts import PartWriter
from fencepost.audit.tables.place import LocalPlace, place_of
from fencepost.audit.tables.refused import TablesRefused
from fencepost.audit.tables.snapshot import required, snapshot
from fencepost.audit.tables.writing import Busy, commit, reserved, sweep
from tests.audit.faults import cluster
from tests.audit.tables.rows import in_memory, kept, meant, on_disk
from tests.audit.tables.workers import Here
from tests.together import table

ROOT, OTHER = "/var/lib/kafka", "/var/lib/other"


@pytest.fixture
def tables(tmp_path: Path) -> LocalPlace:
    return new_place(tmp_path)


def new_place(folder: Path) -> LocalPlace:
    """As another process sees it."""
    found = place_of(str(folder / "tables"))
    assert isinstance(found, LocalPlace)
    return found


def a_part(
    place: LocalPlace, number: int, path: str = f"{ROOT}/t-0/0.log", first: int | None = None
) -> list[Part]:
    """A row of ``files`` and none of other tables."""
    row: dict[str, object] = dict.fromkeys(STORED["files"].names) | {
        "path": path,
        "stop": "end",
        "kind": "segment",
        "size": 1,
    }
    row["first_ingest"] = number if first is None else first
    with PartWriter(place, number, "files") as writer:
        writer.write("files", pa.RecordBatch.from_pylist([row], schema=STORED["files"]))
        return [made.part for made in writer.close()]


def written(place: LocalPlace, root: str = ROOT, first: int | None = None) -> int:
    with reserved(place, [root]) as taken:
        commit(place, taken, a_part(place, taken.number, f"{root}/t-0/0.log", first), {root: 5})
    return taken.number


@pytest.mark.parametrize("linked", [True, False], ids=["hard-links", "a-file-system-without-links"])
def test_a_name_is_put_once(tables: LocalPlace, monkeypatch: pytest.MonkeyPatch, linked: bool) -> None:
    if not linked:
        monkeypatch.setattr(os, "link", _no_links)
    assert tables.put_new("_ingests/a", b"one\n")
    assert not tables.put_new("_ingests/a", b"two\n")
    assert not tables.reserve("_ingests/a", b"three\n")
    assert tables.read("_ingests/a") == b"one\n"
    assert [each.name for each in tables.kept("_ingests")] == ["a"]  # no half of it stays


def test_a_disk_that_refuses_is_not_taken_for_one_without_links(
    tables: LocalPlace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "link", _full)
    with pytest.raises(OSError, match="No space"):
        tables.put_new("a", b"")
    assert tables.kept("") == []


def test_two_writers_of_other_directories_take_one_number_each(tmp_path: Path, tables: LocalPlace) -> None:
    with reserved(tables, [ROOT]) as first, reserved(new_place(tmp_path), [OTHER]) as second:
        assert (first.number, second.number) == (1, 2)
        commit(tables, second, a_part(tables, 2, f"{OTHER}/t-0/0.log"), {OTHER: 1})
        commit(tables, first, a_part(tables, 1), {ROOT: 2})
    assert snapshot(tables).roots() == {ROOT: 2, OTHER: 1}
    assert kept(tmp_path / "tables") == meant(tmp_path / "tables")


@table(
    ("roots", "is_refused"),
    [
        pytest.param([ROOT], True, id="the-same"),
        pytest.param([f"{ROOT}/topic-0"], True, id="below"),
        pytest.param([OTHER, "/var/lib"], True, id="above"),
        pytest.param([f"{ROOT}-2"], False, id="a-name-that-begins-alike"),
        pytest.param(["s3a://bucket/var/lib/kafka"], False, id="elsewhere"),
    ],
)
def test_a_writer_of_the_same_directories_is_refused_by_name(
    tmp_path: Path, roots: list[str], is_refused: bool
) -> None:
    tables, other = new_place(tmp_path), new_place(tmp_path)
    with reserved(tables, [ROOT]):
        if is_refused:
            with (
                pytest.raises(Busy, match=f"number 1, by .* process {os.getpid()}, of {ROOT}"),
                reserved(other, roots),
            ):
                pass
        else:
            with reserved(other, roots) as taken:
                assert taken.number == 2
    with reserved(other, roots):
        pass
    assert kept(tmp_path / "tables") == set()


def test_the_writer_with_the_lower_number_goes_on(tmp_path: Path, tables: LocalPlace) -> None:
    """It looks when the other has reserved already: of the two it is not the one to give way."""
    other = new_place(tmp_path)

    tables.reserve(reservation_name(1), b'{"writer":"a","roots":["%s"]}' % ROOT.encode())
    other.reserve(reservation_name(2), b'{"writer":"b","roots":["%s"]}' % ROOT.encode())
    writing._refuse_overlap(tables, 1, [ROOT])
    with pytest.raises(Busy, match="number 1, by a"):
        writing._refuse_overlap(other, 2, [ROOT])


def test_a_dead_writer_is_abandoned_and_what_it_left_is_deleted(tmp_path: Path, tables: LocalPlace) -> None:
    dead = new_place(tmp_path)
    with reserved(dead, [ROOT]) as taken:
        a_part(dead, taken.number)
        os.close(dead._held.pop(reservation_name(1)))  # the kernel does that when a process dies
        number = written(tables)
        assert number == 2
        with pytest.raises(TablesRefused, match="ingest 1 was taken for dead"):
            commit(dead, taken, a_part(dead, 1), {ROOT: 9})
    half, old_half = (tmp_path / "tables" / "_ingests" / f".{name}" for name in ("half", "old-half"))
    half.touch()
    old_half.touch()
    os.utime(old_half, (0, 0))
    sweep(tables)
    assert half.exists()
    assert not old_half.exists()
    half.unlink()
    assert set(snapshot(tables).live) == {1, 2}
    assert snapshot(tables).live[1].parts == ()
    assert kept(tmp_path / "tables") == meant(tmp_path / "tables")


def test_a_writer_that_lives_is_never_abandoned(tmp_path: Path, tables: LocalPlace) -> None:
    alive = new_place(tmp_path)
    with reserved(alive, [ROOT]) as taken:
        parts = a_part(alive, taken.number)
        written(tables, OTHER)
        sweep(tables)
        commit(alive, taken, parts, {ROOT: 1})
    assert set(required(tables).live) == {1, 2}
    assert kept(tmp_path / "tables") == meant(tmp_path / "tables")


def test_without_locks_it_is_dead_when_nothing_came_for_long(
    tmp_path: Path, tables: LocalPlace, monkeypatch: pytest.MonkeyPatch
) -> None:
    import fcntl

    monkeypatch.setattr(fcntl, "flock", _no_locks)
    other = new_place(tmp_path)
    with reserved(other, [ROOT]) as taken:
        part = tmp_path / "tables" / a_part(other, taken.number)[0].name
        reservation = tmp_path / "tables" / reservation_name(1)
        long_ago = time.time() - places.DEAD_SECONDS - 60
        os.utime(reservation, (long_ago, long_ago))
        with pytest.raises(Busy):  # it wrote a part a moment ago
            written(tables)
        os.utime(part, (long_ago, long_ago))
        assert written(tables) == 2


def test_a_commit_that_finds_its_name_taken_is_refused(tables: LocalPlace) -> None:
    with reserved(tables, [ROOT]) as taken:
        tables.put_new(document_name(taken.number), b"{}\n")
        with pytest.raises(TablesRefused, match="taken for dead"):
            commit(tables, taken, [], {})
    assert tables.read(document_name(1)) == b"{}\n"


def test_half_a_document_does_not_count(tables: LocalPlace) -> None:
    written(tables)
    tables.put_new(document_name(2), b'{"version":3,"ingest":2,"parts":[]')
    assert set(snapshot(tables).live) == {1}


def test_rows_below_the_first_ingest_of_their_file_do_not_count(tables: LocalPlace) -> None:
    written(tables, first=1)
    written(tables, OTHER)
    written(tables, first=3)  # read anew
    found = snapshot(tables)
    assert found.dropped(1) == {f"{ROOT}/t-0/0.log"}
    assert found.dropped(2) == found.dropped(3) == frozenset()
    assert found.dead() == {1}
    written(tables, first=3)  # it grew
    assert snapshot(tables).dropped(3) == frozenset()


def test_a_reader_sees_no_ingest_without_what_it_builds_on(
    tables: LocalPlace, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A listing that misses a name that came while it was made, and has one that came after that."""
    written(tables)
    written(tables, first=1)
    listed = tables.kept
    seen: list[str] = []

    def misses_one(folder: str) -> list[Kept]:
        seen.append(folder)
        return listed(folder)[len(seen) == 1 :]

    monkeypatch.setattr(tables, "kept", misses_one)
    assert set(snapshot(tables).live) == {1, 2}


def test_nothing_is_merged_while_one_that_began_before_writes(
    tmp_path: Path, tables: LocalPlace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fencepost.audit.tables.merging.SMALL_INGESTS_MAX", 1)
    written(tables, OTHER)
    written(tables, f"{OTHER}-2")
    with reserved(new_place(tmp_path), [ROOT]):
        assert not merge(tables)
    assert merge(tables)
    assert not merge(tables)
    found = required(tables)
    assert set(found.live) == {3}
    assert found.live[3].replaces == (1, 2)
    assert {row["path"] for row in found.present()} == {f"{OTHER}/t-0/0.log", f"{OTHER}-2/t-0/0.log"}
    assert found.roots() == {OTHER: 5, f"{OTHER}-2": 5}


def test_fifty_brokers_with_the_same_paths(tmp_path: Path) -> None:
    """Each by its name. Without names the second is refused: its files would replace the first one's."""
    tables, root = tmp_path / "tables", tmp_path / "var"
    nodes = node_directories(tmp_path)

    def at(node: Path, ingested: Callable[[], None]) -> None:
        node.rename(root)
        ingested()
        root.rename(node)

    at(nodes[0], lambda: _ingested(root, tables, ""))
    with pytest.raises(TablesRefused, match=r"is one of node 2 here: .* \(--host NAME\)"):
        at(nodes[1], lambda: _ingested(root, tables, ""))


def test_many_brokers_are_one_audit(tmp_path: Path) -> None:
    tables, root = tmp_path / "tables", tmp_path / "var"
    nodes = node_directories(tmp_path)
    expected = None
    for turn in range(2):
        for broker, node in enumerate(nodes):
            node.rename(root)
            _ingested(root, tables, f"broker-{broker}.example")
            root.rename(node)
        found = on_disk(tables)
        everything = in_memory(local.tables([str(node) for node in nodes]))
        assert {name: rows.total() for name, rows in found.items()} == {
            name: rows.total() for name, rows in everything.items()
        }
        assert expected in {None, frozenset(found["files"])}
        expected = frozenset(found["files"])
        assert required(place_of(str(tables))).roots().keys() == {
            f"file://broker-{broker}.example{root}" for broker in range(3)
        }, turn


def node_directories(folder: Path) -> list[Path]:
    """Of the three nodes of a cluster of ours."""
    found = sorted(path.parent for path in cluster.unpacked(folder / "logs").rglob("meta.properties"))
    assert len(found) == 3
    return found


def _ingested(root: Path, tables: Path, machine: str) -> None:
    ingest(Here(), [str(root)], str(tables), machine=machine)


def _no_links(*_: object) -> None:
    raise OSError(errno.EPERM, "Operation not permitted")


def _full(*_: object) -> None:
    raise OSError(errno.ENOSPC, "No space left on device")


def _no_locks(*_: object) -> None:
    raise OSError(errno.ENOLCK, "No locks available")
