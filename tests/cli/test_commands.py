"""Commands that need no running node: what they print, and the exit status of each refusal."""

import json
import re
import shutil
from pathlib import Path
from typing import Any
from uuid import UUID

import msgspec
import pytest

from fencepost.cli.snapshot import BY_HAND, KEPT_MAX
from fencepost.cluster.local_cluster import LocalCluster, LocalNode, create_cluster
from fencepost.controller.producer_ids import PRODUCER_IDS, ProducerIds
from fencepost.controller.view import ImageHeader
from fencepost.quorum.journal import REGULAR, Journal
from fencepost.records.entry import Entry, encode_entry
from fencepost.records.schema import AllocateProducerIdsRecord
from fencepost.records.types import (
    BrokerEpoch,
    BrokerId,
    ImageVersion,
    Log,
    LogIndex,
    NodeId,
    ProducerId,
    ProposalNumber,
    Term,
)
from fencepost.settings.node_identity import id_text, parse_id, read_identity
from fencepost.snapshots.reader import APPLIED
from fencepost.snapshots.snapshot import listed, read_manifest
from fencepost.snapshots.store import Store
from tests.harness.command import contents, here
from tests.records.strategies import batch_of
from tests.secret_files import write_secret
from tests.snapshots.archives import filled

Capture = pytest.CaptureFixture[str]


def block_that_ends_at(end: int, *, base_version: int, index: int, term: int, node: LocalNode) -> None:
    """One entry in a node's journal that gives out a block, and is not in its image."""
    record = AllocateProducerIdsRecord(
        broker_id=BrokerId(1), broker_epoch=BrokerEpoch(8), producer_id_end=ProducerId(end)
    )
    entry = Entry(
        ImageVersion(base_version),
        Term(1),
        NodeId(2),
        ProposalNumber(1),
        ((Log.METADATA, batch_of(record)),),
    )
    store = Store.open(node.config.directory / "store")
    journal = Journal(store)
    journal.reset(LogIndex(index - 1), Term(term))
    journal.add(REGULAR + encode_entry(entry), index, term)
    journal.flush()
    store.close()


@pytest.fixture
def cluster(tmp_path: Path) -> LocalCluster:
    """Three nodes, of which 1 and 2 have run: 2 is one entry ahead, and both have four blocks archived."""
    made = create_cluster(tmp_path / "c", 3, 9092)
    for node, version in ((made.node(1), 8), (made.node(2), 9)):
        store = Store.open(node.config.directory / "store")
        block = ProducerIds(BrokerId(1), BrokerEpoch(7), ProducerId(3000), ProducerId(4000))
        store.image.put(PRODUCER_IDS, 0, block)
        store.image.header = ImageHeader(ImageVersion(version), Term(1), NodeId(2), (4, 0, 0))
        store.meta_put(APPLIED, msgspec.msgpack.encode((LogIndex(version), Term(1))))
        store.flush()
        store.close()
        filled(node.config.directory / "archive", 4).close()
    return made


def test_random_ids_are_ids(capsys: Capture) -> None:
    said = here(capsys, "storage", "random-uuid")
    assert said.status == 0
    parse_id(said.stdout.strip())


def test_a_directory_is_formatted_once(tmp_path: Path, capsys: Capture) -> None:
    file = tmp_path / "node.properties"
    file.write_text(
        "node.id=1\nprocess.roles=controller\nlisteners=CONTROLLER://127.0.0.1:9192\nlog.dirs=data\n"
        "controller.quorum.voters=1@127.0.0.1:9292\ncontroller.quorum.bootstrap.servers=127.0.0.1:9192\n"
        "quorum.secret.file=secret\n"
    )
    cluster_id, directory_id = id_text(UUID(int=1 << 80)), id_text(UUID(int=1 << 81))
    kafka_style = f"1@127.0.0.1:9192:{directory_id}"
    words = ["storage", "format", "-c", file, "-t", cluster_id, "--initial-controllers", kafka_style]
    assert here(capsys, *words).status == 0
    identity = read_identity(tmp_path / "data")
    assert (identity.cluster_id, id_text(identity.directory_id)) == (cluster_id, directory_id)
    assert identity.initial_voters == {NodeId(1): parse_id(directory_id)}
    again = here(capsys, *words)
    assert (again.status, "already formatted" in again.stderr) == (1, True)
    assert here(capsys, *words, "--ignore-formatted").status == 0


def formatted(folder: Path, capsys: Capture, *words: object) -> Any:
    """``storage format`` of a broker's directory whose secret is ``secret`` beside it."""
    folder.mkdir(exist_ok=True)
    file = folder / "node.properties"
    file.write_text(
        "node.id=1\nprocess.roles=broker\nlisteners=PLAINTEXT://127.0.0.1:9092\nlog.dirs=data\n"
        "controller.quorum.bootstrap.servers=127.0.0.1:9192\nquorum.secret.file=secret\n"
    )
    return here(
        capsys, "storage", "format", "-c", file, "-t", "A" * 21 + "Q", "-g", "--format", "json", *words
    )


def test_the_first_node_makes_the_secret_and_the_others_copy_it(tmp_path: Path, capsys: Capture) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    made = contents(formatted(first, capsys).stdout)["nodes"][0]
    assert (made["secret_file"], "made" in made["secret"]) == (str(first / "secret"), True)
    secret = (first / "secret").read_bytes()
    assert ((first / "secret").stat().st_mode & 0o777, len(secret.strip())) == (0o600, 64)
    assert secret.decode().strip() not in json.dumps(made)
    copied = contents(formatted(second, capsys, "--secret-file", first / "secret").stdout)["nodes"][0]
    assert copied["secret"] == f"copied from {first / 'secret'}"
    assert (second / "secret").read_bytes() == secret
    assert (second / "secret").stat().st_mode & 0o777 == 0o600
    kept = contents(formatted(first, capsys).stdout)["nodes"][0]
    assert kept["secret"] == "kept"
    assert (first / "secret").read_bytes() == secret


@pytest.mark.parametrize(
    ("own", "given", "complaint"),
    [
        pytest.param("a" * 16, "b" * 16, "holds another secret than", id="two-secrets"),
        pytest.param(None, "short", "at least 16 bytes", id="the-given-one-is-too-short"),
        pytest.param("short", "b" * 16, "at least 16 bytes", id="the-own-one-is-too-short"),
        pytest.param(None, None, "No such file", id="nothing-is-given-under-that-name"),
    ],
)
def test_a_secret_that_cannot_be_meant_is_refused_and_left(
    tmp_path: Path, capsys: Capture, own: str | None, given: str | None, complaint: str
) -> None:
    for name, text in (("secret", own), ("given", given)):
        if text is not None:
            write_secret(tmp_path / name, text)
    said = formatted(tmp_path, capsys, "--secret-file", tmp_path / "given")
    assert (said.status != 0, complaint in said.stderr) == (True, True), said.stderr
    assert (tmp_path / "secret").exists() == (own is not None)


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        pytest.param(["-t", "me"], "expected an id of 22", id="cluster-id-no-uuid"),
        pytest.param(
            ["-t", "A" * 21 + "Q", "--initial-controllers", "1"],
            "expected ID@DIRECTORY_ID",
            id="no-directory-id",
        ),
        pytest.param(
            ["-t", "A" * 21 + "Q", "--initial-controllers", f"1@{'A' * 21}Q"],
            r"names nodes \[1\], .* names \[1, 2, 3\]",
            id="not-all-voters",
        ),
    ],
)
def test_a_format_that_cannot_be_meant_is_wrong_usage(
    cluster: LocalCluster, capsys: Capture, words: list[str], complaint: str
) -> None:
    said = here(capsys, "storage", "format", "-c", cluster.node(1).directory / "node.properties", *words)
    assert said.status == 2
    assert re.search(complaint, said.stderr)


def test_storage_info_describes_every_node(cluster: LocalCluster, capsys: Capture) -> None:
    said = here(capsys, "storage", "info", "--dir", cluster.directory, "--format", "json")
    nodes = contents(said.stdout)["nodes"]
    assert [node["node_id"] for node in nodes] == [1, 2, 3]
    assert nodes[0]["image_version"] == 8
    assert nodes[0]["log_ends"]["__cluster_metadata-0"] == 4
    assert nodes[0]["latest_block"] == {"broker_id": 1, "broker_epoch": 7, "start": 3000, "end": 4000}
    assert nodes[0]["image_digest"] != nodes[1]["image_digest"]
    assert "image_version" not in nodes[2]  # formatted, never started


def test_the_latest_block_is_that_of_the_newest_image(cluster: LocalCluster, capsys: Capture) -> None:
    said = here(capsys, "producer-ids", "describe", "--dir", cluster.directory, "--format", "json")
    assert contents(said.stdout) == {
        "next_producer_id": 4000,
        "broker_id": 1,
        "broker_epoch": 7,
        "start": 3000,
        "end": 4000,
        "image_version": 9,
        "node_id": 2,
    }


def test_a_block_that_only_the_best_journal_has_was_given_out_too(
    cluster: LocalCluster, capsys: Capture
) -> None:
    """Best is the highest term, then index: a deposed leader's longer tail is nobody's block."""
    block_that_ends_at(5000, base_version=9, index=10, term=3, node=cluster.node(2))
    block_that_ends_at(7000, base_version=8, index=40, term=2, node=cluster.node(1))
    said = here(capsys, "producer-ids", "describe", "--dir", cluster.directory, "--format", "json")
    latest = contents(said.stdout)
    assert [latest[name] for name in ("start", "end", "broker_epoch", "image_version", "node_id")] == [
        4000, 5000, 8, 10, 2,
    ]  # fmt: skip


def test_history_lists_blocks_from_the_archives(cluster: LocalCluster, capsys: Capture) -> None:
    said = here(capsys, "producer-ids", "history", "--dir", cluster.directory, "--format", "json")
    blocks = contents(said.stdout)
    assert [(block["start"], block["end"]) for block in blocks] == [
        (0, 1000),
        (1000, 2000),
        (2000, 3000),
        (3000, 4000),
    ]
    assert blocks[0] | {"timestamp_ms": 5} == {
        "offset": 0,
        "leader_epoch": 1,
        "timestamp_ms": 5,
        "broker_id": 1,
        "broker_epoch": 7,
        "start": 0,
        "end": 1000,
        "len": 1000,
    }
    text = here(capsys, "producer-ids", "history", "--dir", cluster.directory).stdout.splitlines()
    assert len(text) == 5
    assert text[0].split()[-2:] == ["ProducerIdStart", "ProducerIdEnd"]


def test_history_of_one_broker(cluster: LocalCluster, capsys: Capture) -> None:
    words = ["producer-ids", "history", "--dir", cluster.directory, "--format", "json", "--broker-id"]
    assert len(contents(here(capsys, *words, 1).stdout)) == 4
    assert contents(here(capsys, *words, 2).stdout) == []


def test_a_snapshot_is_made_described_and_refused_once_a_byte_is_wrong(
    cluster: LocalCluster, capsys: Capture
) -> None:
    made = here(capsys, "snapshot", "create", "--dir", cluster.directory, "--format", "json")
    assert [each["node_id"] for each in contents(made.stdout)] == [1, 2]
    described = here(capsys, "snapshot", "describe", "--dir", cluster.directory, "--format", "json")
    first = contents(described.stdout)[0]
    assert first["latest_block"] == {"broker_id": 1, "broker_epoch": 7, "end": 4000}
    assert (first["end_offset"], first["epoch"], first["producer_id_records"]) == (4, 1, 1)
    (directory,) = listed(cluster.node(1).config.directory / BY_HAND)
    state = directory / "state"
    state.write_bytes(bytes([state.read_bytes()[0] ^ 1]) + state.read_bytes()[1:])
    refused = here(capsys, "snapshot", "describe", directory)
    assert (refused.status, str(state) in refused.stderr) == (1, True)


def test_a_snapshot_is_of_now_though_only_another_log_has_moved(
    cluster: LocalCluster, capsys: Capture
) -> None:
    """Its name is the ends of all logs: one of the same metadata offset and epoch is another snapshot."""
    home = cluster.node(1).config.directory
    words = ["snapshot", "create", "--dir", cluster.directory, "--node", 1, "--format", "json"]
    first = Path(contents(here(capsys, *words).stdout)[0]["snapshot"])
    store = Store.open(home / "store")
    header = store.image.header
    ends = (header.log_ends[0], header.log_ends[1] + 7, header.log_ends[2])
    version = ImageVersion(header.version + 1)
    store.image.header = msgspec.structs.replace(header, log_ends=ends, version=version)
    store.meta_put(APPLIED, msgspec.msgpack.encode((LogIndex(version), Term(1))))
    store.flush()
    store.close()
    second = Path(contents(here(capsys, *words).stdout)[0]["snapshot"])
    assert first != second
    assert second.name.startswith(f"{ends[0]:020d}-{header.controller_epoch:010d}-{ends[1]:020d}")
    described = contents(here(capsys, "snapshot", "describe", second, "--format", "json").stdout)[0]
    assert described["image_version"] == header.version + 1
    assert str(second) in here(capsys, "snapshot", "describe", "--dir", cluster.directory, "--node", 1).stdout


def test_a_snapshot_of_the_same_state_is_taken_again(cluster: LocalCluster, capsys: Capture) -> None:
    words = ["snapshot", "create", "--dir", cluster.directory, "--node", 1, "--format", "json"]
    taken = Path(contents(here(capsys, *words).stdout)[0]["snapshot"])
    before = read_manifest(taken).timestamp_ms
    assert contents(here(capsys, *words).stdout)[0]["snapshot"] == str(taken)
    assert read_manifest(taken).timestamp_ms > before


def test_snapshots_by_hand_have_a_bound_and_the_nodes_own_stay(
    cluster: LocalCluster, capsys: Capture
) -> None:
    home = cluster.node(1).config.directory
    words = ["snapshot", "create", "--dir", cluster.directory, "--node", 1, "--format", "json"]
    taken = Path(contents(here(capsys, *words).stdout)[0]["snapshot"])
    own = home / "snapshots" / read_manifest(taken).name
    shutil.copytree(taken, own)
    for number in range(1, KEPT_MAX + 2):
        shutil.copytree(taken, taken.with_name(f"{100 + number:020d}-0000000001"))
    answer = contents(here(capsys, *words).stdout)[0]
    assert (len(answer["removed"]), len(listed(taken.parent))) == (2, KEPT_MAX)
    assert taken in listed(taken.parent)
    assert own.exists()


def test_ps_of_a_cluster_that_is_down(cluster: LocalCluster, capsys: Capture) -> None:
    seen = contents(here(capsys, "ps", "--dir", cluster.directory, "--format", "json").stdout)
    assert seen["nodes"][0] == {
        "node_id": 1,
        "roles": ["controller", "broker"],
        "pid": None,
        "status": "down",
        "leader": False,
        "client": "127.0.0.1:9092",
        "controller": "127.0.0.1:9192",
        "raft": "127.0.0.1:9292",
        "metrics": "127.0.0.1:9392",
    }


REFUSED = [
    pytest.param(["ps", "--dir", "{nowhere}"], 3, "type: fencepost up", id="ps-without-a-cluster"),
    pytest.param(["kill", "1", "--dir", "{cluster}"], 1, "node 1 is not running", id="kill-what-is-down"),
    pytest.param(
        ["kill", "leader", "--dir", "{cluster}"], 1, "no leader is known", id="kill-without-a-leader"
    ),
    pytest.param(["kill", "7", "--dir", "{cluster}"], 2, "its nodes are 1, 2, 3", id="kill-an-unknown-node"),
    pytest.param(["kill", "all", "--dir", "{cluster}"], 2, "a number or 'leader'", id="kill-a-word"),
    pytest.param(
        ["kill", "1", "--signal", "HUP"], 2, "Invalid value for '--signal'", id="kill-by-another-signal"
    ),
    pytest.param(["up", "-n", "5", "--dir", "{cluster}"], 2, "was made with -n 3", id="up-with-more-nodes"),
    pytest.param(
        ["up", "--port", "1", "--dir", "{cluster}"], 2, "was made with --port 9092", id="up-elsewhere"
    ),
    pytest.param(
        ["up", "--override", "log.level=debug", "--dir", "{cluster}"],
        2,
        "is for a new cluster",
        id="up-override",
    ),
    pytest.param(["up", "--dir", "{foreign}"], 1, "holds thesis.tex", id="up-in-a-foreign-folder"),
    pytest.param(
        ["quorum", "describe", "--dir", "{cluster}"], 2, "--status and --replication", id="describe-what"
    ),
    pytest.param(
        ["quorum", "describe", "--status", "--bootstrap-controller", "example.org"],
        2,
        "expected HOST:PORT",
        id="a-controller-without-port",
    ),
    pytest.param(
        ["producer-ids", "allocate", "--broker-epoch", "1", "--dir", "{cluster}"],
        2,
        "needs --broker-id",
        id="epoch",
    ),
    pytest.param(
        ["producer-ids", "allocate", "--broker-id", "1", "--dir", "{cluster}"],
        2,
        "is not registered",
        id="stranger",
    ),
    pytest.param(["snapshot", "describe", "--dir", "{cluster}"], 3, "snapshot create", id="no-snapshot-yet"),
    pytest.param(["node", "--config", "{nowhere}"], 3, "No such file", id="node-without-a-config"),
    pytest.param(["teleport"], 2, "No such command", id="unknown-command"),
]


@pytest.mark.parametrize(("words", "status", "complaint"), REFUSED)
def test_a_refusal_has_its_exit_status_and_its_reason(
    cluster: LocalCluster, tmp_path: Path, capsys: Capture, words: list[str], status: int, complaint: str
) -> None:
    foreign = tmp_path / "foreign"
    foreign.mkdir()
    (foreign / "thesis.tex").write_text("important")
    places = {"cluster": cluster.directory, "nowhere": tmp_path / "nowhere", "foreign": foreign}
    said = here(capsys, *(word.format(**places) for word in words))
    assert (said.status, said.stdout) == (status, "")
    assert complaint in said.stderr


def test_every_command_explains_itself(capsys: Capture) -> None:
    overview = here(capsys, "--help").stdout
    for command in (
        "up",
        "ps",
        "kill",
        "start",
        "down",
        "health",
        "quorum",
        "producer-ids",
        "snapshot",
        "storage",
    ):
        assert f"  {command} " in overview
        assert "Usage:" in here(capsys, command, "--help").stdout
    assert "demo" not in overview  # for `make demo`
