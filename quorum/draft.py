"""The entry that is being decided: one request after the other, each of them as a whole or not at all.

Isolation   what goes wrong while a request is decided, or while its records are encoded or replayed, is
            undone and answered UNKNOWN_SERVER_ERROR (-1): nothing is proposed yet, so only that request is
            harmed. What the store itself raises (``HALTING``) is not isolated: memory and disk may differ.
            Rows that changed on the disk refuse the request: this node's image is bad (image_watch.py).
Budget      decisions share an entry up to ``ENTRY_COST_MAX``, so every node applies it in one short step. One
            that does not fit beside others begins the next entry; one that fits none is refused.
"""

from collections.abc import Callable
from typing import Final, cast

from fencepost.controller import levels
from fencepost.controller.errors import (
    ApiError,
    ErrorCode,
    NotController,
    UnknownServerError,
    UnsupportedVersion,
)
from fencepost.controller.replay import replay_records
from fencepost.controller.view import EntryOverlay, ImageHeader, View
from fencepost.quorum.port import Submission, Writes
from fencepost.records.batch import RecordParts, encode_batch
from fencepost.records.entry import ENTRY_BYTES_MAX, LoggedBatch
from fencepost.records.group_log import GroupRecord, encode_group_batches
from fencepost.records.logged import (
    ENTRY_COST_MAX,
    RECORD_COST,
    StateRecord,
    cost_beside_bytes,
    encode_record,
)
from fencepost.records.types import LOGS, Log
from fencepost.snapshots.row_ranges import RowsChanged
from fencepost.snapshots.store import HALTING

_METADATA: Final = Log.METADATA
_GROUPS: Final = Log.CONSUMER_OFFSETS

_ONE_BATCH_LOGS: Final = (Log.METADATA, Log.TRANSACTION_STATE)

DECISIONS_MAX: Final = 1024  # requests decided into one entry
OVERSHOOT_COST_MAX: Final = 64 * 1024
"""A decision may pass the budget by so much. So a small one is never decided twice; only a large one
waits for an entry of its own."""

BATCH_OVERHEAD_BYTES_MAX: Final = 66  # header and frame, of a batch that a group record may need for itself
RECORD_OVERHEAD_BYTES_MAX: Final = 24  # lengths and deltas that a batch writes around a key and a value
DECISION_BYTES_MAX: Final = ENTRY_BYTES_MAX - 1024  # of one decision's records; the rest is headers


class DecisionTooLarge(ApiError):
    """A request whose records fit into no entry."""

    code = ErrorCode.INVALID_REQUEST

    def __init__(self, size: int) -> None:
        super().__init__(
            f"the request writes {size} bytes of records, and an entry of the log holds "
            f"{DECISION_BYTES_MAX}; ask for less at a time"
        )


class Draft:
    """See the module. ``on_violation`` is given each request that a violation cost, and the error."""

    __slots__ = (
        "_ends",
        "_image",
        "_on_violation",
        "_parts",
        "_records",
        "answers",
        "bytes",
        "cost",
        "deferrable",
        "overlay",
    )

    def __init__(self, image: View, on_violation: Callable[[Submission, Exception], None]) -> None:
        self._image = image
        self._on_violation = on_violation
        self._records: tuple[list[StateRecord], ...] = tuple([[] for _ in LOGS])  # by log
        self._parts: tuple[list[RecordParts], ...] = tuple([[] for _ in LOGS])
        self._ends = [*image.header.log_ends]  # the offsets after what is in here
        self.overlay = EntryOverlay(image)
        self.answers: list[Submission] = []  # decided, each with its outcome
        self.bytes = 0
        self.cost = 0
        self.deferrable = 0  # answers that are for deferrable requests

    @property
    def is_full(self) -> bool:
        """Propose it: what waits is for the next one."""
        return self.cost >= ENTRY_COST_MAX or len(self.answers) >= DECISIONS_MAX

    def take(self, request: Submission, now_ms: int) -> bool:
        """Decide a request. False: it does not fit beside those before it, and nothing of it is in here."""
        self.overlay.room = ENTRY_COST_MAX - self.cost
        try:
            decision = request.run(self.overlay, now_ms)
        except ApiError as refusal:
            self.refuse(request, refusal)
            return True
        except HALTING:
            raise
        except Exception as error:  # noqa: BLE001 - around one request's decision
            self._violated(request, error)
            return True
        if decision.records:
            return self._take_records(request, decision)
        self.answers.append(request)
        self.deferrable += request.deferrable
        return True

    def _take_records(self, request: Submission, decision: Writes) -> bool:
        overlay, records = self.overlay, decision.records
        overlay.begin()
        try:
            encoded: list[tuple[StateRecord, Log, RecordParts]] = []
            size, cost = 0, decision.extra_cost
            writes_groups = False
            for record in records:
                log, parts = encode_record(record)
                key, value, _ = parts
                length = len(key or b"") + len(value or b"")
                size += length + RECORD_OVERHEAD_BYTES_MAX
                if log is _METADATA:
                    cost += length + RECORD_COST
                else:
                    cost += length + cost_beside_bytes(record)
                    if log is _GROUPS:
                        size += BATCH_OVERHEAD_BYTES_MAX
                        writes_groups = True
                encoded.append((record, log, parts))
            if writes_groups:
                levels.require_group_log(overlay)
            if size > DECISION_BYTES_MAX:
                self.refuse(request, DecisionTooLarge(size))
                return True
            beside = self.cost + cost > ENTRY_COST_MAX + OVERSHOOT_COST_MAX
            if self.cost and (beside or self.bytes + size > DECISION_BYTES_MAX):
                return False
            replay_records(overlay, records, self._ends[_GROUPS])
        except HALTING:
            raise
        except UnsupportedVersion as too_low:  # of ``require_group_log``: nothing is replayed yet
            self.refuse(request, too_low)
            return True
        except Exception as error:  # noqa: BLE001 - around one request's decision
            overlay.undo()
            self._violated(request, error)
            return True
        ends = self._ends
        for record, log, parts in encoded:
            self._records[log].append(record)
            self._parts[log].append(parts)
            ends[log] += 1
        self.bytes += size
        self.cost = self.cost + cost if not decision.ends_entry else max(self.cost + cost, ENTRY_COST_MAX)
        at = self._image.header  # its version stays the image's until the entry is applied
        overlay.header = ImageHeader(
            at.version, at.controller_epoch, at.leader_id, (ends[0], ends[1], ends[2])
        )
        self.answers.append(request)
        self.deferrable += request.deferrable
        return True

    def _violated(self, request: Submission, error: Exception) -> None:
        if isinstance(error, RowsChanged):
            self.refuse(request, NotController(f"nothing was done: {error}"))  # the image is bad from here on
            return
        self._on_violation(request, error)
        self.refuse(request, UnknownServerError(f"the decision failed and nothing was done: {error!r}"))

    def refuse(self, request: Submission, refusal: ApiError) -> None:
        """The outcome of ``request``. It leaves with the entry, as a response does."""
        request.refuse(refusal)
        self.answers.append(request)
        self.deferrable += request.deferrable

    def batches(self, now_ms: int) -> tuple[tuple[Log, bytes], ...]:
        """As they go into the entry."""
        batches = [
            (log, encode_batch(self._parts[log], timestamp_ms=now_ms))
            for log in _ONE_BATCH_LOGS
            if self._parts[log]
        ]
        if self._parts[_GROUPS]:
            records = cast(list[GroupRecord], self._records[_GROUPS])
            encoded = encode_group_batches(records, self._parts[_GROUPS], now_ms)
            batches += [(_GROUPS, batch) for batch in encoded]
        return tuple(batches)

    def logged(self) -> tuple[LoggedBatch, ...]:
        """The records, as apply takes them. Those of a log are one batch here: it counts them only."""
        return tuple(
            LoggedBatch(log, False, tuple(self._records[log]), len(self._records[log]))
            for log in LOGS
            if self._records[log]
        )
