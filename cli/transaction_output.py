"""What ``transactions describe`` and ``force-terminate`` say, as documents and sentences."""

from collections.abc import Iterator, Sequence
from typing import Any, Final

import click
import msgspec

from fencepost.cli.output import JSON, ago, echo_json, when
from fencepost.cli.transaction_calls import Described, Listed, Terminated
from fencepost.client.fences import fence_text
from fencepost.cluster.console import table
from fencepost.wire.k20065_explain_transaction import UNKNOWN, Explanation, FenceExplained
from fencepost.wire.k20066_list_set_aside import WEDGED, SetAside

NONE: Final = "None"  # as Kafka's tool prints what is not there
LISTED: Final = ("TransactionalId", "Coordinator", "ProducerId", "TransactionState")  # Kafka's
LISTED_TWO_PHASE: Final = (*LISTED, "TwoPhaseOpenMs", "IsKept")
LATER: Final = ("LaterProducerId", "LaterProducerEpoch", "TimeoutMs")  # of a fence; null: not known
BEYOND_KAFKA: Final = frozenset({"Explanation", "Fences", "SetAside", "PendingOffsets", "Assignments"})
"""The columns of ``description`` that Kafka's ``kafka-transactions describe`` does not have."""


def listed(found: Listed) -> dict[str, Any]:
    """The row of one transactional id: ``LISTED_TWO_PHASE``."""
    transaction = found.transaction
    return {
        "TransactionalId": transaction.transactional_id,
        "Coordinator": found.coordinator_id,
        "ProducerId": transaction.producer_id,
        "TransactionState": transaction.state,
        "TwoPhaseOpenMs": transaction.two_phase_ms if transaction.two_phase_ms >= 0 else None,
        "IsKept": transaction.is_kept,
    }


def is_two_phase(found: Listed) -> bool:
    """It is open, and waits for an external coordinator, or for the instance that keeps it."""
    return found.transaction.is_kept or found.transaction.two_phase_ms >= 0


def print_rows(name: str, columns: Sequence[str], rows: list[dict[str, Any]], output_format: str) -> None:
    """A table of these columns, or the field ``name`` of a JSON document."""
    if output_format == JSON:
        echo_json({name: rows})
    else:
        click.echo(table(columns, [shown({column: row[column] for column in columns}) for row in rows]))


def shown(row: dict[str, Any]) -> tuple[Any, ...]:
    """A row of a table."""
    return tuple(NONE if value is None else value for value in row.values())


def description(described: Described, *, now_ms: int) -> dict[str, Any]:
    """The columns of Kafka's ``describe``, null for what is not there, and the explanation."""
    transaction = described.transaction
    is_open = transaction.started_ms >= 0
    partitions = [
        f"{each.topic}-{index}" for each in transaction.partitions for index in sorted(each.partition_ids)
    ]
    explanation = described.explanation
    fences = () if explanation is None else explanation.fences
    return {
        "CoordinatorId": described.coordinator_id,
        "TransactionalId": transaction.transactional_id,
        "ProducerId": transaction.producer_id,
        "ProducerEpoch": transaction.producer_epoch,
        "TransactionState": transaction.state,
        "TransactionTimeoutMs": transaction.transaction_timeout_ms,
        "CurrentTransactionStartTimeMs": transaction.started_ms if is_open else None,
        "TransactionDurationMs": max(0, now_ms - transaction.started_ms) if is_open else None,
        "TopicPartitions": partitions,
        "Explanation": None if explanation is None else explanation.explanation,
        "Fences": [fence_row(each) for each in fences],
        "SetAside": [] if explanation is None else [set_aside_row(each) for each in explanation.set_aside],
        "PendingOffsets": _pending(explanation),
        "Assignments": _assignments(explanation),
    }


def description_lines(row: dict[str, Any], now_ms: int) -> Iterator[str]:
    """A description as text: Kafka's columns, and what is beyond them."""
    columns = {name: value for name, value in row.items() if name not in BEYOND_KAFKA}
    columns["TopicPartitions"] = ",".join(row["TopicPartitions"]) or NONE
    yield table(tuple(columns), [shown(columns)])
    if row["Explanation"]:
        yield f"\n{row['TransactionalId']}: {row['Explanation']}"
    yield from (f"  {fence_line(each, now_ms)}" for each in row["Fences"])
    yield from assignment_lines(row["Assignments"])
    yield from pending_lines(row["PendingOffsets"])


def fence_row(fence: FenceExplained) -> dict[str, Any]:
    """A fence in a document."""
    return {
        "AtMs": fence.at_ms,
        "Cause": fence.cause,
        "ProducerId": fence.producer_id,
        "ProducerEpoch": fence.epoch,
        "ClientId": fence.client_id,
        "LaterProducerId": _known(fence.later_producer_id),
        "LaterProducerEpoch": _known(fence.later_epoch),
        "TimeoutMs": _known(fence.timeout_ms),
    }


def _known(number: int) -> int | None:
    return None if number == UNKNOWN else number


def fence_line(row: dict[str, Any], now_ms: int) -> str:
    """A fence of a document as text."""
    fence = FenceExplained(
        row["AtMs"],
        row["Cause"],
        row["ProducerId"],
        row["ProducerEpoch"],
        row["ClientId"],
        *(UNKNOWN if row[each] is None else row[each] for each in LATER),
    )
    return f"{when(fence.at_ms)} ({ago(now_ms - fence.at_ms)}): {fence_text(fence)}"


def _assignments(explanation: Explanation | None) -> list[dict[str, Any]]:
    """The partitions of groups that the id's producer was assigned (KIP-447), the first of them by name."""
    if explanation is None or explanation.assignments is msgspec.UNSET:
        return []
    return [
        {
            "Group": each.group_id,
            "Generation": each.generation,
            "Count": each.count,
            "Partitions": list(each.partitions),
        }
        for each in explanation.assignments
    ]


def assignment_lines(assignments: list[dict[str, Any]]) -> list[str]:
    """``Assignments`` of a description as text."""
    return [
        f"assigned by group {each['Group']} in generation {each['Generation']}: {_named(each)}"
        for each in assignments
    ]


def _named(assignment: dict[str, Any]) -> str:
    more = assignment["Count"] - len(assignment["Partitions"])
    named = [*assignment["Partitions"], *([f"{more} more"] if more else [])]
    return ", ".join(named) or "no partitions"


def _pending(explanation: Explanation | None) -> dict[str, Any] | None:
    """The offsets that the transaction commits for groups if it commits, the first of them by name."""
    if explanation is None or explanation.pending is msgspec.UNSET:
        return None
    return {
        "Count": explanation.pending.count,
        "Offsets": [
            {"Group": each.group_id, "Topic": each.topic, "Partition": each.partition, "Offset": each.offset}
            for each in explanation.pending.offsets
        ],
    }


def pending_lines(pending: dict[str, Any] | None) -> list[str]:
    """``PendingOffsets`` of a description as text."""
    if pending is None:
        return []
    found = [
        f"pending for group {each['Group']}: {each['Topic']}-{each['Partition']} to offset {each['Offset']}"
        for each in pending["Offsets"]
    ]
    more = pending["Count"] - len(found)
    return [*found, f"and {more} more pending offsets"] if more else found


def set_aside_row(row: SetAside) -> dict[str, Any]:
    """One row of what the coordinator set aside, as ``find-hanging`` and ``health`` print it, too."""
    topic, _, index = row.partition.rpartition("-")
    return {
        "Kind": row.kind,
        "Concern": row.concern,
        "Key": row.key,
        "Topic": topic or None,
        "Partition": int(index) if topic else None,
        "ErrorCode": row.code or None,
        "Reason": row.reason,
        "SinceMs": row.since_ms,
    }


def set_aside_sentence(row: SetAside, *, now_ms: int) -> str:
    """One set-aside marker as a sentence."""
    where = f" on {row.partition}" if row.partition else ""
    for_s = max(0, now_ms - row.since_ms) // 1000
    way_out = (
        f"; 'fencepost transactions force-terminate --transactional-id {row.key}' ends it as it was decided"
        if row.kind == WEDGED
        else ""
    )
    return f"{row.kind} for {for_s} s: {row.concern} of {row.key}{where}: {row.reason}{way_out}"


def termination(terminated: Terminated) -> dict[str, Any]:
    """The document of ``force-terminate``: the state it was in, and who the id's producer is now."""
    before, now = terminated.before.transaction, terminated.now
    return {
        "TransactionalId": before.transactional_id,
        "TransactionState": before.state,
        "ProducerId": before.producer_id if now is None else now.producer_id,
        "ProducerEpoch": before.producer_epoch if now is None else now.producer_epoch,
        "DryRun": now is None,
    }


def sentence(terminated: Terminated) -> str:
    """What ``force-terminate`` did, or would do."""
    before, now = terminated.before.transaction, terminated.now
    would = now is None
    outcome = {
        "Ongoing": "Its transaction would be aborted" if would else "Its transaction is aborted",
        "PrepareCommit": "Its transaction was being committed already, and is"
        if not would
        else "Its transaction is being committed already, and will be",
        "PrepareAbort": "Its transaction was being aborted already"
        if not would
        else "Its transaction is being aborted already",
    }.get(before.state, f"No transaction was open ({before.state})")
    if terminated.before.wedged:
        named = ", ".join(terminated.before.wedged)
        outcome += f" (it was wedged on {named}: its marker {'would be' if would else 'is'} forced there)"
    fenced = f"producer {before.producer_id} with epoch {before.producer_epoch}"
    if now is None:
        return f"{before.transactional_id}: {outcome}; {fenced} would be fenced."
    return (
        f"{before.transactional_id}: {outcome}; {fenced} is fenced. "
        f"The id has producer {now.producer_id}, epoch {now.producer_epoch} now."
    )
