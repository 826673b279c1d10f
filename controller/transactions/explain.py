"""Why a transaction is where it is, in a sentence.

Source   the row and its history of fences; nothing is guessed that they do not say.
"""

from typing import Final

from fencepost.controller.transactions.fencing import is_held
from fencepost.controller.transactions.pairs import client_pair, has_two
from fencepost.controller.transactions.states import (
    CLIENT_EPOCH_MAX,
    PREPARED_STATES,
    FenceCause,
    State,
    Transaction,
)
from fencepost.records.transaction_log import NO_PRODUCER_ID, Fence

NAMED_MAX: Final = 5  # partitions in one sentence
CAUSES: Final[dict[int, str]] = {
    FenceCause.NEW_INSTANCE: "a new instance",
    FenceCause.TIMEOUT: "its timeout",
    FenceCause.SAME_INSTANCE: "its own InitProducerId",
    FenceCause.NEW_OWNER: "another member of its group",
}
"""What took an epoch away, as people read it."""


Refusing = tuple[str, int, int]
"""A partition that refuses the marker, the code, and since when."""


def explain(
    row: Transaction,
    now_ms: int,
    *,
    refusing: tuple[Refusing, ...] = (),
    failing: tuple[tuple[str, int], ...] = (),
) -> str:
    """One sentence: where the transaction stands, since when, and why.

    ``failing``: why the coordinator's own timers set the row aside, and since when.
    """
    parts = [_standing(row, now_ms, refusing)]
    parts += (
        f"the coordinator set it aside {_span(now_ms - since_ms)} ago and tries it again: {reason}"
        for reason, since_ms in failing
    )
    if row.state in (State.EMPTY, State.COMPLETE_ABORT, State.COMPLETE_COMMIT) and row.fences:
        parts.append(_fence(row.fences[-1], now_ms))
    parts += _pairs(row)
    if row.timed_out and row.last_producer_epoch >= 0 and row.state is not State.PREPARE_ABORT:
        rotates = client_pair(row).epoch > CLIENT_EPOCH_MAX
        given = "a new producer id" if rotates else f"epoch {client_pair(row).epoch}"
        parts.append(
            f"a producer that still has epoch {row.last_producer_epoch} may ask for {given} and go on"
        )
    return "; ".join(parts) + "."


def _pairs(row: Transaction) -> list[str]:
    """Where the client's pair is not the transaction's: which is whose."""
    if not has_two(row):
        return []
    client = client_pair(row)
    if row.state is State.ONGOING:
        kept_by = f"producer {client.producer_id}, epoch {client.epoch}"
        return [f"another instance kept it, and alone may end it: {kept_by}"]
    said = [f"its next transaction has producer id {client.producer_id}, epoch {client.epoch}"]
    if row.previous_producer_id != NO_PRODUCER_ID:
        said.insert(0, f"it was ended with producer id {row.previous_producer_id}")
    return said


def _standing(row: Transaction, now_ms: int, refusing: tuple[Refusing, ...]) -> str:
    since = _span(now_ms - row.updated_ms)
    who = f"producer {row.producer_id}, epoch {row.producer_epoch}"
    if row.state is State.EMPTY and not is_held(row):
        return f"no instance has {who}: the next InitProducerId begins a new one"
    if row.state is State.EMPTY:
        return f"{who} began {since} ago and has opened no transaction yet"
    if row.state is State.ONGOING:
        begin = (
            f"{who} has had a transaction on {_partitions(row)} open for {_span(now_ms - row.started_ms)}; "
        )
        if row.is_two_phase:
            return begin + "it never times out, as it is of two-phase commit: an external coordinator ends it"
        left_ms = min(max(0, row.deadline_ms - now_ms), row.transaction_timeout_ms)
        return f"{begin}it is aborted in {_span(left_ms)} unless it ends before"
    if row.state in PREPARED_STATES:
        ended, why = ("committed", "") if row.state is State.PREPARE_COMMIT else ("aborted", _why(row))
        begin = f"the transaction was {ended} {since} ago{why}; "
        if refusing:
            return begin + _wedged(refusing, now_ms)
        of = f" of {who}" if has_two(row) else ""
        return f"{begin}markers{of} are being written to {_partitions(row)}"
    ended = "committed" if row.state is State.COMPLETE_COMMIT else "aborted"
    return f"the last transaction of {who} was {ended}, complete since {since}, and none is open"


def _wedged(refusing: tuple[Refusing, ...], now_ms: int) -> str:
    named = ", ".join(
        f"{partition} (error {code}, for {_span(now_ms - since_ms)})"
        for partition, code, since_ms in refusing[:NAMED_MAX]
    )
    more = f" and {len(refusing) - NAMED_MAX} more" if len(refusing) > NAMED_MAX else ""
    return (
        f"it is wedged: its marker is refused by {named}{more}, where a newer epoch of that producer has "
        "written; 'fencepost transactions force-terminate' ends it there as it was decided"
    )


def _why(row: Transaction) -> str:
    """Why an abort was not the producer's own: the fence that the same record added."""
    if not row.fences or row.fences[-1].at_ms != row.updated_ms:
        return ""
    fence = row.fences[-1]
    if fence.cause == FenceCause.NEW_INSTANCE and row.init_version >= 0:
        return ""  # that instance came, began and ended within one ms
    if fence.cause == FenceCause.TIMEOUT:
        return f" because it was open for longer than its timeout of {_span(row.transaction_timeout_ms)}"
    by = f" (client id {fence.by!r})" if fence.by else ""
    return f" because {CAUSES.get(fence.cause, 'another client')}{by} took its epoch {fence.epoch} away"


def _fence(fence: Fence, now_ms: int) -> str:
    by = f" (client id {fence.by!r})" if fence.by else ""
    cause = CAUSES.get(fence.cause, "another client")
    return (
        f"epoch {fence.epoch} of producer {fence.producer_id} was fenced by {cause}{by} "
        f"{_span(now_ms - fence.at_ms)} ago"
    )


def _partitions(row: Transaction) -> str:
    count = sum(len(each.partition_ids) for each in row.partitions)
    return "1 partition" if count == 1 else f"{count} partitions"


def _span(ms: int) -> str:
    """A time span as people read it; what a clock that went back makes negative is 0."""
    seconds = max(0, ms) / 1000
    if seconds < 120:
        return f"{seconds:.1f} s"
    if seconds < 7200:
        return f"{seconds / 60:.0f} min"
    return f"{seconds / 3600:.0f} h" if seconds < 172_800 else f"{seconds / 86_400:.0f} days"
