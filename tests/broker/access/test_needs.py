"""Every API key x what it needs x (nothing, allowed, denied, by a prefix, by the wildcard, a super user)."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from fencepost.broker.access.needs import ROWS, Need, guarded
from fencepost.controller.acl_types import (
    CLUSTER_NAME,
    Acl,
    Operation,
    PatternType,
    Permission,
    ResourceType,
)
from fencepost.controller.errors import ApiError, ErrorCode
from fencepost.controller.transactions.describe import ListTransactions, ListTransactionsAnswer
from fencepost.records.invariant import InvariantViolation
from fencepost.wire.dispatch import BROKER, PRIVATE_KEY_MIN, Api
from fencepost.wire.registry import APIS
from tests.broker.access.doors import ROOT, Asked, allow
from tests.hostile.largest import names_of
from tests.mutants.acls import KEYS
from tests.together import table
from tests.wire.every_api import SERVICE_APIS
from tests.wire.sample_messages import SAMPLES

T, G, C, X = (
    ResourceType.TOPIC,
    ResourceType.GROUP,
    ResourceType.CLUSTER,
    ResourceType.TRANSACTIONAL_ID,
)
OP = Operation
DENIALS = {29, 30, 31, 53, 55}
Wanted = tuple[tuple[Operation, ResourceType], ...]

ENOUGH: dict[int, list[Wanted]] = {
    0: [((OP.WRITE, X), (OP.WRITE, T))],
    1: [((OP.READ, T),)],
    3: [((OP.DESCRIBE, T),)],
    10: [((OP.DESCRIBE, G),)],
    16: [((OP.DESCRIBE, C),), ((OP.DESCRIBE, G),)],
    19: [((OP.CREATE, C),), ((OP.CREATE, T),)],
    20: [((OP.DELETE, C),), ((OP.DELETE, T),)],
    22: [((OP.WRITE, X),)],
    23: [((OP.DESCRIBE, T),), ((OP.CLUSTER_ACTION, C),)],
    24: [((OP.WRITE, X), (OP.WRITE, T))],
    27: [((OP.CLUSTER_ACTION, C),), ((OP.ALTER, C),)],
    32: [((OP.DESCRIBE_CONFIGS, T), (OP.DESCRIBE_CONFIGS, C))],
    33: [((OP.ALTER_CONFIGS, T), (OP.ALTER_CONFIGS, C))],
    44: [((OP.ALTER_CONFIGS, T), (OP.ALTER_CONFIGS, C))],
    65: [((OP.DESCRIBE, X),)],
    66: [((OP.DESCRIBE, X),)],
    20021: [((OP.DESCRIBE, C),)],
    20057: [((OP.ALTER, C),)],
    20065: [((OP.DESCRIBE, X),)],
}
"""What is enough for the sample of a key, each of it needed; else all needs of the key's row."""
FILTERED = (16, 66)  # what may not be seen is left out of these lists, without a code

every_api = table(
    "api",
    [each for each in SERVICE_APIS if each.key in ROWS and ROWS[each.key].needs],
    ids=lambda api: api.name,
)


def enough_for(key: int) -> list[Wanted]:
    return ENOUGH.get(key, [tuple((each.operation, each.of) for each in ROWS[key].needs)])


def ask(acls: list[Acl], api: Api[Any, Any], principal: str = "User:alice") -> Asked:
    request, response = SAMPLES[api.key]
    if api.key == 1:  # it is a follower's, and some of its partitions have neither name nor id
        request = replace(request, replica_id=-1, partitions=request.partitions[:1])
        response = replace(response, partitions=response.partitions[:1])
    if api.key == 66:
        return Asked(acls, api, request, listed, principal=principal)
    return Asked(acls, api, request, "nothing" if response is None else response, principal=principal)


def listed(request: ListTransactions) -> ListTransactionsAnswer:
    """As the coordinator: it asks of each id whether it may be seen."""
    whole: ListTransactionsAnswer = SAMPLES[66][1]
    may_see = request.may_see
    rows = tuple(each for each in whole.transactions if may_see is None or may_see(each.transactional_id))
    return ListTransactionsAnswer(whole.unknown_state_filters, rows)


def codes_of(asked: Asked, api: Api[Any, Any]) -> set[int]:
    """The denials in an answer; of a list that lacks what may not be seen, the code that stands for it."""
    outcome = asked.outcome
    if isinstance(outcome, ApiError):
        return {int(outcome.code)}
    if outcome in (None, "nothing") or api.key >= PRIVATE_KEY_MIN:
        return set()
    if api.key in FILTERED:
        return set() if outcome == SAMPLES[api.key][1] else {30 if api.key == 16 else 53}
    return set(_codes_in(outcome)) & DENIALS


def _codes_in(value: Any) -> Iterator[int]:
    """The codes wherever they stand in an answer."""
    if isinstance(value, ErrorCode):
        yield int(value)
    elif isinstance(value, tuple):
        for each in value:
            yield from _codes_in(each)
    else:
        for name in names_of(value):
            found = getattr(value, name)
            if name in ("error_code", "code"):
                yield int(found)
            else:
                yield from _codes_in(found)


def is_served(asked: Asked, api: Api[Any, Any]) -> bool:
    return not codes_of(asked, api) and len(asked.given) == 1


def is_refused(asked: Asked, api: Api[Any, Any], of: ResourceType) -> bool:
    """With the code of the resource; where something else would do, with the code of one of them."""
    ways = enough_for(api.key)
    expected = {code_of(of)} if len(ways) == 1 else {code_of(each) for way in ways for _, each in way}
    return bool(codes_of(asked, api) & expected)


def code_of(of: ResourceType) -> int:
    return int(Need(OP.READ, of).code)


def granted(wanted: Wanted) -> list[Acl]:
    return [allow(operation, of) for operation, of in wanted]


def test_each_key_has_its_mutant() -> None:
    """Of tests/mutants: the key's check is left out."""
    assert [key for key, row in ROWS.items() if row.needs] == list(KEYS)


def test_a_key_without_a_row_is_not_served(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fencepost.broker.access.needs.ROWS", {})
    with pytest.raises(InvariantViolation, match="Produce"):
        guarded({0: (APIS[0], lambda *_: None)}, None, BROKER)  # type: ignore[arg-type]


@every_api
def test_without_an_acl_it_is_refused_and_the_endpoint_is_not_called(api: Api[Any, Any]) -> None:
    asked = ask([], api)
    assert codes_of(asked, api) <= {code_of(of) for wanted in enough_for(api.key) for _, of in wanted}
    assert codes_of(asked, api)
    assert not asked.given or api.key in FILTERED or asked.given[0].topics == ()


@every_api
def test_what_is_enough_is_enough_and_each_part_of_it_is_needed(api: Api[Any, Any]) -> None:
    for wanted in enough_for(api.key):
        asked = ask(granted(wanted), api)
        assert is_served(asked, api), (wanted, asked.outcome)
        for left_out in wanted:
            others = tuple(each for each in wanted if each != left_out)
            assert is_refused(ask(granted(others), api), api, left_out[1]), f"without {left_out}"


@every_api
def test_a_denial_wins(api: Api[Any, Any]) -> None:
    for wanted in enough_for(api.key):
        for operation, of in wanted:
            for denied in (operation, OP.ALL):
                acls = [*granted(wanted), allow(denied, of, permission=Permission.DENY)]
                assert is_refused(ask(acls, api), api, of), f"{denied.name} is denied"


@every_api
def test_prefixes_names_hosts_and_principals(api: Api[Any, Any]) -> None:
    for wanted in enough_for(api.key):
        for variant, is_allowed in (
            ({"principal": "User:*"}, True),
            ({"host": "10.0.0.1"}, True),
            ({"host": "10.0.0.2"}, False),
            ({"principal": "User:bob"}, False),
            ({"name": "zz", "pattern": PatternType.PREFIXED}, False),
            ({"name": "*", "pattern": PatternType.PREFIXED}, False),
        ):
            if "name" in variant and any(of == C for _, of in wanted):
                continue
            acls = [allow(operation, of, **variant) for operation, of in wanted]
            assert is_served(ask(acls, api), api) is is_allowed, variant
        by_prefix = [
            allow(operation, of, letter, pattern=PatternType.PREFIXED)
            for operation, of in wanted
            if of != C
            for letter in map(chr, range(33, 127))
        ]
        of_cluster = [allow(operation, of, CLUSTER_NAME) for operation, of in wanted if of == C]
        assert is_served(ask(by_prefix + of_cluster, api), api), "by prefixes"


@every_api
def test_a_super_user_may_do_everything(api: Api[Any, Any]) -> None:
    denied = [allow(OP.ALL, of, permission=Permission.DENY, principal="User:*") for of in (T, G, C, X)]
    assert is_served(ask(denied, api, ROOT), api)
