"""Whether ACLs allow something: a table, and the index against a plain model."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fencepost.controller.acl_book import (
    NAME_REMEMBERED_MAX,
    VERDICTS_MAX,
    AclBook,
    authorize,
    authorize_some,
)
from fencepost.controller.acl_types import (
    Acl,
    AclFilter,
    Operation,
    PatternType,
    Permission,
    ResourceType,
)
from fencepost.controller.acls import AclChange
from tests.controller.acl_model import allowed
from tests.examples import examples
from tests.opcodes import opcodes
from tests.together import table

ALICE, BOB, ROOT, HOST = "User:alice", "User:bob", "User:root", "10.0.0.1"
SUPER = frozenset((ROOT,))
ORDERS = (ResourceType.TOPIC, "orders")
R, W, D, ALL = Operation.READ, Operation.WRITE, Operation.DESCRIBE, Operation.ALL


def allow(operation: Operation, name: str = "orders", **other: Any) -> Acl:
    return _acl(operation, name, Permission.ALLOW, **other)


def deny(operation: Operation, name: str = "orders", **other: Any) -> Acl:
    return _acl(operation, name, Permission.DENY, **other)


def _acl(
    operation: Operation,
    name: str,
    permission: Permission,
    *,
    pattern: PatternType = PatternType.LITERAL,
    principal: str = ALICE,
    host: str = "*",
    of: ResourceType = ResourceType.TOPIC,
) -> Acl:
    return Acl(of, pattern, name, principal, host, operation, permission)


PREFIX, CONFIGS = PatternType.PREFIXED, Operation.DESCRIBE_CONFIGS
CASES = [
    pytest.param([], ALICE, R, False, id="no-acl"),
    pytest.param([], ROOT, R, True, id="a-super-user"),
    pytest.param([deny(ALL, "*", principal="User:*")], ROOT, R, True, id="a-super-user-is-never-denied"),
    pytest.param([allow(R)], ALICE, R, True, id="allowed"),
    pytest.param([allow(R)], BOB, R, False, id="another-principal"),
    pytest.param([allow(R)], "User:Alice", R, False, id="names-have-case"),
    pytest.param([allow(R)], ALICE, W, False, id="another-operation"),
    pytest.param([allow(R, "order")], ALICE, R, False, id="literal-is-no-prefix"),
    pytest.param([allow(R, "orders2")], ALICE, R, False, id="a-longer-name"),
    pytest.param([allow(R, "ord", pattern=PREFIX)], ALICE, R, True, id="prefix"),
    pytest.param([allow(R, "orders", pattern=PREFIX)], ALICE, R, True, id="prefix-of-the-whole-name"),
    pytest.param([allow(R, "orders-", pattern=PREFIX)], ALICE, R, False, id="prefix-longer-than-the-name"),
    pytest.param([allow(R, "rders", pattern=PREFIX)], ALICE, R, False, id="prefix-from-the-start-only"),
    pytest.param([allow(R, "*")], ALICE, R, True, id="wildcard-name"),
    pytest.param([allow(R, "*", pattern=PREFIX)], ALICE, R, False, id="a-star-as-a-prefix-is-a-star"),
    pytest.param([allow(R, principal="User:*")], ALICE, R, True, id="wildcard-principal"),
    pytest.param([allow(R, host=HOST)], ALICE, R, True, id="host"),
    pytest.param([allow(R, host="10.0.0.2")], ALICE, R, False, id="another-host"),
    pytest.param([allow(ALL)], ALICE, W, True, id="all-operations"),
    pytest.param([allow(R, of=ResourceType.GROUP)], ALICE, R, False, id="a-group-of-the-same-name"),
    pytest.param([allow(R), deny(R)], ALICE, R, False, id="deny-wins"),
    pytest.param([deny(R), allow(R)], ALICE, R, False, id="deny-wins-in-any-order"),
    pytest.param([allow(R), deny(ALL)], ALICE, R, False, id="deny-all"),
    pytest.param([allow(R), deny(R, "o", pattern=PREFIX)], ALICE, R, False, id="deny-of-a-prefix"),
    pytest.param([allow(R), deny(R, "*")], ALICE, R, False, id="deny-of-the-wildcard"),
    pytest.param([allow(R), deny(R, principal="User:*")], ALICE, R, False, id="deny-of-everyone"),
    pytest.param([allow(R), deny(R, principal=BOB)], ALICE, R, True, id="deny-of-another"),
    pytest.param([allow(R), deny(R, host="10.0.0.2")], ALICE, R, True, id="deny-from-another-host"),
    pytest.param([allow(R), deny(W)], ALICE, R, True, id="deny-of-another-operation"),
    pytest.param([allow(R)], ALICE, D, True, id="read-implies-describe"),
    pytest.param([allow(W)], ALICE, D, True, id="write-implies-describe"),
    pytest.param([allow(Operation.DELETE)], ALICE, D, True, id="delete-implies-describe"),
    pytest.param([allow(Operation.ALTER)], ALICE, D, True, id="alter-implies-describe"),
    pytest.param([allow(Operation.CREATE)], ALICE, D, False, id="create-implies-nothing"),
    pytest.param([allow(Operation.CLUSTER_ACTION)], ALICE, D, False, id="cluster-action-implies-nothing"),
    pytest.param([allow(D)], ALICE, R, False, id="describe-implies-nothing"),
    pytest.param([allow(R), deny(D)], ALICE, D, False, id="describe-denied-beside-read"),
    pytest.param([allow(D), deny(R)], ALICE, D, True, id="deny-of-read-denies-no-describe"),
    pytest.param([allow(Operation.ALTER_CONFIGS)], ALICE, CONFIGS, True, id="alter-implies-describe-configs"),
    pytest.param([allow(R)], ALICE, CONFIGS, False, id="read-implies-no-configs"),
]  # fmt: skip


def book_of(acls: list[Acl]) -> AclBook:
    book = AclBook()
    book.load([(acl.acl_id, acl) for acl in acls], len(acls))
    return book


@table(("acls", "principal", "operation", "may"), CASES)
def test_authorize(acls: list[Acl], principal: str, operation: Operation, may: bool) -> None:
    asked = (SUPER, False, principal, HOST, operation, ORDERS)
    assert authorize(book_of(acls), *asked) is may
    assert allowed(acls, *asked) is may


def test_without_an_acl_for_the_resource_the_setting_counts() -> None:
    others = book_of([allow(R, "payments")])
    assert authorize(others, SUPER, True, BOB, HOST, W, ORDERS)
    assert not authorize(others, SUPER, True, BOB, HOST, W, (ResourceType.TOPIC, "payments"))
    assert not authorize(others, SUPER, False, BOB, HOST, W, ORDERS)


SOME = [
    pytest.param([], False, id="no-acl"),
    pytest.param([allow(W, "x")], True, id="one-topic"),
    pytest.param([allow(ALL, "x")], True, id="all-operations-of-one-topic"),
    pytest.param([allow(Operation.ALTER, "x")], False, id="another-operation"),
    pytest.param([allow(W, "x", principal=BOB)], False, id="another-principal"),
    pytest.param([allow(W, "x"), deny(W, "x")], False, id="the-only-one-is-denied"),
    pytest.param([allow(W, "x"), allow(W, "y"), deny(W, "x")], True, id="another-one-is-not"),
    pytest.param([allow(W, "xyz"), deny(W, "x", pattern=PREFIX)], False, id="denied-by-a-prefix"),
    pytest.param([allow(W, "x", pattern=PREFIX), deny(W, "xy", pattern=PREFIX)], True, id="a-part-is-denied"),
    pytest.param([allow(W, "x", pattern=PREFIX), deny(W, "x")], True, id="a-name-of-a-prefix-is-denied"),
    pytest.param([allow(W, "*"), deny(W, "x", pattern=PREFIX)], True, id="wildcard"),
    pytest.param([allow(W, "x"), deny(W, "*")], False, id="everything-is-denied"),
    pytest.param([allow(W, "x", of=ResourceType.GROUP)], False, id="of-another-type"),
]


@table(("acls", "may"), SOME)
def test_authorize_some_topic(acls: list[Acl], may: bool) -> None:
    book = book_of(acls)
    for _ in range(2):  # the verdict is remembered
        assert authorize_some(book, SUPER, False, ALICE, HOST, W, ResourceType.TOPIC) is may
    assert authorize_some(book, SUPER, False, ROOT, HOST, W, ResourceType.TOPIC)


def test_a_verdict_is_forgotten_when_acls_change() -> None:
    book, acl = book_of([]), allow(W, "x")
    assert not authorize_some(book, SUPER, False, ALICE, HOST, W, ResourceType.TOPIC)
    book.take([AclChange(acl.acl_id, acl)], 1)
    assert authorize_some(book, SUPER, False, ALICE, HOST, W, ResourceType.TOPIC)
    book.take([AclChange(acl.acl_id)], 2)
    assert not authorize_some(book, SUPER, False, ALICE, HOST, W, ResourceType.TOPIC)


def test_what_is_remembered_about_a_resource_is_forgotten_when_acls_change() -> None:
    book, acl = book_of([]), allow(R)
    asked = (ALICE, HOST, R, *ORDERS)
    assert book.remembered_verdict(*asked) is None
    book.take([AclChange(acl.acl_id, acl)], 1)
    assert book.remembered_verdict(*asked) is True
    others = ((BOB, HOST, R, *ORDERS), (ALICE, HOST, W, *ORDERS), (ALICE, HOST, R, ResourceType.TOPIC, "x"))
    assert [book.remembered_verdict(*each) for each in others] == [False, False, None]
    book.take([AclChange(acl.acl_id)], 2)
    assert book.remembered_verdict(*asked) is None
    book.load([(acl.acl_id, acl)], 2)
    assert book.remembered_verdict(*asked) is True
    book.load([], 2)
    assert book.remembered_verdict(*asked) is None


def test_bits_are_those_of_the_acls_that_apply() -> None:
    book = book_of([allow(R), deny(W, host=HOST), allow(R, "o", principal=BOB, pattern=PREFIX)])
    assert book.bits(ResourceType.TOPIC, "orders", ALICE, HOST) == 1 << R + 16 | 1 << W
    assert book.bits(ResourceType.TOPIC, "orders", ALICE, "10.0.0.2") == 1 << R + 16
    assert book.bits(ResourceType.TOPIC, "orders", ROOT, HOST) == 0
    assert book.bits(ResourceType.TOPIC, "other", BOB, HOST) == 1 << R + 16
    assert book.bits(ResourceType.TOPIC, "x", BOB, HOST) is None


def test_nothing_is_left_of_acls_that_are_removed() -> None:
    """Not even that some prefix has so many characters: each of them is one more look."""
    acls = [
        allow(R),
        allow(R, "ab", pattern=PREFIX),
        allow(W, "ab", pattern=PREFIX),
        deny(R, "cd", pattern=PREFIX),
    ]
    book, empty = book_of(acls), book_of([])
    book.take([AclChange(acls[1].acl_id), AclChange(acls[3].acl_id)], 9)
    assert book._lengths[ResourceType.TOPIC] == {2: 1}
    book.take([AclChange(each.acl_id) for each in acls], 10)
    for name in ("acls", "_of_principal", "_literal", "_prefixed", "_lengths"):
        assert getattr(book, name) == getattr(empty, name)


def test_what_is_remembered_is_of_one_question() -> None:
    book = book_of([allow(R, host=HOST), allow(R, "other", principal=BOB)])
    assert book.remembered_verdict(ALICE, HOST, R, *ORDERS) is True
    for principal, host, operation, of, name in (
        (BOB, HOST, R, *ORDERS),
        (ALICE, "10.0.0.2", R, *ORDERS),
        (ALICE, HOST, W, *ORDERS),
        (ALICE, HOST, R, ResourceType.GROUP, "orders"),
        (ALICE, HOST, R, ResourceType.TOPIC, "other"),
    ):
        assert not book.remembered_verdict(principal, host, operation, of, name)


def test_a_bounded_number_of_short_names_is_remembered() -> None:
    book = book_of([allow(R, "*")])
    for number in range(VERDICTS_MAX + 1):
        assert book.remembered_verdict(ALICE, HOST, R, ResourceType.TOPIC, str(number))
    assert len(book._remembered) == 1
    for length in (NAME_REMEMBERED_MAX, NAME_REMEMBERED_MAX + 1):
        assert book.remembered_verdict(ALICE, HOST, R, ResourceType.TOPIC, "x" * length)
    assert len(book._remembered) == 2


NAMES = ["*", "a", "ab", "abc", "b", "ba"]
acls = st.builds(
    Acl,
    st.sampled_from([2, 3]),
    st.sampled_from([3, 4]),
    st.sampled_from(NAMES),
    st.sampled_from([ALICE, BOB, "User:*"]),
    st.sampled_from([HOST, "*"]),
    st.sampled_from([2, 3, 4, 7, 8, 10, 11]),
    st.sampled_from([2, 3]),
)


@settings(max_examples=examples(1_000))
@given(
    st.lists(st.tuples(acls, st.booleans()), max_size=12),
    st.sampled_from([ALICE, BOB, "User:carol", ROOT]),
    st.sampled_from([HOST, "10.0.0.2"]),
    st.sampled_from([R, W, Operation.ALTER, D, Operation.DESCRIBE_CONFIGS]),
    st.tuples(st.sampled_from([ResourceType.TOPIC, ResourceType.GROUP]), st.sampled_from(NAMES[1:])),
    st.booleans(),
)
def test_the_index_decides_as_the_model(
    steps: list[tuple[Acl, bool]],
    principal: str,
    host: str,
    operation: Operation,
    resource: tuple[ResourceType, str],
    allow_if_no_acl: bool,
) -> None:
    book, kept = AclBook(), dict[Acl, None]()
    book.load([], 0)
    for number, (acl, is_added) in enumerate(steps, 1):
        if is_added:
            kept[acl] = None
            change = AclChange(acl.acl_id, acl)
        else:
            kept.pop(acl, None)
            change = AclChange(acl.acl_id)
        book.take([change], number)
        expected = allowed(list(kept), frozenset(), False, principal, host, operation, resource)
        remembered = book.remembered_verdict(principal, host, operation, *resource)
        assert bool(remembered) is expected, "a change was answered from memory"
    asked = (SUPER, allow_if_no_acl, principal, host, operation, resource)
    assert authorize(book, *asked) is allowed(list(kept), *asked)
    again = book_of(list(kept))
    assert authorize(again, *asked) is allowed(list(kept), *asked)
    assert set(book.acls.values()) == set(kept)


FILTERS = [
    pytest.param(AclFilter(), [0, 1, 2, 3], id="all"),
    pytest.param(AclFilter(name="orders"), [0], id="a-name-of-any-pattern"),
    pytest.param(AclFilter(name="orders", pattern_type=PatternType.LITERAL), [0], id="literal"),
    pytest.param(AclFilter(name="orders", pattern_type=PatternType.PREFIXED), [], id="prefixed"),
    pytest.param(AclFilter(2, "orders", PatternType.MATCH), [0, 1, 2], id="what-applies-to-a-topic"),
    pytest.param(AclFilter(pattern_type=PatternType.PREFIXED), [1], id="all-prefixed"),
    pytest.param(AclFilter(resource_type=ResourceType.GROUP), [3], id="a-type"),
    pytest.param(AclFilter(principal=BOB), [2], id="a-principal"),
    pytest.param(AclFilter(host=HOST), [1], id="a-host"),
    pytest.param(AclFilter(operation=W), [2], id="an-operation"),
    pytest.param(AclFilter(permission=Permission.DENY), [2], id="a-permission"),
]
FILTERED = [
    allow(R),
    allow(R, "ord", pattern=PREFIX, host=HOST),
    deny(W, "*", principal=BOB),
    allow(R, "team", of=ResourceType.GROUP),
]


@table(("wanted", "numbers"), FILTERS)
def test_filters_match_as_in_kafka(wanted: AclFilter, numbers: list[int]) -> None:
    found = [acl for _, acl in book_of(FILTERED).matching(wanted)]
    assert sorted(map(repr, found)) == sorted(repr(FILTERED[number]) for number in numbers)


LENGTHS = 249  # of a topic's name: prefixes of each of them


def test_a_check_takes_no_longer_among_100_000_acls() -> None:
    few, many = _acls(LENGTHS), _acls(40_000)
    assert len(many.acls) > 90_000 > 90 * len(few.acls)
    for name in ("orders", "topic-248", "topic-1".ljust(LENGTHS, "x"), "none"):
        among = [
            opcodes(authorize, book, SUPER, False, "User:248", HOST, R, (ResourceType.TOPIC, name))
            for book in (few, many)
        ]
        assert among[1] < 2 * among[0], name


def _acls(count: int) -> AclBook:
    found = [allow(R, f"topic-{n}") for n in range(count)]
    found += [
        allow(R, f"topic-{n}".ljust(LENGTHS, "x")[: n % LENGTHS + 1], pattern=PREFIX) for n in range(count)
    ]
    found += [
        allow(R, "orders", principal=f"User:{n}", host=f"10.0.{n // 256}.{n % 256}") for n in range(count)
    ]
    return book_of(found)
