"""A partition leader knows a producer although none of its records is left, until the producer id expires."""

import time
from pathlib import Path

import pytest

from tests.harness.nodes import NO_QUOTA, Nodes, running, wait_for
from tests.processes.raw_client import LOADING, RawClient
from tests.processes.txn_requests import Pair, init, write

pytestmark = pytest.mark.slow

TOPIC = "retained"
OUT_OF_ORDER_SEQUENCE_NUMBER, RETRIED = 45, frozenset((3, 6))
CHECKS = ("log.retention.check.interval.ms=100", "producer.id.expiration.check.interval.ms=100")


def producer(nodes: Nodes) -> Pair:
    def look() -> Pair | None:
        with RawClient(nodes.address(1, "client")) as client:
            answer = client.call(init(None, timeout_ms=0))
        if int(answer.error_code) == LOADING:
            return None
        assert int(answer.error_code) == 0
        return int(answer.producer_id), int(answer.producer_epoch)

    return wait_for("a producer id", look)


def write_once(nodes: Nodes, pair: Pair, sequence: int) -> tuple[int, int]:
    """(code, offset) of a record of this moment."""

    def look() -> tuple[int, int] | None:
        with RawClient(nodes.address(1, "client")) as client:
            now_ms = int(time.time() * 1000)
            answer = client.call(write(None, pair, TOPIC, 0, sequence, str(sequence), now_ms))
        (found,) = answer.responses[0].partition_responses
        code = int(found.error_code)
        return None if code in RETRIED else (code, int(found.base_offset))

    return wait_for("the partition's leader answers", look)


def await_deleted(nodes: Nodes, end: int) -> None:
    """Nothing below ``end`` is left."""

    def look() -> bool:
        (row,) = nodes.read("get-offsets", "--topic", TOPIC, "--time", "earliest")
        return int(row["offset"]) == end

    wait_for(f"the log begins at {end}", look)


def restart(nodes: Nodes, *settings: str) -> None:
    nodes.kill(1)
    with (nodes.node(1).directory / "node.properties").open("a") as file:
        file.writelines(f"{each}\n" for each in settings)
    nodes.up()


@pytest.mark.row("360.7")
def test_a_producer_is_known_after_its_records_are_gone_until_it_expires(tmp_path: Path) -> None:
    with running(tmp_path / "cluster", NO_QUOTA, *CHECKS, count=1) as nodes:
        nodes.run("topics", "create", "--topic", TOPIC, "--config", "retention.ms=1")
        pair = producer(nodes)
        assert write_once(nodes, pair, 0) == (0, 0)
        await_deleted(nodes, 1)
        for _ in range(2):
            assert write_once(nodes, pair, 0) == (0, 0), "a retry is answered with its record's offset"
            assert write_once(nodes, pair, 2)[0] == OUT_OF_ORDER_SEQUENCE_NUMBER
            await_deleted(nodes, 1)
            restart(nodes)
        assert write_once(nodes, pair, 1) == (0, 1)
        await_deleted(nodes, 2)
        restart(nodes, "producer.id.expiration.ms=1")

        def goes_on() -> bool:
            return write_once(nodes, pair, 3)[0] == 0

        wait_for("it is forgotten: any sequence is a first one", goes_on)
