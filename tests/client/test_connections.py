"""No connection stays open when its client is closed, however many calls opened it and whenever they did."""

import asyncio
import random

import pytest

from fencepost.client.network import Network, NetworkSettings, addresses
from fencepost.cluster.brokers import Brokers
from fencepost.cluster.target import Target
from fencepost.settings.config import Address
from fencepost.wire.client import ControllerClient
from fencepost.wire.connection import NotConnected
from fencepost.wire.k03_metadata import METADATA, Metadata
from tests import skipping_loop
from tests.client.opened import Opened
from tests.client.scripted import ScriptedCluster

EVERY_TOPIC = Metadata(None, allow_auto_topic_creation=False)


def test_calls_to_brokers_that_overlap_open_one_connection(opened: Opened) -> None:
    async def story() -> None:
        async with ScriptedCluster().serving() as bootstrap:
            (address,) = addresses(bootstrap)
            brokers = Brokers(Target((Address(*address),)), timeout_s=5.0)
            for _ in range(2):  # at first, and after it was lost
                await asyncio.gather(*(brokers.topics() for _ in range(3)))
                assert opened.still_open == 1
                opened.connections[-1].close()
            await brokers.topics()
            brokers.close()
        assert opened.still_open == 0
        assert len(opened.connections) == 3

    skipping_loop.run(story())


def test_what_opens_while_the_network_closes_is_closed(opened: Opened) -> None:
    async def story() -> None:
        async with ScriptedCluster().serving() as bootstrap:
            network = Network(NetworkSettings(bootstrap=addresses(bootstrap)), random.Random(1))
            opened.then = network.close
            with pytest.raises(NotConnected, match="closed"):
                await network.call_any(METADATA, EVERY_TOPIC)
        assert [each.is_open for each in opened.connections] == [False]

    skipping_loop.run(story())


def test_what_opens_while_the_controller_client_closes_is_closed(opened: Opened) -> None:
    async def story() -> None:
        async with ScriptedCluster().serving() as bootstrap:
            client = ControllerClient(
                addresses(bootstrap), rng=random.Random(1), clock=asyncio.get_running_loop().time
            )
            opened.then = client.close
            with pytest.raises(NotConnected, match="closed"):
                await client.call(METADATA, EVERY_TOPIC, timeout_s=5.0)
        assert [each.is_open for each in opened.connections] == [False]

    skipping_loop.run(story())
