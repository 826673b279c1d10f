"""Private keys, which Kafka does not have: each principal of the page to each of them, as the page says.

A key with several rows is requested in each way that a row says; what the guard answers is looked at, with an
endpoint behind it that would serve.
"""

from collections.abc import Iterator
from typing import Any, Final

from fencepost.controller.acl_types import IMPLIED_BY, Acl, Operation, PatternType, Permission, ResourceType
from fencepost.controller.errors import ApiError
from fencepost.wire.dispatch import PRIVATE_KEY_MIN
from fencepost.wire.k20021_migrate import COMMANDS, Migrate
from fencepost.wire.k20057_log_levels import AskLogLevels
from fencepost.wire.k20065_explain_transaction import ExplainTransaction
from fencepost.wire.registry import APIS
from tests.broker.access.doors import HOST, Asked
from tests.rights.page import NAMED, NAMES, SUPER, PageRow, State, rows, states
from tests.together import table
from tests.wire.sample_messages import SAMPLES

WAYS: Final[dict[tuple[int, str], tuple[Any, ...]]] = {
    (20021, "for its status"): (Migrate("status"),),
    (20021, "else"): tuple(Migrate(each) for each in COMMANDS if each != "status"),
    (20057, "to see it"): (AskLogLevels(None),),
    (20057, "to raise it"): (AskLogLevels(4),),
    (20065, "always"): (ExplainTransaction(NAMES.transactional_id),),
}
"""By key and row, what is requested; else the key's sample."""
SHOWN: Final = ("to see that it is in the transaction", "to see its offsets in the transaction")
"""Rows of what an answer shows: tests/broker/access/test_explanations.py."""
CODES: Final = {ResourceType.CLUSTER: 31, ResourceType.TRANSACTIONAL_ID: 53}


def private_rows() -> Iterator[PageRow]:
    return (row for row in rows() if row.key >= PRIVATE_KEY_MIN and row.note not in SHOWN)


def may(state: State, row: PageRow) -> bool:
    """By the state's own ACLs, one by one."""
    if state.name == SUPER:
        return True
    name = NAMED[row.of][0]
    about = [each for each in state.acls if each.resource_type == row.of and _applies(each, name)]
    denied = {each.operation for each in about if each.permission == Permission.DENY}
    allowed = {each.operation for each in about if each.permission == Permission.ALLOW}
    ways = {row.operation, Operation.ALL, *IMPLIED_BY.get(row.operation, ())}
    return not denied & {row.operation, Operation.ALL} and bool(allowed & ways)


def _applies(acl: Acl, name: str) -> bool:
    if acl.pattern_type == PatternType.PREFIXED:
        return name.startswith(acl.name)
    return acl.name in ("*", name)


@table("row", list(private_rows()), ids=lambda row: f"{row.key}-{row.operation.name}-{row.note}")
def test_each_principal_may_what_the_page_says(row: PageRow) -> None:
    api = APIS[row.key]
    seen = set()
    for state in states():
        for kind in api.listeners:
            for request in WAYS.get((row.key, row.note), (SAMPLES[row.key][0],)):
                asked = Asked(
                    state.acls, api, request, None, principal=f"User:{state.user}", kind=kind,
                    host=HOST, super_user=f"User:{State(SUPER, ()).user}",
                )  # fmt: skip
                expected = may(state, row)
                seen.add(expected)
                assert (len(asked.given) == 1) is expected, (state.name, kind, request)
                if not expected:
                    assert isinstance(asked.outcome, ApiError), (state.name, kind, request)
                    assert int(asked.outcome.code) == CODES[row.of], (state.name, kind, request)
    assert seen == {True, False}


def test_the_page_has_every_private_key() -> None:
    named = {row.key for row in private_rows()}
    assert named == {key for key in APIS if key >= PRIVATE_KEY_MIN} - {20037}, "ProveSecret comes before it"
