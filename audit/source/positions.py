"""How far a stream has come in a tree of growing logs: a segment and a position in it, for each directory.

Small     whatever the number of segments: Spark writes an offset down for every batch of a stream.
Place     ``{"segment": base offset, "position": bytes}``: all segments below ``segment`` are read, and that
          one up to ``position``, where a batch begins or the file ends.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from fencepost.audit.decode.batches import stop_of
from fencepost.audit.decode.files import Files
from fencepost.audit.decode.plan import LogFile
from fencepost.audit.source.pieces import cut

Offset = dict[str, dict[str, int]]
Place = tuple[int, int]
_NOWHERE: Final[Place] = (-1, 0)


class LogTruncated(Exception):
    """A log has become shorter than what was read of it: rows that were given are no longer in it."""


def furthest(
    segments: Iterable[LogFile],
    start: Offset,
    *,
    target: Offset | None,
    bytes_max: int | None,
    fail_on_truncation: bool,
    files: Files,
) -> Offset:
    """The offset to read up to from ``start``: at most to ``target``, and about ``bytes_max`` bytes of it.

    A directory that is gone keeps its place. Raises LogTruncated; without ``fail_on_truncation`` reading
    goes on from where the log ends now.
    """
    found = dict(start)
    room = bytes_max
    for directory, logs in sorted(_by_directory(segments).items()):
        place = _place(start, directory)
        last = logs[-1]
        if place > (_base(last), last.size):
            if fail_on_truncation:
                was, now = f"segment {place[0]} up to {place[1]}", f"segment {_base(last)} at {last.size}"
                raise LogTruncated(f"{directory}: was read to {was}, ends in {now}")
            place = (_base(last), last.size)
        bound = None if target is None else target.get(directory, {"segment": -1, "position": 0})
        for file in logs:
            if _base(file) < place[0] or (room is not None and room <= 0):
                continue
            first = place[1] if _base(file) == place[0] else 0
            end = _end(file, first, bound, files)
            if end <= first:
                continue
            if room is not None:
                whole, end = end, cut(file, first, room, files, end)[0].end
                room = 0 if end < whole else room - (end - first)
            place = (_base(file), end)
        if place != _NOWHERE:
            found[directory] = {"segment": place[0], "position": place[1]}
    return found


def between(segments: Iterable[LogFile], start: Offset, end: Offset) -> Iterator[tuple[LogFile, int, int]]:
    """The segments that lie between two offsets, and from where to where."""
    for directory, logs in sorted(_by_directory(segments).items()):
        (from_base, from_position), (to_base, to_position) = _place(start, directory), _place(end, directory)
        for file in logs:
            base = _base(file)
            if from_base <= base <= to_base:
                first = from_position if base == from_base else 0
                last = to_position if base == to_base else file.size
                if first < last:
                    yield file, first, last


def _end(file: LogFile, first: int, bound: Mapping[str, int] | None, files: Files) -> int:
    """Up to where a segment can be read: its size, of the last one of a log where its whole batches end."""
    if bound is not None:
        if _base(file) > bound["segment"]:
            return 0
        if _base(file) == bound["segment"]:
            return bound["position"]
    return stop_of(file.path, first, files=files).valid_end if file.last_of_partition else file.size


def _by_directory(segments: Iterable[LogFile]) -> dict[str, list[LogFile]]:
    found: defaultdict[str, list[LogFile]] = defaultdict(list)
    for file in segments:
        found[file.path.rpartition("/")[0]].append(file)
    return {directory: sorted(logs, key=_base) for directory, logs in found.items()}


def _place(offset: Offset, directory: str) -> Place:
    place = offset.get(directory)
    return _NOWHERE if place is None else (place["segment"], place["position"])


def _base(file: LogFile) -> int:
    return file.base_offset or 0
