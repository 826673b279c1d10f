"""Elections that are never needed, or of no use; what has settings; the removal of a broker."""

from pathlib import Path

import pytest

from fencepost.controller.brokers import UnregisterBroker
from fencepost.controller.errors import (
    BrokerIdNotRegistered,
    ErrorCode,
    InvalidRequest,
    UnsupportedVersion,
)
from fencepost.records.types import BrokerId
from fencepost.wire.k03_metadata import TopicQuery
from fencepost.wire.k43_elect_leaders import ELECT_LEADERS, PREFERRED, UNCLEAN, ElectLeaders
from fencepost.wire.k64_unregister_broker import UNREGISTER_BROKER
from fencepost.wire.k74_list_config_resources import (
    LIST_CONFIG_RESOURCES,
    ListConfigResources,
    ListedResource,
)
from tests.broker.batches import TOPIC
from tests.broker.data_stage import HERE, hosting
from tests.broker.fake_controller import play

NONE = -1  # leads it


def test_elections_are_not_needed_or_not_possible(tmp_path: Path) -> None:
    async def story() -> None:
        async with hosting(tmp_path, HERE, NONE) as on:
            assert await on.broker._data.topics.look_up((TopicQuery(TOPIC),)) is not None
            asked = ((TOPIC, 0), (TOPIC, 1), (TOPIC, 2), ("none", 0), (TOPIC, -1))
            for kind, code in ((PREFERRED, 80), (UNCLEAN, 83)):
                rows = (await on.call(ELECT_LEADERS, ElectLeaders(asked, kind))).partitions
                codes = {(row.topic, row.index): row.error_code for row in rows}
                assert [codes[each] for each in asked] == [
                    ErrorCode.ELECTION_NOT_NEEDED, code, *[ErrorCode.UNKNOWN_TOPIC_OR_PARTITION] * 3
                ]  # fmt: skip
                (row,) = (await on.call(ELECT_LEADERS, ElectLeaders(None, kind))).partitions
                assert (row.index, row.error_code) == (1, code)
            with pytest.raises(InvalidRequest):
                await on.call(ELECT_LEADERS, ElectLeaders(asked, 2))

    play(story)


def test_topics_and_brokers_have_settings(tmp_path: Path) -> None:
    async def story() -> None:
        async with hosting(tmp_path, HERE) as on:
            on.controller.brokers = (on.itself,)
            assert await on.broker._data.topics.refresh()
            api = LIST_CONFIG_RESOURCES
            every = (await on.call(api, ListConfigResources())).resources
            assert ListedResource(TOPIC, 2) in every
            assert (await on.call(api, ListConfigResources((2, 2)))).resources == (ListedResource(TOPIC, 2),)
            assert (await on.call(api, ListConfigResources((16,)), 0)).resources == ()
            with pytest.raises(UnsupportedVersion):
                await on.call(api, ListConfigResources((2, 99)))

    play(story)


def test_a_broker_is_removed_by_the_controller(tmp_path: Path) -> None:
    async def story() -> None:
        async with hosting(tmp_path, HERE) as on:
            gone = UnregisterBroker(BrokerId(7))
            on.controller.script(UNREGISTER_BROKER, None, BrokerIdNotRegistered("no broker has id 7"))
            assert await on.call(UNREGISTER_BROKER, gone) is None
            with pytest.raises(BrokerIdNotRegistered, match="no broker has id 7"):
                await on.call(UNREGISTER_BROKER, gone)
            assert on.controller.asked[UNREGISTER_BROKER.key] == [gone, gone]

    play(story)
