"""The endpoints of offsets and their timers: parts, pages, barriers, parked requests, sweeps."""

from functools import partial
from typing import Any

import msgspec
import pytest

from fencepost.controller.errors import ErrorCode, NotController
from fencepost.controller.groups import offset_expiry
from fencepost.controller.groups.identity import Identity
from fencepost.controller.groups.offset_messages import (
    AddOffsets,
    CommitOffsets,
    CommitTransactionOffsets,
    DeleteGroups,
    DeleteOffsets,
    FetchOffsets,
    GroupQuery,
    OffsetToCommit,
)
from fencepost.coordinator.groups import fetches, offset_server
from fencepost.coordinator.groups.offset_timers import TOPICS_S
from fencepost.coordinator.set_aside import PENDING_EXPLAINED_MAX
from fencepost.quorum.port import Decide, Reply
from fencepost.records.types import ProducerId
from fencepost.wire.k20065_explain_transaction import ExplainTransaction, PendingOffset
from tests.coordinator.bench import TOPIC, Bench
from tests.coordinator.coordinator_node import Answer
from tests.coordinator.offset_bench import GROUP, Offsets

WIDE = "wide"
CODE = ErrorCode


@pytest.fixture
def offsets(bench: Bench) -> Offsets:
    bench.create(WIDE, *(1,) * 20)
    return Offsets(bench)


@pytest.mark.parametrize("part", [1, 3, 400])
def test_a_large_commit_is_decided_in_parts(
    offsets: Offsets, part: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(offset_server, "COMMITTED_MAX", part)
    monkeypatch.setattr(fetches, "READ_MAX", part)
    wanted = tuple(range(7))
    assert offsets.commit(*wanted, 99, topic=WIDE) == [0] * 7 + [CODE.UNKNOWN_TOPIC_OR_PARTITION]
    offsets.commit(1, topic=WIDE, group_id="another")
    assert offsets.server.commits == 8
    named = GroupQuery(GROUP, tuple((WIDE, each) for each in (*wanted, 99)))
    found = offsets.fetch(named, GroupQuery("another"), GroupQuery(GROUP), GroupQuery("unknown", ()))
    assert [each.group_id for each in found] == [GROUP, "another", GROUP, "unknown"]
    assert [each.offset for each in found[0].offsets] == [1, 2, 3, 4, 5, 6, 7, -1]
    assert [each.offset for each in found[1].offsets] == [2]
    assert [each.offset for each in found[2].offsets] == [1, 2, 3, 4, 5, 6, 7]
    assert found[3].offsets == ()
    deleted = offsets.ask(offsets.server.delete_offsets, DeleteOffsets(GROUP, named.partitions or ()))
    assert [each.code for each in deleted.rows] == [0] * 7 + [CODE.UNKNOWN_TOPIC_OR_PARTITION]
    assert offsets.kept() == 1


def test_a_part_of_unknown_partitions_does_not_hide_that_there_is_no_group(
    offsets: Offsets, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After a part that forgot offsets it is otherwise: they may have been all of the group."""
    monkeypatch.setattr(offset_server, "COMMITTED_MAX", 1)
    request = DeleteOffsets("missing", ((WIDE, 99), (WIDE, 0)))
    deleted = offsets.ask(offsets.server.delete_offsets, request)
    assert [each.code for each in deleted.rows] == [CODE.UNKNOWN_TOPIC_OR_PARTITION, CODE.GROUP_ID_NOT_FOUND]


def test_a_commit_shows_that_its_member_is_alive_a_refused_one_does_not(offsets: Offsets) -> None:
    alive: list[tuple[str, str]] = []
    offsets.server.on_committed = lambda group_id, member_id: alive.append((group_id, member_id))
    request = CommitOffsets(GROUP, (OffsetToCommit(TOPIC, 0, 1),), Identity("alice", None, 3))
    offsets.ask(offsets.server.commit, request)
    assert alive == []
    offsets.ask(offsets.server.commit, CommitOffsets(GROUP, request.offsets, Identity("alice")))
    assert alive == [(GROUP, "alice")]


def test_requests_of_nothing_are_answered(offsets: Offsets) -> None:
    assert offsets.commit() == []
    assert offsets.fetch() == ()
    answer = offsets.bench.ask(offsets.server.delete_groups, DeleteGroups(()))
    assert answer.answered().results == ()


def test_groups_are_deleted_one_after_the_other(offsets: Offsets) -> None:
    offsets.commit(0)
    request = DeleteGroups(("unknown", GROUP, GROUP))
    assert offsets.ask(offsets.server.delete_groups, request).results == (
        ("unknown", CODE.GROUP_ID_NOT_FOUND),
        (GROUP, CODE.NONE),
    )
    assert offsets.kept() == 0


def test_a_commit_that_collides_with_the_end_before_is_parked(offsets: Offsets) -> None:
    """51 would end aiokafka and kafkajs: it waits for the markers, and is decided then."""
    bench, server = offsets.bench, offsets.server
    pair = offsets.begin("t")
    committed = offsets.ask(server.commit_in_transaction, offsets.in_transaction("t", pair, 0))
    assert [each.code for each in committed.rows] == [0]
    assert server.commits == 1
    bench.end("t", pair)
    bench.settle()
    late = bench.ask(server.add_offsets, AddOffsets("t", ProducerId(pair[0]), pair[1], GROUP))
    later = bench.ask(server.commit_in_transaction, offsets.in_transaction("t", pair, 1))
    bench.settle()
    assert (late.answered(), later.answered()) == (..., ...)
    for sent in bench.take_sent():
        sent.answer()
    bench.settle()
    assert late.answered() is None
    assert [each.code for each in later.answered().rows] == [0]
    (group,) = offsets.fetch(GroupQuery(GROUP, ((TOPIC, 0), (TOPIC, 1))), require_stable=True)
    assert [(each.offset, each.code) for each in group.offsets] == [
        (7, 0),
        (-1000, CODE.UNSTABLE_OFFSET_COMMIT),
    ]


def test_a_transaction_of_offsets_alone_completes_without_a_marker(offsets: Offsets) -> None:
    bench = offsets.bench
    answer = bench.init("t")
    bench.settle()
    pair = (answer.answered().producer_id, answer.answered().producer_epoch)
    offsets.ask(offsets.server.add_offsets, AddOffsets("t", ProducerId(pair[0]), pair[1], GROUP))
    offsets.ask(offsets.server.commit_in_transaction, offsets.in_transaction("t", pair, 0))
    bench.end("t", pair)
    bench.settle()
    assert bench.take_sent() == []
    assert bench.state("t") == "CompleteCommit"
    (group,) = offsets.fetch(GroupQuery(GROUP, ((TOPIC, 0),)), require_stable=True)
    assert group.offsets[0].offset == 7


@pytest.mark.parametrize("more", [0, 1], ids=["all-are-named", "one-more-than-is-named"])
def test_pending_offsets_of_a_transaction_are_explained_until_it_ends(offsets: Offsets, more: int) -> None:
    bench, count = offsets.bench, PENDING_EXPLAINED_MAX + more
    pair = offsets.begin("t")
    rows = tuple(OffsetToCommit(WIDE, index, 7) for index in range(count))
    request = CommitTransactionOffsets("t", GROUP, ProducerId(pair[0]), pair[1], rows)
    explain = (bench.server.set_aside.explain, ExplainTransaction("t"))
    assert offsets.ask(*explain).pending is msgspec.UNSET
    offsets.ask(offsets.server.commit_in_transaction, request)
    pending = offsets.ask(*explain).pending
    assert (len(pending.offsets), pending.count) == (PENDING_EXPLAINED_MAX, count)
    assert pending.offsets[1] == PendingOffset(GROUP, WIDE, 1, 7)
    bench.end("t", pair)
    bench.settle()
    assert offsets.ask(*explain).pending is msgspec.UNSET


REQUESTS = [
    pytest.param("commit", CommitOffsets(GROUP, (OffsetToCommit(TOPIC, 0, 1),)), id="OffsetCommit"),
    pytest.param("fetch", FetchOffsets((GroupQuery(GROUP, ((TOPIC, 0),)),)), id="OffsetFetch"),
    pytest.param("fetch", FetchOffsets((GroupQuery(GROUP),)), id="OffsetFetch-of-all"),
    pytest.param("delete_offsets", DeleteOffsets(GROUP, ((TOPIC, 0),)), id="OffsetDelete"),
    pytest.param("add_offsets", AddOffsets("t", ProducerId(1), 0, GROUP), id="AddOffsetsToTxn"),
    pytest.param(
        "commit_in_transaction",
        CommitTransactionOffsets("t", GROUP, ProducerId(1), 0, (OffsetToCommit(TOPIC, 0, 1),)),
        id="TxnOffsetCommit",
    ),
]


@pytest.mark.parametrize(("name", "request_"), REQUESTS)
def test_a_deposed_leader_answers_nothing_from_its_image(offsets: Offsets, name: str, request_: Any) -> None:
    """It believes that it leads: each answer, reads included, waits for an entry that is superseded here."""
    offsets.commit(0)

    def superseded(decide: Decide[Any], reply: Reply[Any], **_how: Any) -> None:
        reply(NotController("another decision took its place"), 0)

    offsets.server._submit = offsets.bench.server.requests.port = superseded
    answer: Answer = offsets.bench.ask(getattr(offsets.server, name), request_)
    said = answer.answered()
    codes = {each.code for each in said.rows} if hasattr(said, "rows") else {said}
    assert codes == {CODE.NOT_COORDINATOR}


# -- timers ------------------------------------------------------------------------------------------------


def test_offsets_expire_by_themselves(offsets: Offsets) -> None:
    offsets.commit(0)
    offsets.bench.wait(9 * 60, step_s=5.0)
    assert offsets.kept() == 1
    offsets.commit(1)
    offsets.bench.wait(12 * 60, step_s=5.0)
    assert (offsets.kept(), offsets.timers.forgotten) == (0, 2)


def test_offsets_of_a_deleted_topic_are_forgotten_soon(offsets: Offsets) -> None:
    offsets.commit(0, 1)
    offsets.commit(0, topic=WIDE)
    offsets.bench.remove(TOPIC)
    offsets.bench.wait(TOPICS_S + 1, step_s=1.0)
    assert (offsets.kept(), offsets.timers.forgotten) == (1, 2)


@pytest.mark.parametrize("count", [1, 5_000])
def test_groups_are_not_deleted_by_a_node_that_does_not_lead(offsets: Offsets, count: int) -> None:
    """However many they are: the refusal of one is that of all."""
    offsets.bench.replica.proposer.deposed()
    names = tuple(f"group-{number}" for number in range(count))
    answer = offsets.bench.ask(offsets.server.delete_groups, DeleteGroups(names))
    assert answer.answered().results == tuple((name, CODE.COORDINATOR_LOAD_IN_PROGRESS) for name in names)


def test_decisions_on_groups_that_are_deleted_share_entries(offsets: Offsets) -> None:
    """One after the other, thousands of names would keep a client waiting for as many entries."""
    names = tuple(f"group-{number}" for number in range(201))
    offsets.commit(0, group_id=names[-1])
    entries = offsets.bench.entries
    codes = offsets.ask(offsets.server.delete_groups, DeleteGroups(names)).results
    assert codes == (*((name, CODE.GROUP_ID_NOT_FOUND) for name in names[:-1]), (names[-1], CODE.NONE))
    assert offsets.bench.entries - entries == 3


def test_the_walks_that_are_due_begin_one_after_the_other(
    offsets: Offsets, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each first look may take 10 ms of the loop: not all of them in one maintenance tick."""
    names = ("due_by_time", "due_by_client", "due_by_topic", "due_empty_groups")
    looked: list[str] = []

    def look(name: str, *_where: Any) -> tuple[tuple[Any, ...], None]:
        looked.append(name)
        return (), None

    for name in names:
        monkeypatch.setattr(offset_expiry, name, partial(look, name))
    offsets.bench.stage.now += 61
    for count in range(1, len(names) + 1):
        offsets.timers.maintain(0)
        assert len(looked) == count
    offsets.timers.maintain(0)
    assert sorted(looked) == sorted(names)


def test_a_leader_whose_clock_jumped_forgets_no_offset_until_it_is_believed(offsets: Offsets) -> None:
    offsets.commit(0)
    offsets.timers._may_expire = lambda: False
    offsets.bench.wait(3 * 3600, step_s=30.0)
    assert offsets.kept() == 1
    offsets.timers._may_expire = lambda: True
    offsets.bench.wait(120, step_s=30.0)
    assert offsets.kept() == 0
