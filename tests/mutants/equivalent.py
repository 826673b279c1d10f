"""Changes that unguided mutation found and that change nothing a test could notice, each with the reason.

By file and the lines that differ, as ``python -m tests.mutants.unguided`` prints them.
"""

from typing import Final

EQUIVALENT: Final[dict[tuple[str, str], str]] = {
    (
        "broker/log/cleaner.py",
        (
            "- while self._next < len(self._ends) and self._dirty.bases[self._next] <"
            " self._compaction.last.end:\n"
            "+ while self._next < len(self._ends) and self._dirty.bases[self._next] <="
            " self._compaction.last.end:"
        ),
    ): "a segment that begins where the map ends is read, too, and left as it is",
    (
        "broker/log/durability.py",
        (
            "- SNAPSHOTS_KEPT: Final = 2  # beside those at a segment's base: the newest, and the one before"
            " it\n"
            "+ SNAPSHOTS_KEPT: Final = 3  # beside those at a segment's base: the newest, and the one before"
            " it"
        ),
    ): "the value of a bound: one more file of an old snapshot is kept",
    (
        "broker/log/durability.py",
        "- if end > self.durable_end:\n+ if end >= self.durable_end:",
    ): "what is flushed is flushed once more",
    (
        "broker/log/index_file.py",
        "- if self._descriptor >= 0:\n+ if self._descriptor > 0:",
    ): "descriptor 0 is standard input, which a node has open",
    (
        "broker/log/index_file.py",
        "- if self._descriptor >= 0:\n+ if self._descriptor >= 1:",
    ): "descriptor 0 is standard input, which a node has open",
    (
        "broker/log/open_files.py",
        "- FILES_OF_A_SEGMENT: Final = 4\n+ FILES_OF_A_SEGMENT: Final = 5",
    ): "the value of a bound: fewer segments are open at a time",
    (
        "broker/log/producer_state.py",
        (
            "- PRODUCERS_MAX: Final = 100_000  # known to one partition; past it those that wrote longest"
            " ago are forgotten\n"
            "+ PRODUCERS_MAX: Final = 100001  # known to one partition; past it those that wrote longest ago"
            " are forgotten"
        ),
    ): "the value of a bound: tests play it with a smaller one",
    (
        "broker/log/put_back.py",
        "- if placed.position >= damage.position:\n+ if placed.position > damage.position:",
    ): "the epoch that was found is tried, too: with it nothing is proven",
    (
        "broker/log/put_back.py",
        "- return False\n+ return True",
    ): "what the segment's sum proves was written is sound: this only saves reading it",
    (
        "broker/log/recovery.py",
        "- is_full = number < len(log.segments) - 1\n+ is_full = number <= len(log.segments) - 1",
    ): "the time index of the last segment is made again, and is the same",
    (
        "broker/log/search.py",
        (
            "- limit = segment.size if upper >= segment_end else self._position(segment, upper)\n"
            "+ limit = segment.size if upper > segment_end else self._position(segment, upper)"
        ),
    ): "a search for the segment's end finds its size",
    (
        "broker/log/segment_sums.py",
        (
            "- for suffix, known in zip(INDEX_SUFFIXES, sums[1:], strict=True):\n"
            "+ for suffix, known in zip(INDEX_SUFFIXES, sums[1:], strict=False):"
        ),
    ): "there are three of each, by their types",
    (
        "broker/log/shapes.py",
        "- NEVER: Final = 2**63 - 1\n+ NEVER: Final = 3**63 - 1",
    ): "the value of a bound: no time is behind either",
    (
        "broker/log/unchecked.py",
        (
            "- in_place = base == expected < due_end and (epoch, magic) == (due, MAGIC) and delta >= 0\n"
            "+ in_place = base == expected < due_end and (epoch, magic) == (due, MAGIC) and delta > 0"
        ),
    ): "a batch of one record takes the slow way, which finds the same",
    (
        "broker/log/unchecked.py",
        "- if len(content) - at > HEADER_BYTES:\n+ if len(content) - at >= HEADER_BYTES:",
    ): "a batch that is a header alone takes the quick way, which finds the same",
    (
        "broker/log/unchecked.py",
        (
            "- if header.base_offset != expected and not expected < header.base_offset < cleaned_end:\n"
            "+ if header.base_offset != expected and not expected <= header.base_offset < cleaned_end:"
        ),
    ): "the offset is not the expected one there",
    (
        "quorum/firewall.py",
        (
            "- if message.next_index < 1 or message.next_index > self._journal.last_index + 1:\n"
            "+ if message.next_index < 2 or message.next_index > self._journal.last_index + 1:"
        ),
    ): "every log has the same entry 1, so no follower says that it needs it",
    (
        "quorum/handshake.py",
        "- HELLO_BYTES_MAX: Final = 4096\n+ HELLO_BYTES_MAX: Final = 4097",
    ): "the value of a bound: a hello is much smaller, and one byte past it is refused",
    (
        "quorum/image_watch.py",
        (
            "- if self._mark is None or self.snapshots.installing or peer != self._raft.leader_id:\n"
            "+ if self._mark is None and self.snapshots.installing or peer != self._raft.leader_id:"
        ),
    ): "it is called with a mark only; while one is installed the receiver takes no other snapshot",
    (
        "quorum/image_watch.py",
        (
            "- return Behind(message.term, 0) if isinstance(message, AppendEntries) else message\n"
            "+ return Behind(message.term, 1) if isinstance(message, AppendEntries) else message"
        ),
    ): "no follower reads the index of Behind",
    (
        "quorum/image_watch.py",
        "- if found is None or found[0][:1] == NO_OP:\n+ if found is None or found[0][:2] == NO_OP:",
    ): "a no-op entry is that one byte",
    (
        "quorum/messages.py",
        "- FRAME_BYTES_MAX: Final = 16 * 1024 * 1024\n+ FRAME_BYTES_MAX: Final = 16 * 1024 * 1025",
    ): "the value of a bound",
    (
        "quorum/messages.py",
        "- FRAME_BYTES_MAX: Final = 16 * 1024 * 1024\n+ FRAME_BYTES_MAX: Final = 16 * 1025 * 1024",
    ): "the value of a bound",
    (
        "quorum/port.py",
        '- R_co = TypeVar("R_co", covariant=True)\n+ R_co = TypeVar("R_co", covariant=False)',
    ): "types only: the type checker notices",
    (
        "quorum/raft_log.py",
        "- if self._clock() > until_s:\n+ if self._clock() >= until_s:",
    ): "the same but at one instant: a slice of applied entries ends a nanosecond earlier",
    (
        "quorum/snapshotter.py",
        (
            "- wanted = self._wanted and (bool(self._waiting) or since_failure_s >= WANTED_AGAIN_S)\n"
            "+ wanted = self._wanted and (bool(self._waiting) or since_failure_s > WANTED_AGAIN_S)"
        ),
    ): "the same but at one instant",
    (
        "snapshots/reader.py",
        (
            "- env = lmdb.open(str(directory), readonly=True, max_dbs=8, map_size=MAP_BYTES,"
            " readahead=False)\n"
            "+ env = lmdb.open(str(directory), readonly=True, max_dbs=8, map_size=MAP_BYTES, readahead=True)"
        ),
    ): "a hint to the system how it reads: what is read is the same",
    (
        "snapshots/scrub.py",
        (
            "- self.sum = 0  # of the rows at or before it, as they are now\n"
            "+ self.sum = 1  # of the rows at or before it, as they are now"
        ),
    ): "the first step begins a pass, which sets it",
    (
        "snapshots/snapshot.py",
        "- MANIFEST_BYTES_MAX: Final = 64 * 1024\n+ MANIFEST_BYTES_MAX: Final = 65 * 1024",
    ): "the value of a bound",
    (
        "quorum/snapshotter.py",
        "- TAIL_BYTES: Final = 4 * 1024 * 1024\n+ TAIL_BYTES: Final = 4 * 1025 * 1024",
    ): "the value of a bound: a thousandth more of the journal is kept",
}
