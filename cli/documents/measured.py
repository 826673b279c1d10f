"""Documents of audit, bench and demo."""

from collections.abc import Mapping
from typing import Any, Final, Literal

from msgspec import UNSET, Struct, UnsetType

from fencepost.cli.documents.base import Document, Part


class NotRead(Part):
    """A file, the byte from which on it was not read, and why."""

    path: str
    position: int
    reason: str


class Files(Part):
    """What was read, and what could not be."""

    read: int
    bytes: int
    not_read: list[NotRead]


class Ingested(Document):
    """``audit ingest``."""

    tables: str
    files: Files


class Check(Part):
    """What a check says: passed, findings or unknown, and how many."""

    check: str
    result: str
    findings: int
    unknown: int


class Finding(Part):
    """What a check found; null where a field does not apply (docs/audit.md)."""

    check: str
    rule: str
    severity: str
    node: int | None
    topic: str | None
    partition: int | None
    path: str | None
    position: int | None
    offset: int | None
    producer_id: int | None
    producer_epoch: int | None
    transactional_id: str | None
    at_ms: int | None
    subject: str
    detail: str
    id: str | None
    cause: str | None


class WatchedFinding(Finding):
    """``audit watch``."""

    schema_version: Literal[1]


class Unknown(Part):
    """What a check could not decide."""

    check: str
    rule: str | None
    topic: str | None
    partition: int | None
    path: str | None
    first_offset: int | None
    end_offset: int | None
    detail: str


class Note(Part):
    """What is legitimate and worth a line."""

    check: str
    rule: str
    many: int
    path: str | None
    position: int | None
    detail: str


class Verdict(Document):
    """``audit check`` and ``report``, which has ``output``."""

    verdict: str
    checks: list[Check]
    findings: list[Finding]
    unknown: list[Unknown]
    notes: list[Note]
    files: Files
    output: str | UnsetType = UNSET


class OwnedBlock(Part):
    """A producer-id block, and until when its broker had it."""

    first: int | None
    end: int
    broker_id: int
    broker_epoch: int
    at_ms: int | None
    until_ms: int | None
    source: str
    offset: int
    path: str
    position: int


class Use(Part):
    """A transactional id that had the producer id."""

    transactional_id: str
    first_epoch: int
    last_epoch: int
    first_ms: int
    last_ms: int


class Written(Part):
    """What one producer epoch left on one partition."""

    topic: str
    partition: int
    producer_id: int
    producer_epoch: int
    records: int
    commits: int
    aborts: int
    first_offset: int
    last_offset: int
    first_ms: int
    last_ms: int


class Event(Part):
    """Something that happened to a transactional id, with the record that says so."""

    at_ms: int
    what: str
    producer_id: int
    producer_epoch: int
    state: str | None
    partitions: list[str]
    offset: int
    path: str
    position: int


class Queried(Document):
    """``audit query``: of a producer id, or of a transactional id."""

    written: list[Written]
    partial: bool
    producer_id: int | UnsetType = UNSET
    at_ms: int | UnsetType | None = UNSET
    owners: list[OwnedBlock] | UnsetType = UNSET
    later: list[OwnedBlock] | UnsetType = UNSET
    transactional_ids: list[Use] | UnsetType = UNSET
    transactional_id: str | UnsetType = UNSET
    events: list[Event] | UnsetType = UNSET
    omitted: int | UnsetType = UNSET


class Measured(Struct, kw_only=True):
    """``bench``: figures by name; which ones is the bench's affair, and no promise."""

    schema_version: int


class Story(Part):
    """How a late commit went with one protocol."""

    protocol: str
    end_txn_version: int
    late_answer: str
    abort_answer: str
    seen: list[str]
    second_transaction: str


class Stories(Document):
    """``demo late-endtxn``."""

    stories: list[Story]


_BENCHES: Final = ("allocate", "failover", "groups", "stalls", "transactions")

MEASURED: Final[Mapping[str, Any]] = {
    "audit ingest": Ingested,
    "audit check": Verdict,
    "audit report": Verdict,
    "audit watch": WatchedFinding,
    "audit query": Queried,
    **{f"bench {name}": Measured for name in _BENCHES},
    "demo late-endtxn": Stories,
}
