"""A directory is formatted or it is not; a node starts only in its own."""

import json
from dataclasses import replace
from pathlib import Path
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fencepost.records.levels import LEVEL_MAX
from fencepost.records.types import NodeId
from fencepost.settings.meta_properties import FILE_BYTES_MAX, META_PROPERTIES
from fencepost.settings.node_identity import (
    BOOTSTRAP,
    ForeignDirectory,
    NotFormatted,
    StorageError,
    format_directory,
    id_text,
    mended,
    parse_id,
    random_id,
    read_identity,
    remember_store,
    require_identity,
    without_store,
)
from tests.together import table

CLUSTER = id_text(UUID(int=1 << 100))
OTHER_CLUSTER = id_text(UUID(int=1 << 101))
VOTERS = {NodeId(1): UUID(int=1 << 90), NodeId(2): UUID(int=1 << 91)}


@given(st.uuids())
def test_an_id_is_read_back(identifier: UUID) -> None:
    assert parse_id(id_text(identifier)) == identifier


def test_an_id_is_written_as_kafka_writes_it() -> None:
    # Kafka's Uuid(0, 1), the id of the metadata topic (spec kafka.md G3).
    assert id_text(UUID(int=1)) == "AAAAAAAAAAAAAAAAAAAAAQ"


@table(
    "text",
    [
        pytest.param("", id="empty"),
        pytest.param("AAAAAAAAAAAAAAAAAAAAA", id="one-short"),
        pytest.param("AAAAAAAAAAAAAAAAAAAAAQA", id="one-long"),
        pytest.param("AAAAAAAAAAAAAAAAAAAAAR", id="stray-bits-in-the-last-character"),
        pytest.param("AAAAAAAAAA+AAAAAAAAAAQ", id="not-the-url-safe-alphabet"),
        pytest.param("AAAAAAAAAAAAAAAAAAAA==", id="padding"),
        pytest.param("Ä" * 22, id="not-ascii"),
    ],
)
def test_what_is_no_id_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="expected an id of 22"):
        parse_id(text)


def test_random_ids_never_begin_with_a_dash() -> None:
    # A command line takes such an id for an option.
    assert not any(id_text(random_id()).startswith("-") for _ in range(2_000))


def test_a_formatted_directory_knows_who_it_is(tmp_path: Path) -> None:
    written = format_directory(
        tmp_path / "new", CLUSTER, NodeId(1), directory_id=VOTERS[NodeId(1)], initial_voters=VOTERS
    )
    assert read_identity(tmp_path / "new") == written
    assert written.initial_voters == VOTERS
    assert written.log_level == LEVEL_MAX, "a new cluster starts at the highest log level"


def test_a_directory_of_an_older_version_is_of_log_level_0(tmp_path: Path) -> None:
    format_directory(tmp_path, CLUSTER, NodeId(1), initial_voters=VOTERS)
    bootstrap = json.loads((tmp_path / "bootstrap.json").read_text())
    (tmp_path / "bootstrap.json").write_text(json.dumps({"voters": bootstrap["voters"]}))
    found = read_identity(tmp_path)
    assert (found.log_level, found.initial_voters) == (0, VOTERS)


@pytest.mark.parametrize("level", [-1, "1", 1.5, None, True], ids=repr)
def test_a_log_level_that_is_none_is_named(tmp_path: Path, level: object) -> None:
    format_directory(tmp_path, CLUSTER, NodeId(1), initial_voters=VOTERS)
    bootstrap = json.loads((tmp_path / "bootstrap.json").read_text())
    (tmp_path / "bootstrap.json").write_text(json.dumps(bootstrap | {"log_level": level}))
    with pytest.raises(NotFormatted, match="expected a log_level of at least 0"):
        read_identity(tmp_path)


def test_a_directory_may_be_formatted_without_voters(tmp_path: Path) -> None:
    assert format_directory(tmp_path, CLUSTER, NodeId(5)).initial_voters is None
    assert read_identity(tmp_path).initial_voters is None


def test_a_formatted_directory_is_not_formatted_again(tmp_path: Path) -> None:
    first = format_directory(tmp_path, CLUSTER, NodeId(1))
    with pytest.raises(ForeignDirectory, match="already formatted, for node 1"):
        format_directory(tmp_path, CLUSTER, NodeId(1))
    assert format_directory(tmp_path, CLUSTER, NodeId(1), ignore_formatted=True) == first


@pytest.mark.parametrize(
    ("cluster_id", "node_id"),
    [
        pytest.param(OTHER_CLUSTER, 1, id="another-cluster"),
        pytest.param(CLUSTER, 2, id="another-node"),
    ],
)
def test_a_foreign_directory_is_refused_by_name(tmp_path: Path, cluster_id: str, node_id: int) -> None:
    found = format_directory(tmp_path, CLUSTER, NodeId(1))
    with pytest.raises(ForeignDirectory, match=str(tmp_path)):
        require_identity(tmp_path, found, cluster_id=cluster_id, node_id=NodeId(node_id))
    with pytest.raises(ForeignDirectory, match=str(tmp_path)):
        format_directory(tmp_path, cluster_id, NodeId(node_id), ignore_formatted=True)
    assert read_identity(tmp_path) == found


def test_a_directory_with_something_else_in_it_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").write_text("important")
    with pytest.raises(StorageError, match=r"is not empty: it holds thesis\.tex"):
        format_directory(tmp_path, CLUSTER, NodeId(1))


def test_a_format_that_was_killed_can_be_done_again(tmp_path: Path) -> None:
    (tmp_path / BOOTSTRAP).write_text("{")
    (tmp_path / (META_PROPERTIES + ".part")).write_text("vers")
    with pytest.raises(NotFormatted):
        read_identity(tmp_path)
    format_directory(tmp_path, CLUSTER, NodeId(1))
    assert read_identity(tmp_path).initial_voters is None


META = f"version=1\ncluster.id={CLUSTER}\nnode.id=1\ndirectory.id={id_text(VOTERS[NodeId(1)])}\n"


@pytest.mark.parametrize(
    ("meta", "bootstrap", "complaint"),
    [
        pytest.param(None, None, "storage format", id="empty-directory"),
        pytest.param(META.replace("version=1", "version=0"), None, "expected version=1", id="old-version"),
        pytest.param(
            META.replace("directory.id", "dir.id"), None, "directory.id is missing", id="no-directory"
        ),
        pytest.param(META.replace("node.id=1", "node.id=x"), None, META_PROPERTIES, id="node-id-a-word"),
        pytest.param(META.replace(CLUSTER, "me"), None, "expected an id", id="cluster-id-no-uuid"),
        pytest.param(META, "{", "bootstrap.json: .* copy it from another one", id="torn-bootstrap"),
        pytest.param(META, '{"voters": []}', "voters", id="bootstrap-without-voters"),
        pytest.param("#" * (FILE_BYTES_MAX + 1), None, "larger than", id="one-byte-too-large"),
    ],
)
def test_half_an_identity_is_none(
    tmp_path: Path, meta: str | None, bootstrap: str | None, complaint: str
) -> None:
    if meta is not None:
        (tmp_path / META_PROPERTIES).write_text(meta)
    if bootstrap is not None:
        (tmp_path / BOOTSTRAP).write_text(bootstrap)
    with pytest.raises(NotFormatted, match=complaint):
        read_identity(tmp_path)


def test_a_file_of_the_greatest_size_is_read(tmp_path: Path) -> None:
    padding = "#" * (FILE_BYTES_MAX - len(META))
    (tmp_path / META_PROPERTIES).write_text(META + padding)
    assert read_identity(tmp_path).cluster_id == CLUSTER


@pytest.mark.parametrize("content", [b"{", b"\xff", b"{}", b"[]", b'{"voters": {"1": "x"}}'])
def test_what_a_store_knows_need_not_be_read_again(tmp_path: Path, content: bytes) -> None:
    """Of the cluster's birth: a bit of it flips long after."""
    born = format_directory(tmp_path, CLUSTER, NodeId(1), initial_voters=VOTERS)
    remember_store(tmp_path, born)
    (tmp_path / BOOTSTRAP).write_bytes(content)
    found = read_identity(tmp_path)
    assert str(tmp_path / BOOTSTRAP) in found.bootstrap_fault
    assert replace(found, bootstrap_fault="") == replace(
        born, has_store=True, initial_voters=None, log_level=0
    )
    assert mended(tmp_path, found) == replace(found, bootstrap_fault="")
    assert read_identity(tmp_path) == replace(found, bootstrap_fault=""), "and each later start says nothing"
    (tmp_path / BOOTSTRAP).write_bytes(content)
    without_store(tmp_path, found)
    assert read_identity(tmp_path).bootstrap_fault == ""


def test_a_directory_without_its_store_is_a_new_one(tmp_path: Path) -> None:
    born = format_directory(tmp_path, CLUSTER, NodeId(1), initial_voters=VOTERS)
    assert not read_identity(tmp_path).has_store
    remember_store(tmp_path, born)
    kept = read_identity(tmp_path)
    assert kept == replace(born, has_store=True)
    renewed = without_store(tmp_path, kept)
    assert read_identity(tmp_path) == renewed
    assert renewed.voter_id != born.voter_id
    assert (renewed.cluster_id, renewed.node_id) == (born.cluster_id, born.node_id)
    assert renewed.directory_id == born.directory_id, "the partition logs are there as before"
    assert renewed.initial_voters is None, "the voters of the cluster's birth are not asked again"
    assert not renewed.has_store
    assert _as_an_older_version_reads(tmp_path) == (born.directory_id, True), "it finds the store lost"
    remember_store(tmp_path, renewed)
    again = read_identity(tmp_path)
    assert again == replace(renewed, has_store=True)
    third = without_store(tmp_path, again)
    assert third.voter_id not in (born.voter_id, again.voter_id)
    assert third.directory_id == born.directory_id


def test_a_directory_that_never_lost_its_store_has_the_file_of_older_versions(tmp_path: Path) -> None:
    born = format_directory(tmp_path, CLUSTER, NodeId(1), initial_voters=VOTERS)
    remember_store(tmp_path, born)
    assert born.voter_id == born.directory_id
    names = [line.partition("=")[0] for line in (tmp_path / META_PROPERTIES).read_text().splitlines()]
    *known, check = names
    assert known == ["version", "cluster.id", "node.id", "directory.id", "fencepost.has.store"]
    assert check == "fencepost.crc32c", "they pass over what they do not know"


def _as_an_older_version_reads(path: Path) -> tuple[UUID, bool]:
    """The id with which a version without voter ids would vote, and whether it expects a store."""
    lines = (path / META_PROPERTIES).read_text().splitlines()
    pairs = dict(line.split("=", 1) for line in lines)
    return parse_id(pairs["directory.id"]), pairs.get("fencepost.has.store") == "true"
