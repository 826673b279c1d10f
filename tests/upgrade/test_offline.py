"""What a stopped ZooKeeper left: files and exports move a cluster only if they are whole."""

import gzip
import json
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from fencepost.records.batch import BatchRecord, encode_batch
from tests.harness.command import Result, here
from tests.harness.nodes import Nodes, wait_for
from tests.upgrade.world import OldBrokers, block_end, make_kafkas_znodes, upgrading
from tests.zookeeper.servers import Ensemble, ensemble

DRY_RUN_ONLY = 1
REFUSED = 1
UNREADABLE = 3
BLOCK_END = 4999
BLOCK = "/latest_producer_id_block"
ZNODES = {
    BLOCK: '{"version":1,"broker":3,"block_start":"4000","block_end":"4999"}',
    "/cluster/id": '{"version":"1","id":"WtaFx7jaQ0mQnKYQyVQ4sQ"}',
}


def segment(folder: Path, producer_id: int, name: str = "topic-0") -> Path:
    """A Kafka log directory whose one batch is of this producer."""
    path = folder / name / "00000000000000000000.log"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(
        encode_batch(
            [BatchRecord(b"k", b"v")],
            timestamp_ms=1,
            producer_id=producer_id,
            producer_epoch=0,
            base_sequence=0,
        )
    )
    return path


def export(path: Path, change: Callable[[dict[str, Any]], object] = lambda document: None) -> Path:
    """An export as ``migrate export-znodes`` writes it, and then something done to it."""
    znode = {"encoding": "utf-8", "version": 5, "modified_zxid": "9", "created_zxid": "4", "ephemeral": False}
    document: dict[str, Any] = {
        "format": "fencepost-znodes",
        "version": 1,
        "source": "zk:2181",
        "chroot": "",
        "taken_ms": 1,
        "zxid": "9",
        "znodes": {name: {**znode, "data": data} for name, data in ZNODES.items()},
    }
    change(document)
    path.write_text(json.dumps(document))
    return path


def block(**changes: object) -> Callable[[dict[str, Any]], object]:
    """The block's fields, changed."""

    def change(document: dict[str, Any]) -> None:
        held = {"version": 1, "broker": 3, "block_start": "4000", "block_end": "4999", **changes}
        document["znodes"][BLOCK]["data"] = json.dumps(held)

    return change


@pytest.fixture
def imported(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Callable[..., Result]:
    """``migrate import --from ...`` in this process, where no cluster is."""
    return lambda *arguments: here(
        capsys, "migrate", "import", "--dir", tmp_path / "none", "--format", "json", "--from", *arguments
    )


def test_an_export_is_read_and_only_looked_at(imported: Callable[..., Result], tmp_path: Path) -> None:
    file = export(tmp_path / "znodes.json")
    for arguments, status in (((), DRY_RUN_ONLY), (("--dry-run",), 0), (("--zookeeper-is-stopped",), 1)):
        result = imported("json", file, *arguments)
        assert result.status == status, result.stderr
        assert json.loads(result.stdout)["source"]["block_end"] == BLOCK_END


@pytest.mark.row("beyond.3")
def test_an_export_older_than_the_logs_is_for_a_look_only(
    imported: Callable[..., Result], tmp_path: Path
) -> None:
    file = export(tmp_path / "znodes.json")
    segment(tmp_path / "logs", BLOCK_END + 1)
    result = imported("json", file, "--zookeeper-is-stopped", "--log-dir", tmp_path / "logs")
    assert result.status == DRY_RUN_ONLY
    assert f"shows producer id {BLOCK_END + 1}" in result.stderr
    assert json.loads(result.stdout)["highest_producer_id"] == BLOCK_END + 1


@pytest.mark.parametrize(
    ("change", "status", "said"),
    [
        pytest.param(lambda d: d.pop("zxid"), UNREADABLE, "zxid", id="a-field-is-missing"),
        pytest.param(lambda d: d.update(version="1"), UNREADABLE, "version", id="a-wrong-type"),
        pytest.param(lambda d: d["znodes"].pop(BLOCK), REFUSED, "there is no", id="no-block"),
        pytest.param(block(block_end=4999), UNREADABLE, "block_end", id="a-number-for-a-string"),
        pytest.param(block(block_start="-1"), UNREADABLE, "block_start", id="negative"),
        pytest.param(block(block_start="5000"), UNREADABLE, "ids", id="reversed"),
        pytest.param(block(block_end=str(2**63)), UNREADABLE, "block_end", id="past-int64"),
        pytest.param(block(block_end=str(2**40)), UNREADABLE, "ids", id="longer-than-int32"),
        pytest.param(
            block(block_start=str(2**63 - 9), block_end=str(2**63 - 1)), REFUSED, "no fence", id="exhausted"
        ),
        pytest.param(block(extra=1), UNREADABLE, "extra", id="an-unknown-field"),
    ],
)  # fmt: skip
def test_an_export_that_kafka_did_not_fill_is_refused(
    imported: Callable[..., Result],
    tmp_path: Path,
    change: Callable[[dict[str, Any]], object],
    status: int,
    said: str,
) -> None:
    result = imported("json", export(tmp_path / "znodes.json", change), "--dry-run")
    assert result.status == status, result.stderr
    assert said in result.stderr
    assert "Traceback" not in result.stderr


@pytest.mark.row("beyond.2")
def test_an_export_without_a_block_wants_the_operators_word(
    imported: Callable[..., Result], tmp_path: Path
) -> None:
    def emptied(document: dict[str, Any]) -> None:
        document["znodes"][BLOCK].update(data=None, version=0)

    file = export(tmp_path / "znodes.json", emptied)
    for words, says in (((), True), (("--no-block-yet",), False)):
        result = imported("json", file, "--dry-run", *words)
        assert result.status == 0, result.stderr
        assert ("a dry run only: they hold no producer-id block" in result.stderr) is says


def test_a_dry_run_says_what_the_import_would_refuse(imported: Callable[..., Result], tmp_path: Path) -> None:
    file = export(tmp_path / "znodes.json")
    dry, earnest = imported("json", file, "--dry-run"), imported("json", file)
    assert (dry.status, earnest.status) == (0, DRY_RUN_ONLY)
    assert dry.stderr == earnest.stderr
    assert "--zookeeper-is-stopped" in dry.stderr


def test_no_json_at_all_is_refused(imported: Callable[..., Result], tmp_path: Path) -> None:
    (tmp_path / "znodes.json").write_text("[1, 2")
    assert imported("json", tmp_path / "znodes.json").status == UNREADABLE
    assert imported("json", tmp_path / "missing.json").status == UNREADABLE


def test_an_empty_directory_is_refused_by_its_name(imported: Callable[..., Result], tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    result = imported("files", tmp_path / "empty", "--dry-run")
    assert result.status == UNREADABLE
    assert str(tmp_path / "empty") in result.stderr


# -- real servers -----------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def stopped(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Ensemble, int]]:
    """Three servers that old brokers took blocks from, stopped; and what the live one had answered last."""
    folder = tmp_path_factory.mktemp("stopped")
    with ensemble(folder / "zookeeper", 3, properties={"zookeeper.snapCount": "50"}) as servers:
        make_kafkas_znodes(servers)
        with OldBrokers(servers.connect_string, folder, 2) as old:
            wait_for("blocks of old brokers", lambda: len(old.blocks()) > 200)
            old.stop()
        end = block_end(servers)
        servers.stop()
        yield servers, end


def newest_log(data: Path) -> Path:
    """The last log in a server's dataDir."""
    return max((data / "version-2").glob("log.*"), key=lambda each: int(each.name[4:], 16))


def copies(servers: Ensemble, folder: Path) -> list[Path]:
    """Of the servers' data directories, to be spoilt."""
    for server in servers.servers:
        shutil.copytree(server.data, folder / f"server-{server.number}")
    return [folder / f"server-{server.number}" for server in servers.servers]


@pytest.mark.slow
@pytest.mark.row("card.3")
@pytest.mark.row("beyond.3")
def test_files_say_what_the_live_ensemble_said(
    stopped: tuple[Ensemble, int], imported: Callable[..., Result], tmp_path: Path
) -> None:
    servers, end = stopped
    paths = [server.data for server in servers.servers]
    for given, needs in ((paths, ""), (paths[1:], ""), (paths[:1], "1 of 3 servers, 2 are needed")):
        result = imported("files", *given, "--zookeeper-is-stopped", "--dry-run")
        source = json.loads(result.stdout)["source"]
        assert (result.status, source["block_end"]) == (0, end)
        assert needs in "".join(source["reasons"])
        assert bool(source["reasons"]) is bool(needs)
    assert imported("files", paths[0], "--zookeeper-is-stopped").status == DRY_RUN_ONLY
    assert imported("files", *paths).status == DRY_RUN_ONLY


@pytest.mark.slow
@pytest.mark.row("card.3")
def test_a_torn_tail_is_recovered_from_and_a_flipped_byte_is_refused(
    stopped: tuple[Ensemble, int], imported: Callable[..., Result], tmp_path: Path
) -> None:
    servers, end = stopped
    paths = copies(servers, tmp_path)
    log = newest_log(paths[0])
    whole = log.read_bytes()
    log.write_bytes(whole.rstrip(b"\0")[:-10])  # in the middle of the last transaction
    torn = imported("files", paths[0], "--dry-run")
    assert torn.status == 0, torn.stderr
    source = json.loads(torn.stdout)["source"]
    assert source["block_end"] <= end
    assert any(str(log) in remark and "left out" in remark for remark in source["remarks"])
    majority = imported("files", *paths[:2], "--dry-run", "--zookeeper-is-stopped")
    assert json.loads(majority.stdout)["source"]["block_end"] == end

    raw = bytearray(whole)
    raw[40] ^= 1  # in the first transaction, which is written to its end
    log.write_bytes(raw)
    alone = imported("files", paths[0], "--dry-run")
    assert alone.status == UNREADABLE
    assert str(log) in alone.stderr
    others = imported("files", *paths, "--dry-run")
    assert json.loads(others.stdout)["source"]["block_end"] == end


@pytest.mark.slow
@pytest.mark.row("card.3")
def test_a_snapshot_compressed_by_gzip_is_read(
    stopped: tuple[Ensemble, int], imported: Callable[..., Result], tmp_path: Path
) -> None:
    servers, end = stopped
    paths = copies(servers, tmp_path)
    for path in paths:
        for snapshot in list((path / "version-2").glob("snapshot.*")):
            snapshot.with_name(snapshot.name + ".gz").write_bytes(gzip.compress(snapshot.read_bytes()))
            snapshot.unlink()
    result = imported("files", *paths, "--dry-run")
    assert result.status == 0, result.stderr
    assert json.loads(result.stdout)["source"]["block_end"] == end


@pytest.mark.slow
@pytest.mark.row("card.3")
@pytest.mark.row("card.6")
@pytest.mark.row("beyond.3")
def test_a_cluster_moves_to_what_the_files_of_a_majority_say(
    stopped: tuple[Ensemble, int], tmp_path: Path
) -> None:
    servers, end = stopped
    paths = [str(server.data) for server in servers.servers]
    connect = servers.connect_string
    with upgrading(tmp_path / "cluster", connect, count=1) as nodes:
        before = nodes.read("migrate", "status")
        assert before["phase"] == "waiting"
        moving = ("migrate", "import", "--from", "files")
        nodes.run(*moving, paths[0], "--zookeeper-is-stopped", status=DRY_RUN_ONLY)
        nodes.run(*moving, *paths, status=DRY_RUN_ONLY)
        assert nodes.read("migrate", "status")["phase"] == "waiting"
        for _ in range(2):
            nodes.run(*moving, *paths[:2], "--zookeeper-is-stopped")
        _goes_on_from(nodes, end + 1)
        nodes.run("migrate", "finalize")


@pytest.mark.slow
@pytest.mark.row("card.3")
@pytest.mark.row("beyond.3")
def test_a_cluster_moves_to_what_an_export_and_the_logs_say(tmp_path: Path) -> None:
    with ensemble(tmp_path / "zookeeper") as servers:
        make_kafkas_znodes(servers, "/kafka", ZNODES[BLOCK].encode())
        connect = f"{servers.connect_string}/kafka"
        with upgrading(tmp_path / "cluster", connect, count=1) as nodes:
            file = tmp_path / "znodes.json"
            nodes.run("migrate", "bridge")
            nodes.run("producer-ids", "allocate", "--count", "3")
            nodes.run("migrate", "import")
            nodes.read("migrate", "export-znodes", "--output", str(file))
            end = block_end(servers, "/kafka")
            servers.stop()
            moving = ("migrate", "import", "--from", "json", str(file))
            segment(tmp_path / "logs", BLOCK_END)
            for missing in (("--zookeeper-is-stopped",), ("--log-dir", str(tmp_path / "logs"))):
                nodes.run(*moving, *missing, status=DRY_RUN_ONLY)
            assert nodes.read("migrate", "status")["phase"] == "imported"
            nodes.run(*moving, "--zookeeper-is-stopped", "--log-dir", str(tmp_path / "logs"))
            files = ("migrate", "import", "--from", "files", str(servers.servers[0].data))
            nodes.run(*files, "--zookeeper-is-stopped")  # the same ZooKeeper, by its name; done already
            _goes_on_from(nodes, end + 1)


def _goes_on_from(nodes: Nodes, first: int) -> None:
    now = nodes.read("migrate", "status")
    assert (now["phase"], now["floor"], now["next_command"]) == ("quorum", first, "finalize")
    nodes.run("producer-ids", "allocate")
    starts = [row["start"] for row in nodes.read("producer-ids", "history") if row["broker_id"] >= 0]
    assert min(start for start in starts if start >= first) == first
