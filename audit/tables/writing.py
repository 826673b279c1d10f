"""One ingest's right to a number, its commit, and the deletion of what no reader can want.

Number      is taken by a reservation, put only if it is absent: of two writers one has it, the other takes
            the next.
Overlap     of two that read the same directories the lower number goes on; the other is refused, with the
            first one's name. It has looked only after its own reservation was there, so of two at least the
            higher one sees the other; and a lower number that it sees no more is committed, and known to it.
Dead        a writer that died is abandoned: a document without parts takes its number's name, if that was
            absent. If it lives after all, its own commit finds the name taken and is refused.
Commit      the document is put last, if it is absent. Killed before, nothing counts; after, everything.
Deleted     by later writers: what no document names and no living reservation can name; ``RETIRED_SECONDS``
            after an ingest was replaced, its files.
"""

import contextlib
import json
import os
import secrets
import socket
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

from fencepost.audit.tables.layout import (
    INGESTS,
    Ingest,
    Part,
    document_name,
    encode,
    ingest_of_part,
    reservation_name,
)
from fencepost.audit.tables.place import Place
from fencepost.audit.tables.refused import TablesRefused
from fencepost.audit.tables.snapshot import Snapshot, documents, numbers, snapshot

RETIRED_SECONDS: Final = 3600  # the longest that a check may take with the tables that it began with
TRIES_MAX: Final = 1000  # other writers that take a number first


class Busy(TablesRefused):
    """Another writer is at work on the same directories."""


class Reserved(NamedTuple):
    """A number, and what counted when it was taken."""

    number: int
    before: Snapshot


@contextlib.contextmanager
def reserved(place: Place, roots: Sequence[str]) -> Iterator[Reserved]:
    """The right to write one ingest of ``roots``, until the end. Raises Busy, TablesRefused, OSError."""
    number = _reserve(place, roots)
    try:
        _refuse_overlap(place, number, roots)
        yield Reserved(number, snapshot(place))
    finally:
        place.release(reservation_name(number))


def commit(
    place: Place,
    taken: Reserved,
    parts: Sequence[Part],
    roots: dict[str, int],
    replaces: Collection[int] = (),
) -> Ingest:
    """Make an ingest count, and those that it ``replaces`` count no longer. Raises TablesRefused; OSError."""
    for each in replaces:
        for root, settled_ms in taken.before.documents[each].roots.items():
            roots[root] = max(settled_ms, roots.get(root, 0))
    ingest = Ingest(
        ingest=taken.number,
        committed_ms=time.time_ns() // 1_000_000,
        writer=_writer(),
        roots=roots,
        replaces=tuple(sorted(replaces)),
        parts=tuple(parts),
    )
    name = document_name(taken.number)
    if taken.number not in numbers(place)[1] or not place.put_new(name, encode(ingest)):
        raise TablesRefused(
            f"{place.uri}: ingest {taken.number} was taken for dead by another writer, and does not count;"
            " run it again"
        )
    return ingest


def sweep(place: Place) -> None:
    """Delete what no reader can want. Raises OSError."""
    found = [kept.name for kept in place.kept("")]
    done, reservations = numbers(place)  # after the files: a writer of any of them is seen here
    for number, written_s in reservations.items():
        if number in done:
            place.remove(reservation_name(number))
        elif place.is_dead(reservation_name(number), _last_sign(place, number, written_s)):
            _abandon(place, number)
    committed = documents(place)
    retired = _retired(committed)
    named = {part.name for number, each in committed.items() if number not in retired for part in each.parts}
    writing = numbers(place)[1].keys() - committed.keys()
    for name in found:
        ingest = ingest_of_part(name)
        if ingest is not None and ingest not in writing and name not in named:
            place.remove(name)
    for number in retired:
        place.remove(document_name(number))
    for kept in place.kept(INGESTS):
        if kept.name.startswith(".") and time.time() - kept.written_s > RETIRED_SECONDS:
            place.remove(f"{INGESTS}/{kept.name}")


def is_alone(place: Place, number: int) -> bool:
    """Whether no writer that has begun before ``number`` is at work."""
    done, reservations = numbers(place)
    return not any(each < number for each in reservations.keys() - done.keys())


def _reserve(place: Place, roots: Sequence[str]) -> int:
    # The token makes it another's: what a store already holds is compared with it.
    said = {"writer": _writer(), "roots": list(roots), "token": secrets.token_hex(8)}
    content = json.dumps({**said, "begun_ms": time.time_ns() // 1_000_000})
    for _ in range(TRIES_MAX):
        done, reservations = numbers(place)
        number = max((0, *done, *reservations)) + 1
        if place.reserve(reservation_name(number), content.encode()):
            if number not in numbers(place)[0]:
                return number
            place.release(reservation_name(number))  # its last owner was abandoned just now
    raise TablesRefused(f"{place.uri}: {TRIES_MAX} other writers were faster, one after another")


def _refuse_overlap(place: Place, number: int, roots: Sequence[str]) -> None:
    done, reservations = numbers(place)
    for other, written_s in sorted(reservations.items()):
        if other >= number or other in done:
            continue
        name = reservation_name(other)
        if place.is_dead(name, _last_sign(place, other, written_s)):
            _abandon(place, other)
            continue
        said = _said(place, name, roots)
        if said is not None and _overlap(roots, said["roots"]):
            raise Busy(
                f"{place.uri}: another ingest is at work here: number {other}, by {said['writer']}, of"
                f" {', '.join(said['roots'])}"
            )


def _said(place: Place, name: str, roots: Sequence[str]) -> dict[str, Any] | None:
    try:
        said: dict[str, Any] = json.loads(place.read(name))
    except FileNotFoundError:
        return None  # it has ended meanwhile
    except ValueError:
        return {"writer": "a writer that has not said its name yet", "roots": list(roots)}
    return said


def _overlap(some: Collection[str], others: Collection[str]) -> bool:
    return any(is_below(one, other) or is_below(other, one) for one in some for other in others)


def is_below(path: str, root: str) -> bool:
    """Whether ``path`` is ``root`` or in it."""
    return path == root or path.startswith(f"{root.rstrip('/')}/")


def _abandon(place: Place, number: int) -> None:
    """No commit of ``number`` can come any more, or it has come just now."""
    empty = Ingest(
        ingest=number, committed_ms=time.time_ns() // 1_000_000, writer=f"abandoned by {_writer()}", roots={}
    )
    place.put_new(document_name(number), encode(empty))
    place.remove(reservation_name(number))


def _last_sign(place: Place, number: int, written_s: float) -> float:
    """When anything of an ingest was last written."""
    signs = (kept.written_s for kept in place.kept("") if ingest_of_part(kept.name) == number)
    return max((written_s, *signs))


def _retired(committed: Mapping[int, Ingest]) -> set[int]:
    """The numbers that were replaced so long ago that no reader has them open."""
    now_ms = time.time_ns() // 1_000_000
    return {
        number
        for ingest in committed.values()
        if now_ms - ingest.committed_ms >= RETIRED_SECONDS * 1000
        for number in ingest.replaces
        if number in committed
    }


def _writer() -> str:
    return f"{socket.gethostname()} process {os.getpid()}"
