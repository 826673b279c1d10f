"""Logs and tables in an object store: the same rows, the same one winner, and one sentence where it fails."""

import json
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("moto")
pytest.importorskip("s3fs")

from fencepost.audit.decode import local
from fencepost.audit.source.files import ANY
from fencepost.audit.source.remote import remote, use
from fencepost.audit.tables import place as places
from fencepost.audit.tables import writing
from fencepost.audit.tables.ingest import ingest
from fencepost.audit.tables.layout import reservation_name
from fencepost.audit.tables.place import RemotePlace, place_of
from fencepost.audit.tables.refused import TablesRefused
from fencepost.audit.tables.snapshot import required
from fencepost.audit.tables.writing import Busy, reserved, sweep
from tests.audit.faults import cluster
from tests.audit.tables import s3
from tests.audit.tables.rows import in_memory, on_disk
from tests.audit.tables.workers import Here
from tests.harness.command import here

pytestmark = pytest.mark.slow

TABLES = "s3a://audit/tables"


@pytest.fixture(scope="module")
def properties() -> Iterator[dict[str, str]]:
    with s3.serving("audit") as found:
        yield found


@pytest.fixture
def place(properties: dict[str, str]) -> RemotePlace:
    use(properties)
    found = place_of(TABLES)
    assert isinstance(found, RemotePlace)
    for kept in found.kept(""):
        found.remove(kept.name)
    return found


@pytest.mark.row("card.8")
def test_tables_and_logs_in_a_bucket(place: RemotePlace, tmp_path: Path) -> None:
    root = next(cluster.unpacked(tmp_path / "logs").rglob("meta.properties")).parent
    expected = in_memory(local.tables([str(root)]))
    ingest(Here(), [str(root)], TABLES)
    assert on_disk(TABLES) == expected
    assert ingest(Here(), [str(root)], TABLES).number is None
    place.files.file_system.put(str(root), "audit/logs", recursive=True)
    report = ingest(Here(), ["s3a://audit/logs"], str(tmp_path / "tables"))
    assert report.rows == {name: rows.total() for name, rows in expected.items()}
    stored = next(path for path in sorted(root.rglob("*.log")) if path.stat().st_size > 5000)
    name = f"audit/logs/{stored.relative_to(root)}"
    place.files.file_system.pipe_file(name, stored.read_bytes()[:3000])
    anew = dict(ingest(Here(), ["s3a://audit/logs"], str(tmp_path / "tables")).read_anew)
    assert "truncated" in anew[f"s3a://{name}"]
    place.files.file_system.rm("audit/logs", recursive=True)


@pytest.mark.row("card.8")
def test_brokers_fill_a_bucket_and_one_check_is_of_all(
    place: RemotePlace, properties: dict[str, str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """By the command line, without Java."""
    conf = [word for key, value in properties.items() for word in ("--conf", f"spark.hadoop.{key}={value}")]
    everything = cluster.unpacked(tmp_path / "logs")
    root = tmp_path / "var"
    for number, node in enumerate(sorted(each.parent for each in everything.rglob("meta.properties"))):
        node.rename(root)
        words = (str(root), "--host", f"broker-{number}", "--max-mb-per-s", "1000", "--engine", "embedded")
        ended = here(capsys, "audit", "ingest", *words, "--tables", TABLES, *conf)
        assert (ended.status, ended.stderr) == (0, "")
        root.rename(node)
    embedded = ("--engine", "embedded", "--format", "json")
    joined = here(capsys, "audit", "check", "--tables", TABLES, *embedded, *conf)
    alone = here(capsys, "audit", "check", str(everything), *embedded)
    assert joined.status == alone.status
    found, expected = json.loads(joined.stdout), json.loads(alone.stdout)
    assert (found["verdict"], found["checks"]) == (expected["verdict"], expected["checks"])
    kept = {each.name for each in place.kept("products")}
    assert {"00000001/_SUCCESS", "00000001/findings/part-0.parquet"} <= kept


def test_of_many_writers_of_one_name_one_wins(place: RemotePlace) -> None:
    won: list[int] = []

    def put(number: int) -> None:
        if place.put_new("_ingests/x", str(number).encode()):
            won.append(number)

    threads = [threading.Thread(target=put, args=(number,)) for number in range(8)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert len(won) == 1
    assert place.read("_ingests/x") == str(won[0]).encode()
    assert place.put_new("_ingests/x", str(won[0]).encode())  # a repetition whose answer was lost


def test_a_writer_is_dead_when_nothing_came_for_long(
    place: RemotePlace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = place_of(TABLES)
    with reserved(other, ["/logs"]) as taken:
        with pytest.raises(Busy, match="number 1"), reserved(place, ["/logs"]):
            pass
        with monkeypatch.context() as patched:
            patched.setattr(places, "DEAD_SECONDS", -60)
            sweep(place)
        assert reservation_name(1) not in {f"_ingests/{each.name}" for each in place.kept("_ingests")}
        with pytest.raises(TablesRefused, match="taken for dead"):
            writing.commit(other, taken, [], {})
    assert required(place).live[1].parts == ()


@pytest.mark.parametrize(
    ("uri", "properties_", "reason"),
    [
        pytest.param(
            "s3a://nowhere/tables",
            {},
            "s3a://nowhere: The specified bucket does not exist",
            id="no-such-bucket",
        ),
        pytest.param(
            "s3a://audit/t", {"fs.s3a.endpoint": "http://127.0.0.1:1"}, "s3a://audit: ", id="no-server"
        ),
    ],
)
def test_a_fault_is_one_sentence(
    properties: dict[str, str], uri: str, properties_: dict[str, str], reason: str
) -> None:
    use({**properties, **properties_})
    with pytest.raises(OSError, match=reason) as caught:
        ingest(Here(), ["/nowhere"], uri)
    assert "\n" not in str(caught.value)


def test_no_credentials(properties: dict[str, str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("HOME", str(tmp_path))
    use({"fs.s3a.endpoint": properties["fs.s3a.endpoint"], "fs.s3a.path.style.access": "true"})
    with pytest.raises(
        OSError, match=r"^s3a://audit: no credentials were found; set spark\.hadoop\.fs\.s3a\.access\.key"
    ):
        ingest(Here(), ["/nowhere"], TABLES)
    # Logs there are rows of `files` with that sentence.
    report = ingest(Here(), ["s3a://audit/logs"], str(tmp_path / "tables"))
    assert "no credentials were found" in report.not_read[0][2]


def test_a_bucket_is_listed_like_a_directory(properties: dict[str, str]) -> None:
    use(properties)
    files, path = remote("s3a://audit/listed")
    files.file_system.pipe_file("audit/listed/t-0/a.log", b"12345")
    files.file_system.pipe_file("audit/listed/b", b"1")
    assert [(each.name, each.is_directory, each.size) for each in files.entries(path)] == [
        ("b", False, 1),
        ("t-0", True, 0),
    ]
    assert ANY.entry("s3a://audit/listed/b").size == 1
    with pytest.raises(FileNotFoundError):
        ANY.entry("s3a://audit/listed/c")
    opened = ANY.open("s3a://audit/listed/t-0/a.log")
    assert (opened.read(3, 100).tobytes(), opened.read(1, 2).tobytes(), opened.read(9, 2).tobytes()) == (
        b"45",
        b"23",
        b"",
    )
