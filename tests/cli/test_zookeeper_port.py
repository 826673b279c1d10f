"""The port to ZooKeeper: one side's words in the other's, and what a write brings back with it."""

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fencepost.bridge import access
from fencepost.bridge.access import Connect, Identity, ZooKeeperRefused, ZooKeeperUnavailable
from fencepost.bridge.data_tree import Znode as Found
from fencepost.bridge.live_port import (
    LivePort,
    access_of,
    block_content,
    ensemble_name,
    fence_content,
    seen,
)
from fencepost.bridge.znodes import BLOCK_PATH, parse_block
from fencepost.bridge.zookeeper import ZooKeeper
from fencepost.bridge.zookeeper_port import (
    Conflict,
    Fence,
    NoZnode,
    Refused,
    Unavailable,
    Unknown,
    Unreadable,
    Written,
    Znode,
)
from fencepost.controller.migration_phase import Intent
from fencepost.controller.producer_ids import ProducerIdBlock
from fencepost.records.types import PRODUCER_ID_MAX, ProducerId
from fencepost.settings.config import ConfigError, NodeConfig
from fencepost.settings.properties import parse_properties
from tests.secret_files import write_secret
from tests.together import table

versions = st.integers(0, 2**31 - 2)
block_ends = st.just(-1) | st.integers(0, PRODUCER_ID_MAX - 1)


@given(st.integers(0, PRODUCER_ID_MAX - 1000), st.integers(1, 1000), versions)
def test_a_block_of_the_bridge_is_read_back_as_kafka_reads_it(first: int, length: int, version: int) -> None:
    content = block_content(ProducerIdBlock(ProducerId(first), length))
    assert seen(content, version) == Znode(version, first + length - 1)
    held = parse_block(content, version)
    assert held is not None
    assert held[0] == -1, "nobody's"


@given(st.text("abcXYZ09_-", min_size=22, max_size=22), block_ends, versions)
def test_a_fence_is_read_back(cluster_id: str, block_end: int, version: int) -> None:
    fence = Fence(cluster_id, Intent(block_end, version))
    assert seen(fence_content(fence), version + 1) == Znode(version + 1, block_end, fence)
    assert Znode(version + 1, block_end, fence).is_exhausted


@pytest.mark.parametrize(
    ("content", "version", "expected"),
    [
        pytest.param(None, 0, Znode(0), id="never-written"),
        pytest.param(b"", 0, Znode(0), id="empty"),
        pytest.param(block_content(ProducerIdBlock(ProducerId(0), 5)), 3, Znode(3, 4), id="a-short-block"),
    ],
)
def test_what_the_znode_says(content: bytes | None, version: int, expected: Znode) -> None:
    assert seen(content, version) == expected


@pytest.mark.parametrize(("content", "version"), [(b"{", 3), (None, 3), (b"[1]", 1)])
def test_what_kafka_did_not_write_is_said_with_its_path(content: bytes | None, version: int) -> None:
    found = seen(content, version)
    assert isinstance(found, Unreadable)
    assert BLOCK_PATH in found.reason


@pytest.mark.parametrize(
    ("identity", "name"),
    [
        pytest.param(Identity("abc", 0x1F, "/kafka", {1: "h:1"}, "h:2181"), "abc@0x1f", id="kafkas-id"),
        pytest.param(
            Identity(None, None, "/kafka", {2: "b:2", 1: "a:1"}, "a:2181"),
            "unnamed@a:1,b:2/kafka",
            id="members-where-no-kafka-was",
        ),
        pytest.param(Identity(None, None, "", None, "a:2181"), "unnamed@a:2181", id="an-old-zookeeper"),
    ],
)
def test_an_ensemble_has_one_name_from_everywhere(identity: Identity, name: str) -> None:
    assert ensemble_name(identity) == name


# -- settings ------------------------------------------------------------------------------------------------


def config(folder: Path, *lines: str) -> NodeConfig:
    whole = (
        "node.id=1",
        "process.roles=controller",
        "listeners=CONTROLLER://127.0.0.1:9192",
        "log.dirs=data",
        "controller.quorum.voters=1@127.0.0.1:9292",
        "controller.quorum.bootstrap.servers=127.0.0.1:9192",
        "quorum.secret.file=secret",
        *lines,
    )
    return parse_properties("\n".join(whole), folder / "node.properties")


def test_the_settings_say_how_to_reach_it(tmp_path: Path) -> None:
    write_secret(tmp_path / "password", "post\n")
    write_secret(tmp_path / "mine.pem", "a key")
    found = access_of(
        config(
            tmp_path,
            "zookeeper.connect=a:1,b:2/kafka",
            "zookeeper.session.timeout.ms=4000",
            "zookeeper.ssl.client.enable=true",
            "zookeeper.ssl.truststore.location=ca.pem",
            "zookeeper.ssl.keystore.location=mine.pem",
            "zookeeper.sasl.username=fence",
            "zookeeper.sasl.password.file=password",
        )
    )
    assert found.connect == Connect((("a", 1), ("b", 2)), "/kafka")
    assert found.session_timeout_s == 4.0
    assert found.tls == access.Tls(
        ca=tmp_path / "ca.pem", certificate=tmp_path / "mine.pem", key=tmp_path / "mine.pem"
    )
    assert found.sasl == {"mechanism": "DIGEST-MD5", "username": "fence", "password": "post"}
    plain = access_of(config(tmp_path, "zookeeper.connect=a:1"))
    assert (plain.tls, plain.sasl) == (None, None)


@pytest.mark.parametrize(
    ("lines", "says"),
    [
        (("zookeeper.connect=a:99999",), "zookeeper.connect: "),
        (
            ("zookeeper.connect=a", "zookeeper.sasl.username=f", "zookeeper.sasl.password.file=none"),
            "zookeeper.sasl.password.file=",
        ),
    ],
    ids=["port", "password"],
)
def test_settings_that_cannot_be_used_are_named(tmp_path: Path, lines: tuple[str, ...], says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        access_of(config(tmp_path, *lines))


# -- a live port ---------------------------------------------------------------------------------------------


class Answers:
    """In the place of bridge.zookeeper.ZooKeeper: answers as told to, and notes the order of requests."""

    def __init__(self, **answers: Any) -> None:
        self._answers = answers
        self.asked: list[str] = []

    def _answer(self, name: str) -> Any:
        self.asked.append(name)
        answer = self._answers[name]
        if isinstance(answer, Exception):
            raise answer
        return answer

    async def get(self, path: str, *, is_synced: bool = True) -> Any:
        return self._answer("get" if is_synced else "glance")

    async def conditional_set(self, path: str, content: bytes, version: int) -> Any:
        return self._answer("set")

    async def create(self, path: str, content: bytes | None) -> Any:
        return self._answer("create")

    async def identity(self) -> Any:
        return self._answer("identity")


def ask(answers: Answers, question: Callable[[LivePort, Callable[[Any], None]], None]) -> Any:
    """What the port tells."""

    async def asking() -> Any:
        told: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        question(LivePort(cast(ZooKeeper, answers)), told.set_result)
        return await asyncio.wait_for(told, 10)

    return asyncio.run(asking())


BLOCK = ProducerIdBlock(ProducerId(0), 1000)
HELD = Found(block_content(BLOCK), 7, 1, 1)
LOST = ZooKeeperUnavailable("no connection")
NO = ZooKeeperRefused("NoAuth")


@table(
    ("answers", "expected"),
    [
        pytest.param({"set": access.Written(8, 9), "glance": HELD}, Written(8), id="written"),
        pytest.param(
            {"set": access.Conflict("BadVersion"), "glance": HELD},
            Conflict("BadVersion", Znode(7, 999)),
            id="a-conflict-comes-with-a-look",
        ),
        pytest.param(
            {"set": access.Conflict("BadVersion"), "glance": LOST}, Conflict("BadVersion"), id="or-without"
        ),
        pytest.param(
            {"set": access.Conflict("NoNode"), "glance": None}, Conflict("NoNode"), id="the-znode-is-gone"
        ),
        pytest.param({"set": access.Unknown("lost"), "glance": HELD}, Unknown("lost"), id="unknown"),
        pytest.param({"set": LOST, "glance": LOST}, Unavailable("no connection"), id="out-of-reach"),
        pytest.param({"set": NO, "glance": HELD}, Refused("NoAuth"), id="not-permitted"),
    ],
)
def test_what_comes_of_a_write(answers: dict[str, Any], expected: Any) -> None:
    zookeeper = Answers(**answers)
    outcome = ask(zookeeper, lambda port, told: port.write_block(BLOCK, 7, told))
    assert (type(outcome), outcome) == (type(expected), expected), "they are tuples, and equal as such"
    assert zookeeper.asked == ["set", "glance"], "the look is sent right behind the write"
    fence = Fence("c", Intent(999, 7))
    assert ask(Answers(**answers), lambda port, told: port.write_fence(fence, 7, told)) == expected


@table(
    ("question", "answers", "expected"),
    [
        pytest.param("read", {"get": HELD}, Znode(7, 999), id="a-block"),
        pytest.param("read", {"get": None}, NoZnode(), id="no-znode"),
        pytest.param("read", {"get": NO}, Refused("NoAuth"), id="read-not-permitted"),
        pytest.param("read", {"get": LOST}, Unavailable("no connection"), id="read-out-of-reach"),
        pytest.param("create", {"create": access.Written(0, 1)}, Written(0), id="created"),
        pytest.param("create", {"create": LOST}, Unavailable("no connection"), id="create-out-of-reach"),
        pytest.param("identity", {"identity": Identity("c", 1, "", None, "a:1")}, "c@0x1", id="a-name"),
        pytest.param("identity", {"identity": NO}, Refused("NoAuth"), id="no-name"),
    ],
)
def test_what_is_told(question: str, answers: dict[str, Any], expected: Any) -> None:
    answer = ask(Answers(**answers), lambda port, told: getattr(port, question)(told))
    assert (type(answer), answer) == (type(expected), expected)
