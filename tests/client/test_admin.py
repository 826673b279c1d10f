"""The admin client against a real cluster."""

import asyncio

import pytest

from fencepost.client import (
    Admin,
    ClientError,
    Consumer,
    Producer,
    ProducerFenced,
    Refused,
    TopicPartition,
    UnknownTopic,
)
from tests.client.test_cluster import fresh, run

pytestmark = pytest.mark.slow


async def until_described(admin: Admin, topic: str) -> None:
    """A topic that was just created is not known by every broker at once."""
    while True:
        try:
            found = await admin.describe_topic(topic)
        except UnknownTopic:
            continue
        if all(leader.node_id >= 0 for leader in found.leaders.values()):
            return


def test_topics_are_created_described_and_deleted(bootstrap: str) -> None:
    topic = fresh("topic")

    async def story() -> None:
        async with Admin(bootstrap) as admin:
            await admin.create_topic(topic, partitions=4, configs={"retention.ms": "1234567"})
            await until_described(admin, topic)
            assert sorted((await admin.describe_topic(topic)).leaders) == [0, 1, 2, 3]
            assert (await admin.topic_configs(topic))["retention.ms"].value == "1234567"
            with pytest.raises(Refused, match="ALREADY_EXISTS"):
                await admin.create_topic(topic)
            await admin.delete_topic(topic)
            while topic in await admin.list_topics():
                pass
            with pytest.raises(UnknownTopic):
                await admin.delete_topic(topic)

    run(story())


def test_groups_are_listed_described_and_deleted(bootstrap: str) -> None:
    topic, group = fresh("topic"), fresh("group")
    partition = TopicPartition(topic, 0)

    async def story() -> None:
        async with Producer(bootstrap) as producer:
            await producer.send_and_wait(topic, b"x", partition=0)
        async with Admin(bootstrap) as admin:
            async with Consumer(bootstrap, group_id=group, auto_offset_reset="earliest") as consumer:
                consumer.subscribe([topic])
                while not await consumer.poll():
                    pass
                await consumer.commit()
                described = await admin.describe_group(group)
                assert (described.state, len(described.members)) == ("Stable", 1)
                with pytest.raises(Refused):
                    await admin.delete_group(group)
            assert group in {each.group_id for each in await admin.list_groups()}
            assert (await admin.group_offsets(group, [partition]))[partition].offset == 1
            await admin.delete_group_offsets(group, [partition])
            assert partition not in await admin.group_offsets(group, [partition])
            with pytest.raises(ClientError):
                await admin.delete_group(fresh("no"))

    run(story())


@pytest.mark.row("939.8")
@pytest.mark.row("beyond.5")
def test_a_transaction_is_terminated_and_its_fence_is_remembered(ours: str) -> None:
    topic = fresh("terminate")

    async def story() -> None:
        async with (
            Admin(ours) as admin,
            Producer(ours, transactional_id=topic) as producer,
        ):
            producer.begin_transaction()
            await producer.send_and_wait(topic, b"x")
            (listed,) = [
                each
                for each in await admin.list_transactions(states=["Ongoing"])
                if each.transactional_id == topic
            ]
            described = await admin.describe_transaction(topic)
            assert (described.state, described.producer_id) == ("Ongoing", listed.producer_id)
            await admin.force_terminate(topic)
            with pytest.raises(ProducerFenced):
                await producer.commit_transaction()
            (fence,) = await admin.fence_history(topic)
            assert (fence.producer_id, fence.client_id) == (listed.producer_id, "fencepost-admin")
            assert "was fenced by a new instance" in (await admin.explain_transaction(topic)).explanation
            with pytest.raises(Refused):
                await admin.force_terminate(fresh("unknown"))

    run(story())


def test_features_are_said(bootstrap: str) -> None:
    async def story() -> None:
        async with Admin(bootstrap) as admin:
            level = (await admin.features())["transaction.version"]
            await admin.update_feature("transaction.version", level)
            with pytest.raises(Refused):
                await admin.update_feature("transaction.version", 99)

    run(asyncio.wait_for(story(), 30))
