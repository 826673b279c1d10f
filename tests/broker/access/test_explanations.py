"""ExplainTransaction: names of what may not be described are left out."""

import msgspec

from fencepost.broker.access.explanations import HIDDEN
from fencepost.controller.acl_types import Operation, ResourceType
from fencepost.wire.k20065_explain_transaction import (
    Assignment,
    ExplainTransaction,
    Explanation,
    PendingOffset,
    PendingOffsets,
)
from fencepost.wire.k20066_list_set_aside import QUARANTINED, WEDGED, SetAside
from fencepost.wire.registry import APIS
from tests.broker.access.doors import Asked, allow

T, G, C, X = ResourceType.TOPIC, ResourceType.GROUP, ResourceType.CLUSTER, ResourceType.TRANSACTIONAL_ID
DESCRIBE = Operation.DESCRIBE
OWN = allow(DESCRIBE, X, "t")
WHY = "KeyError('secret')"
WHOLE = Explanation(
    f"producer 7 has had a transaction on orders-0, secret-1 open for 3 s; set aside: {WHY}.",
    set_aside=(
        SetAside(kind=WEDGED, concern="marker", key="t", reason="47", since_ms=5, partition="orders-0"),
        SetAside(kind=WEDGED, concern="marker", key="t", reason="47", since_ms=5, partition="secret-1"),
        SetAside(kind=QUARANTINED, concern="timeout", key="t", reason=WHY, since_ms=5),
    ),
    pending=PendingOffsets(
        (
            PendingOffset("g", "orders", 0, 5),
            PendingOffset("h", "orders", 0, 5),
            PendingOffset("g", "secret", 0, 5),
        ),
        3,
    ),
    assignments=(Assignment("g", 1, ("orders-0", "secret-1"), 2), Assignment("h", 1, ("orders-0",), 1)),
)


def shown(*acls: object, answer: Explanation = WHOLE) -> Explanation:
    asked = Asked((OWN, *acls), APIS[20065], ExplainTransaction("t"), answer)  # type: ignore[arg-type]
    found: Explanation = asked.outcome
    return found


def test_names_that_may_not_be_described_are_left_out() -> None:
    seen = shown(allow(DESCRIBE, T, "orders"), allow(DESCRIBE, G, "g"))
    assert "secret" not in repr(seen)
    assert "orders-0" in seen.explanation
    assert [each.partition for each in seen.set_aside] == ["orders-0"]
    assert seen.pending == PendingOffsets((PendingOffset("g", "orders", 0, 5),), 3)
    assert seen.assignments == (Assignment("g", 1, ("orders-0",), 2),)


def test_with_the_transactional_id_alone_no_name_is_shown() -> None:
    seen = shown()
    assert seen.explanation == (
        f"producer 7 has had a transaction on {HIDDEN}, {HIDDEN} open for 3 s; set aside: {HIDDEN}."
    )
    assert (seen.set_aside, seen.assignments) == ((), ())
    nothing = Explanation("It is open.")
    assert shown(answer=nothing) == nothing
    assert isinstance(shown(answer=nothing).pending, msgspec.UnsetType)


def test_who_may_describe_the_cluster_sees_all_of_it() -> None:
    assert shown(allow(DESCRIBE, C)) == WHOLE
