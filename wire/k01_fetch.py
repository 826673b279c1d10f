"""Fetch, API key 1, versions 4-17: records from an offset on.

4   isolation_level, last_stable_offset, aborted transactions      5   log_start_offset
7   sessions, error_code for the whole answer      9   current_leader_epoch      11  rack
12  flexible, last_fetched_epoch     13  topics by id alone     15  replica_state in the place of replica_id
No session is ever made: session 0 is answered, and clients send whole requests (KIP-227).
"""

import uuid
from dataclasses import dataclass

from controller.errors import ErrorCode

READ_UNCOMMITTED = 0
READ_COMMITTED = 1


@dataclass(frozen=True, slots=True)
class FetchPartition:
    """One partition to read, by ``topic_id`` from version 13 on, by ``topic`` before. Epochs -1: unknown."""

    topic: str | None
    topic_id: uuid.UUID | None
    index: int
    current_leader_epoch: int
    fetch_offset: int
    last_fetched_epoch: int
    log_start_offset: int
    max_bytes: int


@dataclass(frozen=True, slots=True)
class Fetch:
    """Wait up to ``max_wait_ms`` until ``min_bytes`` are there; at most about ``max_bytes`` come back."""

    replica_id: int
    max_wait_ms: int
    min_bytes: int
    max_bytes: int
    isolation_level: int
    session_id: int
    session_epoch: int
    partitions: tuple[FetchPartition, ...]
    version: int


@dataclass(frozen=True, slots=True)
class AbortedTransaction:
    """Records of ``producer_id`` from ``first_offset`` up to its ABORT marker are to be skipped."""

    producer_id: int
    first_offset: int


@dataclass(frozen=True, slots=True)
class FetchedPartition:
    """Records of one partition, as they lie in the log. ``aborted`` None unless read committed."""

    topic: str | None
    topic_id: uuid.UUID | None
    index: int
    error_code: int = ErrorCode.NONE
    high_watermark: int = -1
    last_stable_offset: int = -1
    log_start_offset: int = -1
    aborted: tuple[AbortedTransaction, ...] | None = None
    records: bytes = b""


@dataclass(frozen=True, slots=True)
class FetchAnswer:
    """Rows in the order of the request; those of one topic stand together."""

    error_code: int = ErrorCode.NONE
    session_id: int = 0
    partitions: tuple[FetchedPartition, ...] = ()
