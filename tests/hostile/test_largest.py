"""Every request key at its limits, against real nodes: answered, refused by code, or closed; then it goes on.

Goal        no node ends, no log has a traceback; afterwards transactions commit on the same nodes.
Shown       what came of each request is printed (pytest -s).
"""

import asyncio
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from fencepost.controller.errors import ApiError, ErrorCode, UnsupportedVersion
from fencepost.wire.client import Connection, ConnectionLost, RequestTimeout
from fencepost.wire.connection import SOFTWARE
from fencepost.wire.dispatch import Api
from fencepost.wire.k18_api_versions import API_VERSIONS
from fencepost.wire.k22_init_producer_id import INIT_PRODUCER_ID
from fencepost.wire.registry import APIS
from tests.harness.nodes import Nodes, running
from tests.hostile.campaign import NODE_SETTINGS, assert_clean, transactions_run
from tests.hostile.largest import LONG, largest, names_of
from tests.hostile.largest_request import Largest, changed
from tests.wire.every_api import EVERY_API, NEVER_ANSWERED
from tests.wire.sample_messages import SAMPLES

REPLY_S_MAX = 60.0
PURPOSES = ("client", "controller")


def test_every_api_has_its_largest_requests() -> None:
    """Those of LONG, or else its sample with each text and list stretched; only numbers have none."""
    assert LONG.keys() <= APIS.keys()
    for api in EVERY_API:
        sample = SAMPLES[api.key][0]
        values = [getattr(sample, name) for name in names_of(sample)]
        only_numbers = all(isinstance(value, int) for value in values)
        assert len(list(largest(api))) > 1 or only_numbers, f"{api.name}: {sample}"


def test_each_fits_its_limit_or_is_meant_not_to() -> None:
    """A list of Kafka's own limits fits; what is larger than any of ours is refused by its bytes."""
    too_large = []
    for api in EVERY_API:
        for each in largest(api):
            version = api.versions[-1] if each.version is None else each.version
            size = len(api.encode_request(version, each.request))
            if size > api.request_bytes_max and api.key != 0:
                too_large.append(f"{api.name}: {each.title}")
    assert too_large == []


def say(line: str) -> None:
    print(line)  # noqa: T201 - what came of it is for who reads the test's output


@pytest.fixture(scope="module")
def nodes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Nodes]:
    with running(tmp_path_factory.mktemp("largest") / "cluster", *NODE_SETTINGS) as started:
        started.run("topics", "create", "--topic", "orders", "--partitions", "4")
        yield started


@pytest.mark.slow
@pytest.mark.parametrize("api", EVERY_API, ids=lambda api: api.name)
def test_the_largest_requests_stop_no_node(nodes: Nodes, api: Api[Any, Any]) -> None:
    pids = [nodes.pid(node_id) for node_id in nodes.node_ids]
    leader, follower = nodes.leader(), nodes.followers()[0]
    for purpose in PURPOSES:
        for each in largest(api):
            for node_id in (leader, follower) if purpose == "client" else (leader,):
                request = each.request
                if api.key == 62 and each.title != "a sample":
                    request = changed(request, cluster_id=nodes.cluster.cluster_id)
                address = nodes.address(node_id, purpose)
                ending = asyncio.run(ask(address, api, each._replace(request=request)))
                if ending == "not served":
                    continue
                say(f"{api.name} ({api.key}) {purpose} {node_id}: {each.title}: {ending}")
                assert ending != "no reply"
    assert [nodes.node(node_id).pid() for node_id in nodes.node_ids] == pids, "a node ended"
    assert_clean(nodes)


@pytest.mark.slow
def test_transactions_run_after_them(nodes: Nodes, tmp_path: Path) -> None:
    transactions_run(nodes, print)
    assert_clean(nodes)


async def ask(address: tuple[str, int], api: Api[Any, Any], each: Largest) -> str:
    """What came of a request: the error it was refused with, ``closed``, or ``done``."""
    try:
        connection = await Connection.open(*address)
    except ConnectionLost:
        return "not connected"
    try:
        request = await prepared(connection, api, each.request)
        version = each.version
        if api.key not in connection.versions:
            return "not served"
        if api.key in NEVER_ANSWERED:  # what is sent behind it is answered when it is done
            assert connection.send_nowait(api, request)
            await connection.call(API_VERSIONS, SOFTWARE, timeout_s=REPLY_S_MAX)
        else:
            await connection.call(api, request, version=version, timeout_s=REPLY_S_MAX)
    except ApiError as error:
        return f"refused: {error.code.name}"
    except ConnectionLost as error:
        return f"closed: {error}"
    except (RequestTimeout, TimeoutError):
        return "no reply"
    finally:
        connection.close()
        await asyncio.sleep(0)
    return "done"


async def prepared(connection: Connection, api: Api[Any, Any], request: Any) -> Any:
    """The request of a producer that exists, where it is one transaction's: of an id that has none open."""
    if api.key != 24 or len(request.transactions) != 1 or 22 not in connection.versions:
        return request
    name = f"largest-{uuid.uuid4()}"
    fresh = changed(SAMPLES[22][0], transactional_id=name, producer_id=-1, producer_epoch=-1)
    for _ in range(200):
        try:
            pair = await connection.call(
                INIT_PRODUCER_ID, changed(fresh, transaction_timeout_ms=600_000), timeout_s=REPLY_S_MAX
            )
            break
        except UnsupportedVersion:
            return request
        except ApiError as error:
            if error.code not in (
                ErrorCode.CONCURRENT_TRANSACTIONS,
                ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
                ErrorCode.COORDINATOR_NOT_AVAILABLE,
            ):
                return request
            await asyncio.sleep(0.05)
    else:
        return request
    (one,) = request.transactions
    pair_of = {"producer_id": pair.producer_id, "producer_epoch": pair.producer_epoch}
    one = changed(one, transactional_id=name, **pair_of)
    return changed(request, transactions=(one,))
