"""Those who wait for one thing share it: questions to the coordinator, flushes, questions about topics."""

import asyncio
import threading
from pathlib import Path
from typing import Any

import pytest

from fencepost.broker.controller_clients import COORDINATORS
from fencepost.broker.verification import Producer, Verifier, _pause_s
from fencepost.controller.errors import ErrorCode, NotCoordinator
from fencepost.controller.transactions.add_partitions import AddPartitionsAnswer, AddPartitionsToTxnAnswer
from fencepost.records.transaction_log import TopicPartitions
from fencepost.records.types import ProducerId
from fencepost.wire.k03_metadata import METADATA, TopicQuery
from fencepost.wire.k24_add_partitions_to_txn import ADD_PARTITIONS_TO_TXN
from tests.broker.batches import TOPIC, from_producer, marker, produce
from tests.broker.data_stage import HERE, ended, hosting, open_transaction, produced
from tests.broker.fake_controller import SILENCE, play

ENDING = AddPartitionsToTxnAnswer(
    (("id-0", AddPartitionsAnswer(((TOPIC, ((0, ErrorCode.CONCURRENT_TRANSACTIONS),)),))),)
)


def producer(number: int, epoch: int = 0) -> Producer:
    return Producer(f"id-{number}", ProducerId(number), epoch)


def test_questions_that_come_while_all_connections_wait_share_the_next_round(tmp_path: Path) -> None:
    async def story() -> None:
        async with hosting(tmp_path, HERE) as on:
            verifier: Verifier = on.broker._data._verifier
            answered: list[ErrorCode] = []
            for number in range(COORDINATORS):
                on.controller.script(ADD_PARTITIONS_TO_TXN, SILENCE)
                verifier.ask(producer(number), TOPIC, 0, answered.append)
                await on.controller.count(ADD_PARTITIONS_TO_TXN, number + 1)
            for number in range(COORDINATORS, COORDINATORS + 4):
                verifier.ask(producer(number), TOPIC, 0, answered.append)
                verifier.ask(producer(number), TOPIC, 1, answered.append)
            on.controller.hang_up()  # the first ones are asked again; then all the rest at once
            asked = await on.controller.count(ADD_PARTITIONS_TO_TXN, 2 * COORDINATORS + 1)
            while len(answered) < COORDINATORS + 8:
                await asyncio.sleep(0)
            assert sorted(len(each.transactions) for each in asked) == [1] * 2 * COORDINATORS + [4]
            assert max(asked, key=lambda each: len(each.transactions)).transactions[0].topics[0] == (
                TopicPartitions(TOPIC, (0, 1))
            )
            assert set(answered) == {ErrorCode.NONE}

    play(story)


def test_questions_that_come_soon_after_a_round_share_the_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also while connections are free. The first one, of whom no other is close, does not wait."""
    monkeypatch.setattr("fencepost.broker.verification.ROUND_S", 0.5)

    async def story() -> None:
        async with hosting(tmp_path, HERE) as on:
            verifier: Verifier = on.broker._data._verifier
            answered: list[ErrorCode] = []
            for number in range(4):
                verifier.ask(producer(number), TOPIC, 0, answered.append)
                await on.controller.count(ADD_PARTITIONS_TO_TXN, 1)
                for _ in range(20):
                    await asyncio.sleep(0)
            asked = await on.controller.count(ADD_PARTITIONS_TO_TXN, 2)
            while len(answered) < 4:
                await asyncio.sleep(0)
            assert [len(each.transactions) for each in asked] == [1, 3]

    play(story)


def test_a_round_finds_the_coordinator_that_moved(tmp_path: Path) -> None:
    async def story() -> None:
        async with hosting(tmp_path, HERE) as on:
            verifier: Verifier = on.broker._data._verifier
            answered: list[ErrorCode] = []
            for number in range(COORDINATORS + 1):  # each connection is open then, and the last one is used
                on.controller.script(ADD_PARTITIONS_TO_TXN, NotCoordinator("it moved"))
                verifier.ask(producer(number), TOPIC, 0, answered.append)
                while len(answered) <= number:
                    await asyncio.sleep(0)
            assert answered == [ErrorCode.NONE] * (COORDINATORS + 1)

    play(story)


def test_one_transactional_id_with_two_epochs_is_asked_about_one_after_the_other(tmp_path: Path) -> None:
    async def story() -> None:
        async with hosting(tmp_path, HERE) as on:
            verifier: Verifier = on.broker._data._verifier
            answered: list[ErrorCode] = []
            for epoch in (1, 2):
                verifier.ask(producer(0, epoch), TOPIC, 0, answered.append)
            asked = await on.controller.count(ADD_PARTITIONS_TO_TXN, 2)
            assert [each.transactions[0].producer_epoch for each in asked] == [1, 2]

    play(story)


def test_an_addition_is_asked_again_while_the_last_transaction_ends_and_keeps_its_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What waits for the markers of one producer holds up no other, and its own questions stay in order."""
    monkeypatch.setattr("fencepost.broker.verification.ADD_RETRY_S_MAX", 60.0)

    async def story() -> None:
        async with hosting(tmp_path, HERE) as on:
            verifier: Verifier = on.broker._data._verifier
            answered: list[tuple[str, ErrorCode]] = []

            def ask(number: int, index: int) -> None:
                def reply(code: ErrorCode) -> None:
                    answered.append((f"{number}-{index}", code))

                verifier.ask(producer(number), TOPIC, index, reply, adds=True)

            on.controller.script(ADD_PARTITIONS_TO_TXN, ENDING)
            ask(0, 0)
            await on.controller.count(ADD_PARTITIONS_TO_TXN, 1)
            ask(0, 1)
            ask(1, 0)
            while len(answered) < 3:
                await asyncio.sleep(0)
            assert dict(answered) == dict.fromkeys(("0-0", "0-1", "1-0"), ErrorCode.NONE)
            assert [name for name, _ in answered if name[0] == "0"] == ["0-0", "0-1"]
            asked = await on.controller.count(ADD_PARTITIONS_TO_TXN, 2)
            assert not any(part.verify_only for each in asked for part in each.transactions)

    play(story)


def adding(verifier: Verifier, *indexes: int) -> list[tuple[int, ErrorCode]]:
    """Additions of producer 0, each of a partition; the answers as they come."""
    answered: list[tuple[int, ErrorCode]] = []
    for position, index in enumerate(indexes):

        def reply(code: ErrorCode, position: int = position) -> None:
            answered.append((position, code))

        verifier.ask(producer(0), TOPIC, index, reply, adds=True)
    return answered


@pytest.mark.parametrize("is_answered", [True, False], ids=["after-the-51", "before-the-51"])
def test_an_announcement_answers_an_addition_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_answered: bool
) -> None:
    """However long the next try is away; and an answer that comes after it changes nothing."""
    monkeypatch.setattr("fencepost.broker.verification.ADD_RETRY_S", (3600.0, 3600.0))

    async def story() -> None:
        async with hosting(tmp_path, HERE) as on:
            verifier: Verifier = on.broker._data._verifier
            on.controller.script(ADD_PARTITIONS_TO_TXN, ENDING)
            answered = adding(verifier, 0, 0)
            await on.controller.count(ADD_PARTITIONS_TO_TXN, 1)
            while is_answered and not verifier._pauses:
                await asyncio.sleep(0)
            verifier.announced(ProducerId(0), 1, TOPIC, 0)
            verifier.announced(ProducerId(0), 0, TOPIC, 1)
            verifier.announced(ProducerId(1), 0, TOPIC, 0)
            assert not answered, "of another epoch, partition, producer"
            verifier.announced(ProducerId(0), 0, TOPIC, 0)
            assert answered == [(0, ErrorCode.NONE), (1, ErrorCode.NONE)]
            later = adding(verifier, 0)
            while not later:
                await asyncio.sleep(0)
            assert (verifier._count, verifier._adding, verifier._pauses) == (0, {}, {})
            assert len(await on.controller.count(ADD_PARTITIONS_TO_TXN, 2)) == 2
            assert len(answered) == 2

    play(story)


def test_an_announcement_leaves_what_else_the_producer_waits_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fencepost.broker.verification.ADD_RETRY_S_MAX", 60.0)
    refused = AddPartitionsAnswer(
        ((TOPIC, tuple((each, ErrorCode.CONCURRENT_TRANSACTIONS) for each in (0, 1))),)
    )

    async def story() -> None:
        async with hosting(tmp_path, HERE) as on:
            verifier: Verifier = on.broker._data._verifier
            on.controller.script(ADD_PARTITIONS_TO_TXN, AddPartitionsToTxnAnswer((("id-0", refused),)))
            answered = adding(verifier, 0, 1)
            while not verifier._pauses:
                await asyncio.sleep(0)
            verifier.announced(ProducerId(0), 0, TOPIC, 0)
            assert answered == [(0, ErrorCode.NONE)]
            _, again = await on.controller.count(ADD_PARTITIONS_TO_TXN, 2)
            assert again.transactions[0].topics == (TopicPartitions(TOPIC, (1,)),)
            while len(answered) < 2:
                await asyncio.sleep(0)

    play(story)


def test_an_addition_answers_all_batches_that_wait_for_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In their order: a batch that comes then is appended at once, and must not pass them.

    One with another transactional id waits for the coordinator, which knows whose the producer id is.
    """
    monkeypatch.setattr("fencepost.broker.verification.ADD_RETRY_S", (3600.0, 3600.0))
    refused = AddPartitionsAnswer(((TOPIC, ((0, ErrorCode.CONCURRENT_TRANSACTIONS),)),))

    async def story() -> None:
        async with hosting(tmp_path, HERE) as on:
            verifier: Verifier = on.broker._data._verifier
            on.controller.script(ADD_PARTITIONS_TO_TXN, SILENCE)
            answered = adding(verifier, 0)
            await on.controller.count(ADD_PARTITIONS_TO_TXN, 1)
            others = adding(verifier, 0, 0)
            foreign: list[ErrorCode] = []
            on.controller.script(ADD_PARTITIONS_TO_TXN, AddPartitionsToTxnAnswer((("another", refused),)))
            verifier.ask(Producer("another", ProducerId(0), 0), TOPIC, 0, foreign.append, adds=True)
            while not verifier._pauses:
                await asyncio.sleep(0)
            on.controller.hang_up()
            while not answered:
                await asyncio.sleep(0)
            assert others == [(0, ErrorCode.NONE), (1, ErrorCode.NONE)]
            assert not foreign

    play(story)


def test_a_verification_answers_its_own_batch_alone(tmp_path: Path) -> None:
    """With transactions V1 the next one has the same pair."""

    async def story() -> None:
        async with hosting(tmp_path, HERE) as on:
            verifier: Verifier = on.broker._data._verifier
            answered: list[ErrorCode] = []
            verifier.ask(producer(0), TOPIC, 0, answered.append)
            await on.controller.count(ADD_PARTITIONS_TO_TXN, 1)
            verifier.ask(producer(0), TOPIC, 0, answered.append)
            verifier.announced(ProducerId(0), 0, TOPIC, 0)
            await on.controller.count(ADD_PARTITIONS_TO_TXN, 2)

    play(story)


def test_an_addition_that_waits_for_long_is_asked_about_rarely() -> None:
    asked, now_s = 0, 0.0
    while now_s < 1.0:
        now_s += _pause_s(now_s)
        asked += 1
    assert _pause_s(0.0) == 0.05  # longer than most transactions take to end
    assert asked < 20


def test_markers_that_come_during_a_flush_share_the_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def story() -> None:
        async with hosting(tmp_path, HERE) as on:
            await open_transaction(on, b"a")
            partition = on.broker._data._partitions.find(TOPIC, 0)
            assert partition is not None
            log, flush, may_end = partition.log, partition.log.flush, threading.Event()
            flushes: list[int] = []

            def slow() -> Any:
                flushes.append(log.end)
                may_end.wait()
                return flush()

            monkeypatch.setattr(log, "flush", slow)
            ends = [asyncio.ensure_future(ended(on, marker(committed=True, version=1)))]
            while not flushes:
                await asyncio.sleep(0)
            ends += [
                asyncio.ensure_future(ended(on, marker(committed=True, version=version)))
                for version in range(2, 6)
            ]
            while log.end < flushes[0] + 4:
                await asyncio.sleep(0)
            may_end.set()
            assert await asyncio.gather(*ends) == [ErrorCode.NONE] * 5
            assert len(flushes) == 2

    play(story)


def test_flush_messages_makes_the_answer_wait_for_the_disk(tmp_path: Path) -> None:
    async def story() -> None:
        async with hosting(tmp_path, HERE, log_flush_messages=1) as on:
            await produced(on, produce(from_producer(b"a", sequence=0)))
            partition = on.broker._data._partitions.find(TOPIC, 0)
            assert partition is not None
            may_end = threading.Event()
            flush = partition.log.flush
            partition.log.flush = lambda: (may_end.wait(), flush())[1]  # type: ignore[method-assign]
            writing = asyncio.ensure_future(produced(on, produce(from_producer(b"b", sequence=1))))
            while partition.log.end < 2:
                await asyncio.sleep(0)
            assert not writing.done()
            may_end.set()
            (row,) = await writing
            assert row.error_code == ErrorCode.NONE

    play(story)


def test_who_asks_about_all_topics_waits_for_a_question_asked_after_he_came(tmp_path: Path) -> None:
    async def story() -> None:
        async with hosting(tmp_path, HERE) as on:
            topics = on.broker._data.topics
            await topics.refresh()
            asked = len([each for each in on.controller.asked[METADATA.key] if each.topics is None])
            assert all(await asyncio.gather(*(topics.refresh() for _ in range(8))))
            again = len([each for each in on.controller.asked[METADATA.key] if each.topics is None])
            assert again - asked in (1, 2)

    play(story)


def test_who_looks_up_the_same_topic_shares_the_question(tmp_path: Path) -> None:
    async def story() -> None:
        async with hosting(tmp_path, HERE) as on:
            topics = on.broker._data.topics
            await asyncio.gather(*(topics.look_up((TopicQuery("new"),)) for _ in range(8)))
            asked = [each for each in on.controller.asked[METADATA.key] if each.topics is not None]
            assert len(asked) == 1

    play(story)
