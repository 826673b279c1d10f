"""What directories say of themselves, and which of them are missing: held against the metadata log."""

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import pyarrow.compute as pc
import pytest

from tests.audit.checks.rows import Row, Story, relations, tables

if TYPE_CHECKING:
    from fencepost.audit.engine.protocol import Engine

Tell = Callable[[Story], None]
LOST = "/n1/data/meta.properties"


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> "Iterator[Engine]":
    """One for all: each story names its tables anew."""
    from fencepost.audit.engine.embedded import EmbeddedEngine

    made = EmbeddedEngine(str(tmp_path_factory.mktemp("engine")))
    yield made
    made.close()


def topic(s: Story, *replicas: int, partition: int = 0) -> None:
    """The story's topic, as the metadata log has it, with a copy on node 1."""
    created = s.topic_event("created")
    place = {name: created[name] for name in ("node", "topic", "partition", "path", "position", "offset")}
    s.tables["partitions"].append(
        place | {"event": "created", "topic_id": created["topic_id"], "partition_id": partition,
                 "replicas": list(replicas), "leader": replicas[0], "leader_epoch": 0}
    )  # fmt: skip


def directory(s: Story, kind: str, identifier: str, **columns: object) -> None:
    path = f"/n1/data/{s.topic}-0/partition.metadata"
    row: Row = {"node": 1, "topic": s.topic, "partition": 0, "path": path, "position": 0, "kind": kind,
                "identifier": identifier, **columns}  # fmt: skip
    s.tables["directories"].append(row)


def log_dir(s: Story, broker_id: int, identifier: str) -> None:
    directory(
        s, "log-dir", identifier, path=LOST, topic="", partition=-1, broker_id=broker_id, node=broker_id
    )


def a_directory_of_its_topic(s: Story) -> None:
    topic(s, 1)
    s.data(transactional=False)
    directory(s, "partition", f"id-of-{s.topic}")


def a_directory_of_a_topic_that_was_made_again(s: Story) -> None:
    a_directory_of_its_topic(s)
    s.topic_event("deleted")
    s.topic_event("created", topic_id="another")


def a_directory_of_another_topic(s: Story) -> None:
    topic(s, 1)
    s.topic_event("created", name="other", topic_id="id-of-other")
    directory(s, "partition", "id-of-other")


def a_directory_of_no_topic(s: Story) -> None:
    topic(s, 1)
    directory(s, "partition", "made-up")


def a_directory_of_an_id_that_the_metadata_log_may_have_forgotten(s: Story) -> None:
    s.batch(topic="__cluster_metadata", partition=s.number, at=7)
    s._ends["__cluster_metadata", s.number] = 8
    a_directory_of_no_topic(s)


def a_directory_of_a_topic_that_is_gone(s: Story) -> None:
    a_directory_of_no_topic(s)
    s.topic_event("deleted")


def a_node_as_it_registered(s: Story) -> None:
    directory(s, "registered", "d1", broker_id=1)
    log_dir(s, 1, "d1")


def a_node_of_a_cluster_that_registers_no_directories(s: Story) -> None:
    log_dir(s, 1, "d1")


def a_node_that_another_one_registered(s: Story) -> None:
    directory(s, "registered", "d1", broker_id=1)
    directory(s, "registered", "d2", broker_id=2)
    log_dir(s, 2, "d1")


def a_directory_of_another_cluster(s: Story) -> None:
    for node, cluster in enumerate("aba"):
        directory(s, "cluster", cluster, path=f"/n{node}/meta.properties", topic="", partition=-1,
                  broker_id=node, node=node)  # fmt: skip


@pytest.mark.parametrize(
    ("tell", "findings", "unknown"),
    [
        pytest.param(a_directory_of_its_topic, [], []),
        pytest.param(a_directory_of_a_topic_that_was_made_again, [], []),
        pytest.param(a_directory_of_another_topic, ["topic_id"], []),
        pytest.param(a_directory_of_no_topic, ["topic_id"], []),
        pytest.param(a_directory_of_an_id_that_the_metadata_log_may_have_forgotten, [], ["topic_id"]),
        pytest.param(a_directory_of_a_topic_that_is_gone, [], []),
        pytest.param(a_node_as_it_registered, [], []),
        pytest.param(a_node_of_a_cluster_that_registers_no_directories, [], []),
        pytest.param(a_node_that_another_one_registered, ["node"], []),
        pytest.param(a_directory_of_another_cluster, ["cluster"], []),
    ],
    ids=lambda value: value.__name__.replace("_", "-") if callable(value) else None,
)
def test_what_a_directory_says_of_itself(
    engine: "Engine", tell: Tell, findings: list[str], unknown: list[str]
) -> None:
    assert asked(engine, tell, "integrity_findings") == findings
    assert asked(engine, tell, "integrity_unknown") == unknown


def the_directory_of_a_replica(s: Story) -> None:
    topic(s, 1, 2)
    s.data(transactional=False)
    s.copy_log(s.topic, 0, 2)


def a_replicas_directory_is_not_there(s: Story) -> None:
    topic(s, 1, 2)
    s.data(transactional=False)
    s.data(topic="other", transactional=False)
    s.copy_log("other", 0, 2)


def no_replicas_directory_is_there(s: Story) -> None:
    topic(s, 1, 2)
    s.data(topic="other", transactional=False)


def a_replicas_node_was_not_given(s: Story) -> None:
    topic(s, 1, 9)
    s.data(transactional=False)


def no_replicas_node_was_given(s: Story) -> None:
    topic(s, 8, 9)
    topic(s, 9, 8, partition=1)
    s.data(topic="other", transactional=False)


def a_topic_that_is_gone_was_not_given(s: Story) -> None:
    no_replicas_node_was_given(s)
    s.topic_event("deleted")


@pytest.mark.parametrize(
    ("tell", "expected"),
    [
        pytest.param(the_directory_of_a_replica, []),
        pytest.param(a_replicas_directory_is_not_there, ["missing: node 2"]),
        pytest.param(no_replicas_directory_is_there, ["missing: node 1"]),
        pytest.param(a_replicas_node_was_not_given, []),
        pytest.param(no_replicas_node_was_given, ["not_given: 2 partitions"]),
        pytest.param(a_topic_that_is_gone_was_not_given, []),
    ],
    ids=lambda value: value.__name__.replace("_", "-") if callable(value) else None,
)
def test_which_copies_are_missing(engine: "Engine", tell: Tell, expected: list[str]) -> None:
    """A copy whose node was given, and has none; partitions of other nodes in one line."""
    story = Story(3)
    tell(story)
    found = relations(engine, [story]).rows("SELECT rule, detail FROM replicas_unknown ORDER BY detail")
    assert [
        f"{row['rule']}: {' '.join(row['detail'].replace(',', ' ').split()[:2])}" for row in found
    ] == expected


def in_two_log_dirs(s: Story, *identifiers: str) -> None:
    """Node 1 has the partition in two directories; what these say that they are."""
    topic(s, 1)
    s.data(transactional=False)
    for row in s.copy_log(s.topic, 0, 2):
        s.tables["record_batches"].remove(row)
        s.tables["record_batches"].append(row | {"node": 1})
    for number, identifier in enumerate(identifiers, 1):
        at = f"/n{number}/data"
        directory(s, "log-dir", identifier, path=f"{at}/meta.properties", copy=at, topic="", partition=-1)


@pytest.mark.parametrize(
    ("identifiers", "clean", "findings", "unknown"),
    [
        pytest.param(("d1", "d2"), True, ["twice"], [], id="two-directories"),
        pytest.param((), True, ["twice"], [], id="nothing-says-which-they-are"),
        pytest.param(("d1", "d2"), False, [], ["twice"], id="it-may-have-moved-while-they-were-copied"),
        pytest.param(("d1", "d1"), True, [], ["given_twice"], id="one-directory-and-its-copy"),
    ],
)
def test_a_partition_in_two_log_dirs_of_a_node(
    engine: "Engine", identifiers: tuple[str, ...], clean: bool, findings: list[str], unknown: list[str]
) -> None:
    story = Story(3)
    in_two_log_dirs(story, *identifiers)
    made = relations(engine, [story])
    if not clean:
        files = tables([story])["files"]
        engine.register("files", files.filter(pc.field("kind") == "segment"))
    wanted = "WHERE rule IN ('twice', 'given_twice')"
    found = made.rows(f"SELECT rule, path, detail FROM replicas_findings {wanted}")
    assert [row["rule"] for row in found] == findings
    assert [row["rule"] for row in made.rows(f"SELECT rule FROM replicas_unknown {wanted}")] == unknown
    for row in found:
        folders = [f"/n{number}/data/{story.topic}-0" for number in (1, 2)]
        assert row["path"] == folders[1]
        assert all(each in row["detail"] for each in folders)


def asked(engine: "Engine", tell: Tell, relation: str) -> list[str]:
    story = Story(3)
    tell(story)
    rows = relations(engine, [story]).rows(
        f"SELECT rule FROM {relation} WHERE rule IN ('topic_id', 'node', 'cluster') ORDER BY rule"
    )
    return [row["rule"] for row in rows]
