"""Which of a broker's addresses the clients of a listener are given."""

from uuid import UUID

import pytest

from fencepost.controller.brokers import Broker, Endpoint, endpoint_on
from fencepost.records.types import BrokerEpoch, BrokerId
from tests.together import table

INSIDE, OUTSIDE = Endpoint("INSIDE", "a", 1), Endpoint("OUTSIDE", "b", 2)

CASES = [
    pytest.param((INSIDE, OUTSIDE), "OUTSIDE", (OUTSIDE,), id="by-name"),
    pytest.param((INSIDE, OUTSIDE), "INSIDE", (INSIDE,), id="the-first-by-name"),
    pytest.param((INSIDE, OUTSIDE), "", (INSIDE,), id="without-a-name-that-of-brokers"),
    pytest.param((INSIDE, OUTSIDE), "ELSEWHERE", (), id="a-listener-that-it-lacks"),
    pytest.param((INSIDE,), "OUTSIDE", (INSIDE,), id="its-only-one-whatever-the-name"),
]


@table(("endpoints", "listener", "expected"), CASES)
def test_which_endpoint_a_listener_is_given(
    endpoints: tuple[Endpoint, ...], listener: str, expected: tuple[Endpoint, ...]
) -> None:
    broker = Broker(
        broker_id=BrokerId(1),
        epoch=BrokerEpoch(1),
        incarnation_id=UUID(int=1),
        directory_id=UUID(int=2),
        endpoints=endpoints,
        features=(),
        rack=None,
        fenced=False,
        in_controlled_shutdown=False,
    )
    assert endpoint_on(broker, listener) == expected
