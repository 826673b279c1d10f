"""Markers that are not the coordinator's: what they cannot do to its transactions, and what they can."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

import fencepost.broker.markers
from fencepost.controller.errors import ApiError, ErrorCode, NotCoordinator
from fencepost.controller.transactions.describe import DescribedTransaction
from fencepost.records.end_marker import IMAGE_VERSION_MAX
from fencepost.records.transaction_log import TopicPartitions
from fencepost.records.types import ProducerId
from fencepost.wire.connection import SOFTWARE, ConnectionLost
from fencepost.wire.k18_api_versions import API_VERSIONS
from fencepost.wire.k24_add_partitions_to_txn import ADD_PARTITIONS_TO_TXN
from fencepost.wire.k27_write_txn_markers import WRITE_TXN_MARKERS, TxnMarker, WriteTxnMarkers
from fencepost.wire.k61_describe_producers import DESCRIBE_PRODUCERS, DescribeProducers
from fencepost.wire.k65_describe_transactions import DESCRIBE_TRANSACTIONS
from fencepost.wire.k66_list_transactions import LIST_TRANSACTIONS
from fencepost.wire.k20024_announce_partitions import ANNOUNCE_PARTITIONS, AnnouncePartitions
from tests.broker.batches import TOPIC, fetch, from_producer, marker, produce
from tests.broker.data_stage import HERE, TXN, ended, fetched, hosting, open_transaction, produced
from tests.broker.fake_controller import SILENCE, play
from tests.broker.whole_broker import Stage
from tests.together import table

HIGHEST = 2**63 - 1


def known(
    state: str = "Ongoing", *, producer_id: int = 7, epoch: int = 0, topic: str = TOPIC, index: int = 0
) -> DescribedTransaction:
    return DescribedTransaction(
        TXN,
        state=state,
        producer_id=ProducerId(producer_id),
        producer_epoch=epoch,
        partitions=(TopicPartitions(topic, (index,)),),
    )


async def stable(on: Stage) -> tuple[int, int]:
    """The last stable offset, and the end."""
    row = await fetched(on, fetch(0, committed=True))
    return row.last_stable_offset, row.high_watermark


# -- what is claimed without a proof ----------------------------------------


@table("forced", [False, True], ids=["plain", "forced"])
@table("claimed", [HIGHEST, HIGHEST - 1, IMAGE_VERSION_MAX, 1_000_000, -1, -(2**63)])
@table("committed", [True, False], ids=["commit", "abort"])
def test_a_version_that_anybody_claims_hides_no_later_commit(
    tmp_path: Path, claimed: int, committed: bool, forced: bool
) -> None:
    """One request of 58 bytes did, for the producer and for every reader of the partition."""

    async def story() -> None:
        async with hosting(tmp_path, HERE) as on:
            topics = ((TOPIC, (0,)),)
            attack = TxnMarker(7, 0, committed, topics, 1, image_version=claimed, forced=forced)
            code = await ended(on, WriteTxnMarkers((attack,)), proved=False)
            is_sound = 0 <= claimed <= IMAGE_VERSION_MAX
            assert code == (ErrorCode.NONE if is_sound else ErrorCode.INVALID_REQUEST)
            for version in (10, 11):
                assert (await open_transaction(on, b"a", sequence=version - 10)).error_code == ErrorCode.NONE
                assert await ended(on, marker(committed=True, version=version)) == ErrorCode.NONE
            last_stable, end = await stable(on)
            assert last_stable == end, "a commit is hidden"
            assert not on.events("exception_not_caught")

    play(story)


@table("claimed", [-1, HIGHEST, IMAGE_VERSION_MAX + 1])
def test_a_version_that_no_coordinator_has_is_refused_from_anybody(tmp_path: Path, claimed: int) -> None:
    async def story() -> None:
        async with hosting(tmp_path, HERE) as on:
            assert (await open_transaction(on, b"a")).error_code == ErrorCode.NONE
            for proved in (True, False):
                code = await ended(on, marker(committed=True, version=claimed), proved=proved)
                assert code == ErrorCode.INVALID_REQUEST
            assert await stable(on) == (0, 1)

    play(story)


def test_the_highest_version_is_taken(tmp_path: Path) -> None:
    async def story() -> None:
        async with hosting(tmp_path, HERE) as on:
            await open_transaction(on, b"a")
            assert await ended(on, marker(committed=True, version=IMAGE_VERSION_MAX)) == ErrorCode.NONE
            assert await stable(on) == (2, 2)

    play(story)


# -- the coordinator is asked ----------------------------------------

ASKED = [
    pytest.param(known("Ongoing"), ErrorCode.INVALID_TXN_STATE, id="ongoing"),
    pytest.param(known("PrepareCommit"), ErrorCode.INVALID_TXN_STATE, id="prepare-commit"),
    pytest.param(known("PrepareAbort"), ErrorCode.INVALID_TXN_STATE, id="prepare-abort"),
    pytest.param(known("CompleteCommit"), ErrorCode.NONE, id="complete"),
    pytest.param(known("Empty"), ErrorCode.NONE, id="empty"),
    pytest.param(known(index=1), ErrorCode.NONE, id="without-that-partition"),
    pytest.param(known(topic="others"), ErrorCode.NONE, id="without-that-topic"),
    pytest.param(known(producer_id=8), ErrorCode.NONE, id="of-another-producer"),
    pytest.param(None, ErrorCode.NONE, id="none: it hangs"),
]


@pytest.mark.parametrize(
    ("ahead", "tagged"),
    [
        (0, 0),
        (7, 50),
        *(pytest.param(*each, marks=pytest.mark.slow) for each in ((0, 50), (7, 0))),
    ],
)
@pytest.mark.parametrize(("transaction", "code"), ASKED)
def test_a_foreign_marker_is_refused_only_where_the_coordinator_has_that_transaction(
    tmp_path: Path, transaction: DescribedTransaction | None, code: ErrorCode, tagged: int, ahead: int
) -> None:
    async def story() -> None:
        async with hosting(tmp_path, HERE) as on:
            on.controller.transactions = [transaction] if transaction is not None else []
            await open_transaction(on, b"a")
            foreign = marker(committed=False, epoch=ahead, version=tagged)
            assert await ended(on, foreign, proved=False) == code
            assert await stable(on) == ((0, 1) if code else (2, 2))
            if code:  # and the coordinator's own ends it as it was decided
                assert await ended(on, marker(committed=True, version=9)) == ErrorCode.NONE
                row = await fetched(on, fetch(0, committed=True))
                assert (row.last_stable_offset, row.aborted) == (2, ())

    play(story)


def test_the_partitions_own_refusals_come_first(tmp_path: Path) -> None:
    async def story() -> None:
        async with hosting(tmp_path, HERE) as on:
            await open_transaction(on, b"a", epoch=5)
            old = marker(committed=False, epoch=4)
            assert await ended(on, old, proved=False) == ErrorCode.INVALID_PRODUCER_EPOCH
            assert on.controller.asked[LIST_TRANSACTIONS.key] == []

    play(story)


def test_the_coordinators_markers_are_asked_about_by_nobody(tmp_path: Path) -> None:
    async def story() -> None:
        async with hosting(tmp_path, HERE) as on:
            on.controller.transactions = [known("PrepareCommit")]
            await open_transaction(on, b"a")
            assert await ended(on, marker(committed=True, version=9)) == ErrorCode.NONE
            assert on.controller.asked[LIST_TRANSACTIONS.key] == []

    play(story)


def test_a_proved_connection_without_a_version_is_no_coordinator(tmp_path: Path) -> None:
    async def story() -> None:
        async with hosting(tmp_path, HERE) as on:
            on.controller.transactions = [known("PrepareCommit")]
            await open_transaction(on, b"a")
            assert await ended(on, marker(committed=False)) == ErrorCode.INVALID_TXN_STATE

    play(story)


@pytest.mark.parametrize("between", ["a batch", "its marker"])
def test_what_changes_while_the_coordinator_is_asked_makes_its_answer_void(
    tmp_path: Path, between: str
) -> None:
    """It had nothing open when it was asked; by the time of its answer there is a transaction of its own."""

    async def story() -> None:
        async with hosting(tmp_path, HERE) as on:
            asked: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            if between == "its marker":
                await open_transaction(on, b"a")

            def hold(request: Any, context: Any) -> Any:
                asked.set_result(None)
                return SILENCE

            on.controller.script(LIST_TRANSACTIONS, hold)
            writing = asyncio.ensure_future(ended(on, marker(committed=False), proved=False))
            await asked
            if between == "a batch":
                assert (await open_transaction(on, b"a")).error_code == ErrorCode.NONE
            else:
                assert await ended(on, marker(committed=True, version=9)) == ErrorCode.NONE
            on.controller.hang_up()  # asked again: nothing is open there, it says
            assert await writing == ErrorCode.NOT_LEADER_OR_FOLLOWER
            row = await fetched(on, fetch(0, committed=True))
            assert (row.high_watermark, row.aborted) == (1 if between == "a batch" else 2, ())

    play(story)


@pytest.mark.parametrize(
    "answer",
    [
        pytest.param((LIST_TRANSACTIONS, ApiError("broken")), id="list"),
        pytest.param((DESCRIBE_TRANSACTIONS, ApiError("broken")), id="describe"),
        pytest.param((DESCRIBE_TRANSACTIONS, NotCoordinator("deposed")), id="deposed-in-between"),
    ],
)
def test_without_an_answer_the_client_is_asked_to_come_again(tmp_path: Path, answer: Any) -> None:
    async def story() -> None:
        async with hosting(tmp_path, HERE) as on:
            on.controller.transactions = [known()]
            await open_transaction(on, b"a")
            on.controller.script(*answer)
            assert await ended(on, marker(committed=False), proved=False) == ErrorCode.NOT_LEADER_OR_FOLLOWER
            assert await stable(on) == (0, 1)
            assert await ended(on, marker(committed=False), proved=False) == ErrorCode.INVALID_TXN_STATE

    play(story)


def test_a_request_with_foreign_markers_of_many_producers_is_answered_whole(tmp_path: Path) -> None:
    async def story() -> None:
        async with hosting(tmp_path, HERE, HERE) as on:
            on.controller.transactions = [known(producer_id=1, index=1)]
            topics = ((TOPIC, (0, 1, 2)),)
            sent = WriteTxnMarkers(tuple(TxnMarker(each, 0, False, topics, 1) for each in (1, 2)))
            answer = await on.call(WRITE_TXN_MARKERS, sent)
            codes = {(each, index): code for each, ((_, rows),) in answer.markers for index, code in rows}
            unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            assert codes == {
                (1, 0): 0, (1, 1): ErrorCode.INVALID_TXN_STATE, (1, 2): unknown,
                (2, 0): 0, (2, 1): 0, (2, 2): unknown,
            }  # fmt: skip

    play(story)


@pytest.mark.parametrize("count", [1, 2, 3, 4, 7, 8])
def test_a_request_is_written_in_slices_and_answered_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, count: int
) -> None:
    monkeypatch.setattr(fencepost.broker.markers, "SLICE_MAX", 2)

    async def story() -> None:
        async with hosting(tmp_path, HERE) as on:
            topics = ((TOPIC, (0,)),)
            markers = tuple(TxnMarker(each, 0, True, topics, 1, image_version=9) for each in range(count))
            answer = await on.call(WRITE_TXN_MARKERS, WriteTxnMarkers(markers), proved=True)
            assert answer.markers == tuple((each, ((TOPIC, ((0, 0),)),)) for each in range(count))
            assert await stable(on) == (count, count)

    play(story)


def test_a_coordinator_of_an_older_version_is_believed_as_before(tmp_path: Path) -> None:
    """It cannot prove anything, and its markers must be written while an upgrade is under way."""

    async def story() -> None:
        async with hosting(tmp_path, HERE) as on:
            on.controller.proves = False
            await on.controller.stop()
            await on.controller.start(on.controller.port)
            on.controller.transactions = [known("PrepareCommit")]
            while (await open_transaction(on, b"a")).error_code != ErrorCode.NONE:
                await asyncio.sleep(0)  # the broker notices that its connection is gone
            assert await ended(on, marker(committed=True, version=9), proved=False) == ErrorCode.NONE
            assert await stable(on) == (2, 2)
            assert await ended(on, marker(committed=True, version=9), proved=False) == ErrorCode.NONE
            assert await stable(on) == (2, 2), "its version counts: a late duplicate is none"

    play(story)


# -- a higher epoch, from a stranger ----------------------------------------


@table("ahead", [1, 7, 32_766], ids="epoch+{}".format)
def test_a_plain_batch_of_a_higher_epoch_leaves_the_transaction_endable(tmp_path: Path, ahead: int) -> None:
    """The coordinator has the partition in a transaction; nothing of it was written here yet."""

    async def story() -> None:
        async with hosting(tmp_path, HERE) as on:
            stranger = from_producer(b"x", sequence=0, epoch=ahead)
            (row,) = await produced(on, produce(stranger))
            assert row.error_code == ErrorCode.NONE, "as in Kafka: clients bump locally"
            victim = await open_transaction(on, b"a")
            assert victim.error_code == ErrorCode.INVALID_PRODUCER_EPOCH, "nothing of it can come"
            for _ in range(2):
                assert await ended(on, marker(committed=True, version=9)) == ErrorCode.NONE
            assert await stable(on) == (1, 1)

    play(story)


def test_a_plain_batch_of_a_higher_epoch_is_refused_inside_a_transaction(tmp_path: Path) -> None:
    async def story() -> None:
        async with hosting(tmp_path, HERE) as on:
            await open_transaction(on, b"a")
            (row,) = await produced(on, produce(from_producer(b"x", sequence=0, epoch=7)))
            assert row.error_code == ErrorCode.INVALID_TXN_STATE
            assert await ended(on, marker(committed=True, version=9)) == ErrorCode.NONE
            assert await stable(on) == (2, 2)

    play(story)


def test_a_transactional_batch_of_a_higher_epoch_is_not_let_into_an_open_transaction(tmp_path: Path) -> None:
    async def story() -> None:
        async with hosting(tmp_path, HERE) as on:
            await open_transaction(on, b"a")
            on.controller.verdict = ErrorCode.INVALID_PRODUCER_ID_MAPPING
            stranger = await open_transaction(on, b"x", epoch=7)
            assert stranger.error_code == ErrorCode.INVALID_PRODUCER_ID_MAPPING
            assert len(on.controller.asked[ADD_PARTITIONS_TO_TXN.key]) == 2
            assert await ended(on, marker(committed=True, version=9)) == ErrorCode.NONE
            assert await stable(on) == (2, 2)

    play(story)


async def wedge(on: Stage) -> None:
    """A transaction of epoch 0 whose partition holds an open one of epoch 7, as verification let it in."""
    await open_transaction(on, b"a")
    assert (await open_transaction(on, b"x", epoch=7)).error_code == ErrorCode.NONE


@pytest.mark.parametrize("committed", [True, False], ids=["commit", "abort"])
def test_a_wedged_transaction_ends_by_the_same_marker_forced(tmp_path: Path, committed: bool) -> None:
    async def story() -> None:
        async with hosting(tmp_path, HERE) as on:
            await wedge(on)
            sent = marker(committed=committed, version=9)
            forced = WriteTxnMarkers(
                (TxnMarker(7, 0, committed, ((TOPIC, (0,)),), 1, image_version=9, forced=True),)
            )
            on.controller.transactions = [known("PrepareCommit" if committed else "PrepareAbort")]
            assert await ended(on, sent) == ErrorCode.INVALID_PRODUCER_EPOCH
            assert await ended(on, forced, proved=False) == ErrorCode.INVALID_PRODUCER_EPOCH
            by_hand = marker(committed=not committed, epoch=7)
            assert await ended(on, by_hand, proved=False) == ErrorCode.INVALID_TXN_STATE
            assert await stable(on) == (0, 2)
            for _ in range(2):
                assert await ended(on, forced) == ErrorCode.NONE
            row = await fetched(on, fetch(0, committed=True))
            assert (row.last_stable_offset, row.high_watermark, len(row.aborted or ())) == (
                3, 3, 0 if committed else 1,
            )  # fmt: skip
            (described,) = (await on.call(DESCRIBE_PRODUCERS, DescribeProducers(((TOPIC, (0,)),)))).partitions
            assert [each.producer_epoch for each in described.producers] == [7], "it never goes back"

    play(story)


# -- who may, where an authorizer is configured ----------------------------------------


@table("proved", [True, False], ids=["proved", "not-proved"])
@table(
    ("allowed", "may"),
    [
        pytest.param("CLUSTER_ACTION", True, id="cluster-action"),
        pytest.param("ALTER", True, id="alter: an admin's abort"),
        pytest.param("DESCRIBE", False, id="describe"),
        pytest.param(None, False, id="nothing"),
    ],
)
def test_who_may_write_markers(tmp_path: Path, allowed: str | None, may: bool, proved: bool) -> None:
    """A proof of the secret says whose tags are believed; who may ask at all is the authorizer's to say."""
    acls = tmp_path / "acls"
    acls.write_text("" if allowed is None else f"User:ANONYMOUS {allowed}\n")

    async def story() -> None:
        async with hosting(tmp_path / "data", HERE, acls_file=acls) as on:
            await open_transaction(on, b"a")
            code = await ended(on, marker(committed=True, version=9 if proved else 0), proved=proved)
            assert code == (ErrorCode.NONE if may else ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
            assert await stable(on) == ((2, 2) if may else (0, 1))

    play(story)


@pytest.mark.parametrize("allowed", ["ALTER", "DESCRIBE"])
def test_announcements_need_cluster_action(tmp_path: Path, allowed: str) -> None:
    acls = tmp_path / "acls"
    acls.write_text(f"User:ANONYMOUS {allowed}\n")

    async def story() -> None:
        async with hosting(tmp_path / "data", HERE, acls_file=acls) as on:
            client = await on.coordinator()
            client.send_nowait(ANNOUNCE_PARTITIONS, AnnouncePartitions(()))
            with pytest.raises(ConnectionLost):
                await client.call(API_VERSIONS, SOFTWARE)

    play(story)
