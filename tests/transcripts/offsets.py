"""Offsets in the log: what the leader decides into one entry, what a follower makes of it, and a restart.

The leader replays records as they are decided; the others replay the batches of the entry, in their order.
"""

import uuid

from fencepost.controller.groups.offset_tables import OFFSETS, PENDING
from fencepost.controller.levels import LOG_LEVEL
from fencepost.controller.replay import apply, replay_record
from fencepost.controller.view import EmptyView, ImageHeader, Overlay
from fencepost.quorum.draft import Draft
from fencepost.quorum.port import Request
from fencepost.records.batch import decode_batch
from fencepost.records.end_marker import EndMarker
from fencepost.records.entry import Entry, decode_entry, decode_records, encode_entry, placed
from fencepost.records.logged import StateRecord
from fencepost.records.offset_commit import OffsetCommitRecord, OffsetForgotten
from fencepost.records.schema import FeatureLevelRecord, TopicRecord
from fencepost.records.types import ImageVersion, Log, NodeId, ProducerId, ProposalNumber, Term
from tests.quorum.decisions import writes

NOW_MS = 1_763_600_000_000
TOPIC = uuid.UUID(int=0x70)


class OffsetStory:
    """Commands: decides, applies, restarts."""

    def __init__(self, level: int) -> None:
        self._level = level
        self._leader, self._follower = self._born(), self._born()
        self._log: list[bytes] = []

    def _born(self) -> Overlay:
        view = Overlay(EmptyView())
        view.header = ImageHeader(ImageVersion(1), Term(1), NodeId(1), (1, 0, 0))
        replay_record(view, FeatureLevelRecord(name=LOG_LEVEL, feature_level=self._level))
        return view

    def perform(self, command: str) -> list[str]:
        """Run one command. What is decided at once is in one entry; a decision is between two semicolons."""
        words = command.split(":", 1)
        match words[0].split():
            case ["offsets", *_]:
                return []
            case ["leader", "decides"]:
                return self._decide([each.strip() for each in words[1].split(";")])
            case ["follower", "applies"]:
                return self._apply(self._follower, self._log[self._follower.header.version - 1 :])
            case ["a", "node", "starts", "with", "the", "image", "of", version]:
                started = self._born()
                self._apply(started, self._log[: int(version) - 1])
                return self._apply(started, self._log)
            case _:
                raise ValueError(f"what is {command!r}?")

    def _decide(self, decisions: list[str]) -> list[str]:
        said: list[str] = []
        draft = Draft(self._leader, lambda _request, error: said.append(f"failed: {error}"))
        for each in decisions:
            request = Request(writes(_record(each)), lambda _outcome, _throttle_ms: None)
            draft.take(request, NOW_MS)
            if isinstance(request.outcome, Exception):
                said.append(f"{each}: {type(request.outcome).__name__}: {request.outcome}")
        at = self._leader.header
        entry = Entry(
            at.version, at.controller_epoch, NodeId(1), ProposalNumber(len(self._log)), draft.batches(NOW_MS)
        )
        self._log.append(encode_entry(entry))
        said.append(f"the entry begins with {self._log[-1][:3].hex(' ')}")
        said += [_batch(log, base, raw) for log, base, raw in placed(entry, at.log_ends)]
        draft.overlay.header = at
        apply(draft.overlay, entry, draft.logged(), replayed=True)
        draft.overlay.write_to(self._leader)
        return said + _shown(self._leader)

    def _apply(self, view: Overlay, log: list[bytes]) -> list[str]:
        for raw in log:
            entry = decode_entry(raw)
            apply(view, entry, decode_records(entry))
        return _shown(view)


def _record(words: str) -> StateRecord:
    match words.split():
        case ["topic"]:
            return TopicRecord(name="orders", topic_id=TOPIC)
        case ["commit", "of", producer]:
            return _marker(int(producer), committed=True)
        case ["abort", "of", producer]:
            return _marker(int(producer), committed=False)
        case ["offset", number]:
            return _offset(int(number), -1)
        case ["offset", number, "of", producer]:
            return _offset(int(number), int(producer))
        case ["forget"]:
            return OffsetForgotten("readers", "orders", 0)
        case _:
            raise ValueError(f"what is {words!r}?")


def _marker(producer_id: int, *, committed: bool) -> EndMarker:
    return EndMarker(
        producer_id=ProducerId(producer_id), producer_epoch=0, committed=committed, coordinator_epoch=1
    )


def _offset(number: int, producer_id: int) -> OffsetCommitRecord:
    return OffsetCommitRecord(
        group_id="readers",
        topic="orders",
        partition=0,
        offset=number,
        committed_ms=NOW_MS,
        producer_id=ProducerId(producer_id),
        producer_epoch=-1 if producer_id < 0 else 0,
    )


def _batch(log: Log, base: int, raw: bytes) -> str:
    batch, _ = decode_batch(raw)
    kind = "a marker" if batch.is_control else "records"
    whose = f"of producer {batch.producer_id}" if batch.is_transactional else "of no transaction"
    return f"{log.directory} [{base}, {base + len(batch.records)}): {kind} {whose}"


def _shown(view: Overlay) -> list[str]:
    committed = [f"{row.offset} (record {row.record_offset})" for _, row in view.items(OFFSETS)]
    pending = [f"{row.offset} of producer {key[0]}" for key, row in view.items(PENDING)]
    kept = committed[0] if committed else "nothing"
    return [f"version {view.header.version}: committed {kept}, pending {', '.join(pending) or 'nothing'}"]
