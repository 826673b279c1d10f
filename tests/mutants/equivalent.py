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
        "broker/log/put_back.py",
        "- if 0 < end <= len(raw) - HEADER_BYTES:\n+ if 1 < end <= len(raw) - HEADER_BYTES:",
    ): "no batch has one byte: what lies there is no epoch either way",
    (
        "broker/log/put_back.py",
        "- if placed.position >= damage.position:\n+ if placed.position > damage.position:",
    ): "the epoch that was found is tried, too: with it nothing is proven",
    (
        "broker/log/put_back.py",
        (
            "- found = first_whole(content, damage.position + 1, damage.offset)\n"
            "+ found = first_whole(content, damage.position - 1, damage.offset)"
        ),
    ): "where the damaged batch is whole its length did not change: with another one nothing is proven",
    (
        "broker/log/put_back.py",
        "- return False\n+ return True",
    ): "what the segment's sum proves was written is sound: this only saves reading it",
    (
        "broker/log/recovery.py",
        "- is_full = number < len(log.segments) - 1\n+ is_full = number <= len(log.segments) - 1",
    ): "the time index of the last segment is made again, and is the same",
    (
        "broker/log/read_ahead.py",
        "- self._piece_at = 0\n+ self._piece_at = 1",
    ): "nothing is read yet: no batch is whole, wherever it is looked for",
    (
        "broker/log/repair.py",
        "- if end < segment.base <= point:\n+ if end <= segment.base <= point:",
    ): "where they are equal the end becomes what it is",
    (
        "broker/log/search.py",
        (
            "- limit = segment.size if upper >= segment_end else self._position(segment, upper)\n"
            "+ limit = segment.size if upper > segment_end else self._position(segment, upper)"
        ),
    ): "a search for the segment's end finds its size",
    (
        "broker/log/segment.py",
        (
            "- if end < 0 < at:  # the indexed batch itself is cut short:"
            " its predecessor ends where it begins\n"
            "+ if end < 0 <= at:  # the indexed batch itself is cut short:"
            " its predecessor ends where it begins"
        ),
    ): "no batch is whole then, and without one the offset behind them is not looked at",
    (
        "broker/log/segment_sums.py",
        (
            "- for suffix, known in zip(INDEX_SUFFIXES, sums[1:], strict=True):\n"
            "+ for suffix, known in zip(INDEX_SUFFIXES, sums[1:], strict=False):"
        ),
    ): "there are three of each, by their types",
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
        "controller/acls.py",
        (
            '- invariant(2 + TEXT_BYTES_MAX + 1 + 16 <= KEY_BYTES_MAX, "a key of an ACL fits")\n'
            '+ invariant(2 + TEXT_BYTES_MAX + 1 + 17 <= KEY_BYTES_MAX, "a key of an ACL fits")'
        ),
    ): "a check of two constants, between which there is room",
    (
        "controller/groups/heartbeat.py",
        (
            '- raise UnknownMemberId(f"group {request.group_id!r} does not exist:'
            ' join without a member id")\n+ pass'
        ),
    ): "no one is a member of a group that does not exist: the next line raises the same",
    (
        "controller/groups/offset_expiry.py",
        (
            "- future = (max(0, first_future_ms - TIMES_BUCKET_MS), _FIRST)\n"
            "+ future = (max(1, first_future_ms - TIMES_BUCKET_MS), _FIRST)"
        ),
    ): "steps are of ten minutes: it tells where the first ten of 1970 are",
    (
        "controller/groups/syncing.py",
        ('- raise UnknownMemberId(f"group {request.group_id!r} has no members: join again")\n+ pass'),
    ): "no one is a member of a group without members: the next line raises the same",
    (
        "controller/transactions/assignments.py",
        (
            "- left = _grouped(set(keys_of(before)) - keys, generations, -1)\n"
            "+ left = _grouped(set(keys_of(before)) - keys, generations, -2)"
        ),
    ): "what is left is of groups whose generations are known",
    (
        "quorum/image_watch.py",
        (
            "- if self._split is None or self._clock() - self._split[1] < SPLIT_S:\n"
            "+ if self._split is None or self._clock() - self._split[1] <= SPLIT_S:"
        ),
    ): "in the very moment of the bound it is said some milliseconds later, by the next look",
    (
        "quorum/firewall.py",
        (
            "- if message.next_index < 1 or message.next_index > self._journal.last_index + 1:\n"
            "+ if message.next_index < 2 or message.next_index > self._journal.last_index + 1:"
        ),
    ): "every log has the same entry 1, so no follower says that it needs it",
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
        "snapshots/image.py",
        (
            "- for at, key in sorted([(self._key(table, key), key) for key in written], key=itemgetter(0)):\n"
            "+ for at, key in sorted([(self._key(table, key), key) for key in written], key=itemgetter(1)):"
        ),
    ): "rows are written faster in their order, and are the same in any",
    (
        "snapshots/reader.py",
        (
            "- env = lmdb.open(str(directory), readonly=True, max_dbs=8, map_size=MAP_BYTES,"
            " readahead=False)\n"
            "+ env = lmdb.open(str(directory), readonly=True, max_dbs=8, map_size=MAP_BYTES, readahead=True)"
        ),
    ): "a hint to the system how it reads: what is read is the same",
    (
        "snapshots/sums.py",
        (
            "- return (0, 0) if applied is None else msgspec.msgpack.decode(applied, type=tuple[int, int])\n"
            "+ return (0, 1) if applied is None else msgspec.msgpack.decode(applied, type=tuple[int, int])"
        ),
    ): "it lies before every entry's position either way: the first index is 1",
    (
        "snapshots/sums.py",
        (
            "- found = sum(row_hash(row_key(0, name, key), value) for name, key, value in reader.rows())\n"
            "+ found = sum(row_hash(row_key(1, name, key), value) for name, key, value in reader.rows())"
        ),
    ): "the generation of a key is not hashed",
    (
        "snapshots/archive_repair.py",
        (
            "- end = sound_part(Segment(wrong.first, path, sealed=True))[0]\n"
            "+ end = sound_part(Segment(wrong.first, path, sealed=False))[0]"
        ),
    ): "a seal says nothing of how far the batches are sound",
    (
        "snapshots/digests.py",
        "- table_prefix(0, table.name),\n+ table_prefix(1, table.name),",
    ): "a row's hash is without the generation",
    (
        "snapshots/segments.py",
        "- _WRITABLE: Final = 0o222\n+ _WRITABLE: Final = 147",
    ): "no file of an archive may be executed",
    (
        "snapshots/segments.py",
        (
            "- epoch, epoch_began = Term(-1), (end, position)\n"
            "+ epoch, epoch_began = Term(-2), (end, position)"
        ),
    ): "no epoch falls before the first batch, which begins where the segment does",
    (
        "snapshots/store.py",
        "- self._must_seal = False\n+ self._must_seal = True",
    ): "before the image is verified nothing is sealed, and that sets it",
    (
        "snapshots/reader.py",
        (
            "- env = lmdb.open(str(directory), readonly=True, max_dbs=8, map_size=MAP_BYTES,"
            " readahead=False)\n"
            "+ env = lmdb.open(str(directory), readonly=True, max_dbs=9, map_size=MAP_BYTES, readahead=False)"
        ),
    ): "the value of a bound: four tables are opened",
}

BOUNDS: Final[dict[str, tuple[str, ...]]] = {
    "broker/log/aborted.py": ("BLOCK_ENTRIES",),
    "broker/log/checkpoints.py": ("EPOCHS_MAX",),
    "broker/log/cleaner.py": ("WRITE_BYTES",),
    "broker/log/durability.py": ("SNAPSHOT_EVERY_BYTES", "SNAPSHOT_EVERY_BATCHES"),
    "broker/log/epoch_check.py": ("LINES_MAX",),
    "broker/log/index_file.py": ("_READ_ENTRIES",),
    "broker/log/producer_state.py": ("VERIFICATIONS_MAX", "PRODUCERS_MAX", "PRODUCERS_FORGOTTEN"),
    "broker/log/search.py": ("PLACES_MAX", "OPEN_SEGMENTS_MAX"),
    "broker/log/segment.py": ("_WALK_BYTES",),
    "broker/log/segment_sums.py": ("COMPARED_BYTES_MAX",),
    "broker/log/unchecked.py": ("CHECKED_AT_ONCE_BYTES",),
    "broker/log/validation.py": ("STEP_BYTES", "PACKED_HERE_BYTES_MAX", "OPENED_HERE_BYTES_MAX"),
    "controller/acl_book.py": ("VERDICTS_MAX", "NAME_REMEMBERED_MAX"),
    "controller/acls.py": ("CHANGES_KEPT",),
    "controller/config_changes.py": ("CHANGES_PER_PART_MAX",),
    "controller/groups/offset_expiry.py": ("DUE_MAX", "LOOKED_MAX", "TOPICS_LOOKED_MAX"),
    "controller/groups/subscriptions.py": ("METADATA_CACHED_MAX",),
    "controller/topic_creation.py": ("ROWS_PER_PART_MAX", "ID_ATTEMPTS_MAX"),
    "controller/transactions/assignments.py": ("OWNERS_MAX",),
    "controller/transactions/expiry.py": ("TIMEOUTS_MAX", "SKEWED_MAX", "EXPIRED_MAX"),
    "quorum/journal.py": ("SLICE_MAX", "READ_TOGETHER", "COMPACTED_MAX"),
    "quorum/linger.py": ("BATCH_TARGET", "RESTS_MAX"),
    "quorum/messages.py": ("REPORTS_MAX", "EARLIER_MAX"),
    "quorum/quarantine.py": ("REASON_CHARACTERS_MAX",),
    "quorum/refusal_log.py": ("REASONS_MAX",),
    "quorum/replica.py": ("TICKS_MAX", "ROWS_UNSAVED_MAX"),
    "quorum/reports.py": ("REPORTS_MAX",),
    "quorum/snapshot_receiver.py": ("SNAPSHOT_BYTES_MAX", "ROWS_PER_SLICE", "FLUSHED_TOGETHER"),
    "quorum/snapshotter.py": ("TAIL_ENTRIES", "TAIL_BYTES"),
    "snapshots/archive.py": ("SEGMENT_BYTES_MAX", "BUFFERED_BYTES_MAX"),
    "snapshots/file_sums.py": ("_PIECE_BYTES",),
    "snapshots/row_ranges.py": ("RANGE_ROWS", "RANGE_ROWS_MAX", "RANGE_BYTES_MAX"),
    "snapshots/reader.py": ("MAP_BYTES",),
    "snapshots/scrub_pace.py": ("BYTES_PER_S", "SLICE_BYTES"),
    "snapshots/segments.py": ("HOLES_MAX", "READ_AHEAD_BYTES"),
    "snapshots/snapshot.py": ("KEPT", "_ROWS_PER_CHUNK", "_RECORDS_PER_BATCH"),
    "snapshots/store.py": ("READERS_MAX",),
}
"""By file: constants that say how much is done, read or remembered at a time. A value beside the one that was
chosen does the same; what happens at the bound has tests, which take the constant or play with a smaller one.
No limit that a client meets, that a page names or that another node relies on is among them."""
