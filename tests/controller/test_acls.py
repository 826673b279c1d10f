"""ACLs in the image: added, removed, paged, and followed by their changes."""

import enum

import pytest

from fencepost.controller import acls, levels
from fencepost.controller.acl_book import AclBook
from fencepost.controller.acl_types import (
    Acl,
    AclFilter,
    CreateAcls,
    Operation,
    PatternType,
    Permission,
    ResourceType,
)
from fencepost.controller.errors import ErrorCode, InvalidRequest, PolicyViolation, UnsupportedVersion
from fencepost.controller.features import FEATURES, FeatureLevel
from fencepost.controller.replay import replay_record
from fencepost.controller.view import EmptyView, Overlay
from fencepost.records.invariant import InvariantViolation
from fencepost.records.levels import ACLS
from fencepost.records.logged import ENTRY_COST_MAX, cost_of, encode_record
from fencepost.records.schema import RemoveAccessControlEntryRecord
from tests.together import table


def acl(name: str = "orders", **other: object) -> Acl:
    fields = {"resource_type": 2, "pattern_type": 3, "principal": "User:a", "host": "*"} | other
    return Acl(**{"name": name, "operation": 3, "permission": 3, **fields})  # type: ignore[arg-type]


@pytest.fixture
def view() -> Overlay:
    return world()


def world(level: int = ACLS) -> Overlay:
    made = Overlay(EmptyView())
    made.put(FEATURES, levels.LOG_LEVEL, FeatureLevel(level))
    return made


@table(
    ("numbers", "names"),
    [
        (ResourceType, "TOPIC GROUP CLUSTER TRANSACTIONAL_ID DELEGATION_TOKEN USER"),
        (PatternType, "MATCH LITERAL PREFIXED"),
        (Permission, "DENY ALLOW"),
        (
            Operation,
            (
                "ALL READ WRITE CREATE DELETE ALTER DESCRIBE CLUSTER_ACTION DESCRIBE_CONFIGS ALTER_CONFIGS"
                " IDEMPOTENT_WRITE CREATE_TOKENS DESCRIBE_TOKENS TWO_PHASE_COMMIT"
            ),
        ),
    ],
)
def test_the_numbers_are_kafkas(numbers: type[enum.IntEnum], names: str) -> None:
    """From 2 on, without a gap: 0 is unknown, 1 any."""
    assert {each.name: each.value for each in numbers} == {
        name: number for number, name in enumerate(names.split(), 2)
    }


def create(view: Overlay, *wanted: Acl) -> list[int]:
    decision = acls.decide_create(view, CreateAcls(wanted))
    for record in decision.records:
        replay_record(view, record)
    return [each.error_code for each in decision.response.results]


def delete(view: Overlay, *wanted: Acl) -> list[Acl]:
    decision = acls.decide_delete(view, [tuple(each.acl_id for each in wanted)])
    for record in decision.records:
        replay_record(view, record)
    return list(decision.response.results[0].acls)


def kept(view: Overlay) -> list[Acl]:
    return [each for _, each in view.scan(acls.ACLS)]


def test_what_is_there_is_not_written_again(view: Overlay) -> None:
    assert create(view, acl(), acl("other"), acl()) == [0, 0, 0]
    assert acls.state(view) == acls.AclState(2, 2)
    assert create(view, acl()) == [0]
    assert acls.state(view) == acls.AclState(2, 2)
    assert acls.find(view, acl().acl_id) == acl()


def test_what_is_removed_is_gone_and_can_be_added_again(view: Overlay) -> None:
    create(view, acl(), acl("other"))
    assert delete(view, acl(), acl("never")) == [acl()]
    assert (kept(view), acls.state(view)) == ([acl("other")], acls.AclState(3, 1))
    assert delete(view, acl()) == []
    assert create(view, acl()) == [0]
    assert len(kept(view)) == 2


INVALID = [
    pytest.param(acl(resource_type=1), id="any-resource-type"),
    pytest.param(acl(resource_type=8), id="unknown-resource-type"),
    pytest.param(acl(pattern_type=2), id="match-is-for-filters"),
    pytest.param(acl(operation=1), id="any-operation"),
    pytest.param(acl(operation=16), id="unknown-operation"),
    pytest.param(acl(permission=1), id="any-permission"),
    pytest.param(acl(""), id="no-name"),
    pytest.param(acl("n" * 401), id="a-long-name"),
    pytest.param(acl("a\0b"), id="a-zero-byte"),
    pytest.param(acl("\ud800"), id="half-a-surrogate"),
    pytest.param(acl(principal="alice"), id="a-principal-without-a-type"),
    pytest.param(acl(host=""), id="no-host"),
    pytest.param(acl("other", resource_type=4), id="the-cluster-has-one-name"),
]


@table("wanted", INVALID)
def test_an_invalid_acl_is_refused_and_the_others_are_added(wanted: Acl) -> None:
    view = world()
    assert create(view, wanted, acl("valid")) == [ErrorCode.INVALID_REQUEST, 0]
    assert kept(view) == [acl("valid")]


VALID = [
    pytest.param(acl("n" * 400), id="the-longest-name"),
    pytest.param(acl("ü*-"), id="any-text"),
    pytest.param(acl("kafka-cluster", resource_type=4), id="the-cluster"),
    pytest.param(acl(resource_type=7), id="a-user"),
    pytest.param(acl(operation=15, resource_type=5), id="two-phase-commit"),
]


@table("wanted", VALID)
def test_a_valid_acl_is_added(wanted: Acl) -> None:
    view = world()
    assert create(view, wanted) == [0]
    assert kept(view) == [wanted]


def test_below_their_log_level_nothing_is_written() -> None:
    view = world(ACLS - 1)
    with pytest.raises(UnsupportedVersion, match="features upgrade --log-level 8"):
        create(view, acl())
    with pytest.raises(UnsupportedVersion):
        delete(view, acl())


def test_one_request_changes_at_most_so_many(view: Overlay) -> None:
    many = [acl(f"{n:0249}") for n in range(acls.CHANGES_MAX)]
    decision = acls.decide_create(view, CreateAcls(tuple(many)))
    cost = sum(cost_of(each, encode_record(each)[1]) for each in decision.records) + decision.extra_cost
    assert cost <= ENTRY_COST_MAX, "they share an entry"
    create(view, *many)
    with pytest.raises(InvalidRequest, match="at most 500"):
        create(view, *many, acl())
    create(view, acl())
    with pytest.raises(InvalidRequest, match="narrow them"):
        delete(view, *many, acl())
    assert len(delete(view, *many)) == acls.CHANGES_MAX


def test_the_cluster_has_at_most_so_many(view: Overlay, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(acls, "ACLS_MAX", 2)
    create(view, acl("a"), acl("b"))
    with pytest.raises(PolicyViolation, match="at most 2"):
        create(view, acl("c"))
    assert create(view, acl("a")) == [0], "it is there"


def test_a_removal_of_what_is_not_there_is_our_bug(view: Overlay) -> None:
    with pytest.raises(InvariantViolation):
        replay_record(view, RemoveAccessControlEntryRecord(id=acl().acl_id))


def test_changes_are_kept_for_a_while(view: Overlay, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(acls, "CHANGES_KEPT", 3)
    for name in "abcde":
        create(view, acl(name))
    found = acls.changes_since(view, 2)
    assert found is not None
    assert [each.added for each in found] == [acl("c"), acl("d"), acl("e")]
    assert acls.changes_since(view, 5) == []
    assert acls.changes_since(view, 1) is None, "it is not kept any more"
    assert acls.changes_since(view, 6) is None, "it never was"
    assert [number for number, _ in view.scan(acls.ACL_CHANGES)] == [3, 4, 5]


@pytest.mark.parametrize("kept_max", [2, 100])
def test_a_book_follows_the_image(kept_max: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(acls, "CHANGES_KEPT", kept_max)
    view, book = world(), AclBook()
    create(view, acl("before"))
    book.follow(view)
    assert book.changes == acls.state(view).changes, "else all are loaded again each time"
    for step in range(12):
        if step % 4 == 3:
            delete(view, acl(f"n{step - 2}"))
        else:
            create(view, acl(f"n{step}"))
        if step % 3 == 0:
            book.follow(view)
    book.follow(view)
    assert sorted(map(repr, book.acls.values())) == sorted(map(repr, kept(view)))
    assert [each for _, each in book.matching(AclFilter())] == kept(view)


def test_pages_make_the_whole(view: Overlay) -> None:
    names = ["a", "ab", "a*", "b", "ä"]
    create(view, *map(acl, names))
    found: list[acls.AclChange] = []
    has_more, turns = True, 0
    while has_more:
        rows, has_more = acls.page(view, found[-1] if found else None, 2)
        found += rows
        turns += 1
    assert turns == 3
    assert [each.added for each in found] == kept(view)


def test_a_page_after_what_could_be_no_row_is_refused(view: Overlay) -> None:
    for after in (acls.AclChange(acl().acl_id), acls.AclChange(acl().acl_id, acl("n" * 60_000))):
        with pytest.raises(InvalidRequest):
            acls.page(view, after, 2)


def test_the_records_of_a_snapshot_make_the_acls_again(view: Overlay) -> None:
    create(view, acl(), acl("other"), acl("third", pattern_type=4, permission=2))
    delete(view, acl("other"))
    again = world()
    for record in acls.records_of(view):
        replay_record(again, record)
    assert kept(again) == kept(view)
    assert acls.state(again).count == 2


@table(
    ("field", "known"),
    [
        ("resource_type", {1, 2, 3, 4, 5, 6, 7}),
        ("pattern_type", {1, 2, 3, 4}),
        ("operation", {1, *range(2, 16)}),
        ("permission", {1, 2, 3}),
    ],
)
def test_a_filter_has_kafkas_numbers(field: str, known: set[int]) -> None:
    for number in range(-1, 18):
        wanted = AclFilter(**{field: number})  # type: ignore[arg-type]
        if number in known:
            acls.require_known(wanted)
        else:
            with pytest.raises(InvalidRequest, match="is unknown"):
                acls.require_known(wanted)
