"""Preflight on znodes as Kafka writes them, without a server: what the fence does to each broker."""

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any, cast

import pytest

from fencepost.bridge.access import AclEntry, Identity, ZooKeeperRefused
from fencepost.bridge.data_tree import Znode
from fencepost.bridge.zookeeper import ZooKeeper
from fencepost.cli import migrate_preflight
from fencepost.cli.migrate_preflight import Preflight, look
from fencepost.controller.errors import InvalidRequest
from tests.together import table
from tests.zookeeper.kafka_rule import kafkas_content

BLOCK = "/latest_producer_id_block"
ANYONE = (AclEntry("world", "anyone", "cdrwa"),)


def registration(version: int, protocol: str = "PLAINTEXT") -> bytes:
    """As Kafka writes it: version 5 from inter.broker.protocol.version 2.7 on."""
    document: dict[str, Any] = {
        "listener_security_protocol_map": {"MINE": protocol},
        "endpoints": ["MINE://127.0.0.1:9092"],
        "jmx_port": -1,
        "port": 9092,
        "host": "127.0.0.1",
        "version": version,
        "timestamp": "1699999999999",
    }
    if version >= 5:
        document["features"] = {"metadata.version": {"min_version": 1, "max_version": 21}}
    return json.dumps(document).encode()


class Znodes:
    """What preflight asks of a ZooKeeper, from memory."""

    def __init__(self, brokers: dict[int, bytes], *, cluster_id: str | None = "c", acl: Any = ANYONE) -> None:
        self.contents = {f"/brokers/ids/{number}": content for number, content in brokers.items()}
        self.contents[BLOCK] = kafkas_content(1, 0, 999)
        self.cluster_id = cluster_id
        self._acl = acl
        self.seen: list[bytes] = []  # contents of the block while it is watched

    async def identity(self) -> Identity:
        return Identity(self.cluster_id, None if self.cluster_id is None else 7, "/kafk", None, "zk:2181")

    async def kafka_chroots(self) -> tuple[str, ...]:
        return ("", "/kafka")

    async def get(self, path: str) -> Znode | None:
        content = self.contents.get(path)
        return None if content is None else Znode(content, 1, 0, 0)

    async def children(self, path: str) -> tuple[str, ...]:
        return tuple(each.rpartition("/")[2] for each in self.contents if each.startswith(f"{path}/"))

    async def acl(self, path: str) -> tuple[AclEntry, ...]:
        assert path == BLOCK
        if isinstance(self._acl, Exception):
            raise self._acl
        return cast(tuple[AclEntry, ...], self._acl)

    async def changes(self, path: str) -> AsyncIterator[Znode | None]:
        assert path == BLOCK
        for version, content in enumerate(self.seen):
            yield Znode(content, version, 0, 0)


def looked(znodes: Znodes) -> Preflight:
    return asyncio.run(look(cast(ZooKeeper, znodes), "zk:2181/kafk", 5.0))


@table(
    ("version", "listener", "described", "protocol", "known_from", "starts_again"),
    [
        pytest.param(5, "PLAINTEXT", "2.8-IV1", "2.8-IV1", "its configuration", False, id="2.8"),
        pytest.param(5, "PLAINTEXT", "3.0-IV0", "3.0-IV0", "its configuration", True, id="3.0"),
        pytest.param(5, "PLAINTEXT", "3.9-IV0", "3.9-IV0", "its configuration", True, id="3.9"),
        pytest.param(4, "PLAINTEXT", "2.6-IV0", "2.6-IV0", "its configuration", False, id="2.6"),
        pytest.param(4, "SASL_SSL", None, "below 2.7", "its znode", False, id="2.6-behind-a-login"),
        pytest.param(5, "SASL_SSL", None, None, None, None, id="behind-a-login"),
        pytest.param(5, "PLAINTEXT", "", None, None, None, id="no-answer"),
        pytest.param(5, "PLAINTEXT", "newest", None, None, None, id="no-number"),
    ],
)
@pytest.mark.row("730.14")
def test_each_registered_broker_is_cut_off(
    version: int,
    listener: str,
    described: str | None,
    protocol: str | None,
    known_from: str | None,
    starts_again: bool | None,
) -> None:
    async def answered(_host: str, _port: int, _broker: int) -> str | None:
        if not described:
            raise InvalidRequest("no")
        return described

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(migrate_preflight, "_described", answered)
        found = looked(Znodes({7: registration(version, listener)}))
    (broker,) = found.brokers
    assert (broker.protocol, broker.known_from, broker.starts_again) == (protocol, known_from, starts_again)
    assert (found.verdict, found.blocking) == ("cuts-off", [])
    assert "no new producer ids" in broker.after_the_fence
    assert ("Have exhausted all producerIds" in broker.after_the_fence) is (starts_again is False)


@pytest.mark.row("730.14")
def test_where_no_broker_is_registered_it_is_ready() -> None:
    assert looked(Znodes({})).verdict == "ready"


@pytest.mark.row("730.14")
@table("seen", [[], [(7, 0)], [(7, 0), (8, 1000), (7, 2000)]], ids=["none", "its-own", "others-too"])
def test_no_verdict_depends_on_what_was_watched(seen: list[tuple[int, int]]) -> None:
    """A block names the broker that it is for; who wrote it, no one can see."""
    znodes = Znodes({7: registration(4, "SSL")})
    znodes.seen = [kafkas_content(0, 0, 9), *(kafkas_content(b, first, first + 999) for b, first in seen)]
    found = looked(znodes)
    assert (found.verdict, [each.broker_id for each in found.brokers]) == ("cuts-off", [7])
    assert found.brokers[0].reasons == looked(Znodes({7: registration(4, "SSL")})).brokers[0].reasons
    assert sum(found.blocks_seen.values()) == len(seen)
    assert any("broker 8, not registered" in remark for remark in found.remarks) is (len(seen) == 3)


@pytest.mark.row("beyond.2")
@table(
    ("acl", "verdict", "says"),
    [
        pytest.param(ANYONE, "ready", "not proved", id="anyone"),
        pytest.param((AclEntry("sasl", "kafka", "cdrwa"),), "ready", "sasl:kafka:cdrwa", id="some"),
        pytest.param((AclEntry("world", "anyone", "r"),), "blocked", "lets no one write", id="read-only"),
        pytest.param((), "blocked", "lets no one write", id="nothing"),
        pytest.param(ZooKeeperRefused("NoAuthError"), "ready", "NoAuthError", id="not-shown"),
    ],
)
def test_who_may_write_is_read_and_not_proved(acl: Any, verdict: str, says: str) -> None:
    found = looked(Znodes({}, acl=acl))
    assert found.verdict == verdict
    assert any(says in line for line in (*found.blocking, *found.remarks))
    assert found.to_json()["write_permission"] == "not proved"


@pytest.mark.row("beyond.2")
def test_a_chroot_without_a_cluster_blocks_and_the_others_are_named() -> None:
    found = looked(Znodes({}, cluster_id=None))
    assert found.verdict == "blocked"
    assert "there is one below / and /kafka: look at the chroot" in found.blocking[0]
