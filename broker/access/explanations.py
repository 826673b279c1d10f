"""The guard of ExplainTransaction: who may describe a transactional id is shown what else it may describe.

Names       of topics and groups that may not be described are left out, in the sentence, too. A principal
            with DESCRIBE on the cluster sees all of it: ListSetAside shows it the same names.
Reasons     why the coordinator set a row aside is the text of an error, and may name anything: for those with
            DESCRIBE on the cluster alone.
"""

import re
from collections.abc import Callable
from typing import Any, Final, TypeVar

import msgspec
from msgspec.structs import replace

from fencepost.broker.access.door import Door
from fencepost.broker.access.guard import mapped, remembered
from fencepost.controller.acl_types import Operation, ResourceType
from fencepost.wire.dispatch import Context, Endpoint, Reply
from fencepost.wire.k20065_explain_transaction import (
    Assignment,
    ExplainTransaction,
    Explanation,
    PendingOffsets,
)

HIDDEN: Final = "(not to be described)"
_PARTITION: Final = re.compile(r"([A-Za-z0-9._-]+)-[0-9]+")  # as sentences name them: topic-index

S = TypeVar("S")
_Sees = Callable[[str], bool]


def explain(
    door: Door,
    endpoint: Endpoint[Any, Any],
    request: ExplainTransaction,
    context: Context,
    reply: Reply[Explanation],
) -> None:
    """DESCRIBE on the transactional id; see the module."""
    door.require_transactional_id(context, Operation.DESCRIBE, request.transactional_id)
    if door.allows_cluster(context, Operation.DESCRIBE):
        endpoint(request, context, reply)
        return
    sees_topic = remembered(door, context, Operation.DESCRIBE)
    sees_group = remembered(door, context, Operation.DESCRIBE, ResourceType.GROUP)
    endpoint(request, context, mapped(reply, lambda answer: _shown(answer, sees_topic, sees_group)))


def _shown(answer: Explanation, sees_topic: _Sees, sees_group: _Sees) -> Explanation:
    text = answer.explanation
    for each in answer.set_aside:
        if not each.partition:
            text = text.replace(each.reason, HIDDEN)
    return replace(
        answer,
        explanation=_PARTITION.sub(lambda found: found[0] if sees_topic(found[1]) else HIDDEN, text),
        set_aside=tuple(
            each for each in answer.set_aside if each.partition and sees_topic(_topic(each.partition))
        ),
        pending=_if_there(answer.pending, lambda found: _pending(found, sees_topic, sees_group)),
        assignments=_if_there(answer.assignments, lambda found: _assignments(found, sees_topic, sees_group)),
    )


def _if_there(value: S | msgspec.UnsetType, change: Callable[[S], S]) -> S | msgspec.UnsetType:
    return value if isinstance(value, msgspec.UnsetType) else change(value)


def _pending(found: PendingOffsets, sees_topic: _Sees, sees_group: _Sees) -> PendingOffsets:
    """Their count stays: it names nothing."""
    rows = tuple(each for each in found.offsets if sees_topic(each.topic) and sees_group(each.group_id))
    return PendingOffsets(rows, found.count)


def _assignments(
    found: tuple[Assignment, ...], sees_topic: _Sees, sees_group: _Sees
) -> tuple[Assignment, ...]:
    return tuple(
        replace(each, partitions=tuple(part for part in each.partitions if sees_topic(_topic(part))))
        for each in found
        if sees_group(each.group_id)
    )


def _topic(partition: str) -> str:
    return partition.rpartition("-")[0]
