"""The rows that walks read and give: names, Arrow types, what a value means.

Kind        every result row says in ``kind`` what it is: a row of the walk's own ("batch", "copy", "log",
            "turn", "outcome", "producer") or what was found: "finding", "unknown" (the logs that are left
            cannot decide it), "note" (legitimate, worth a line).
Null        a column that does not apply.
Source      ``fencepost.audit.decode.columns`` for the columns of batches and of transaction states.
"""

from typing import Final

import pyarrow as pa

from fencepost.audit.decode.columns import RECORD_BATCHES, TRANSACTION_STATES

AFTER_COORDINATOR: Final = "after coordinator "
"""A finding that a coordinator's log which is too short would explain."""

FINDING: Final = "finding"
UNKNOWN: Final = "unknown"
NOTE: Final = "note"

FOUND: Final = pa.schema(
    [
        ("kind", pa.string()),
        ("check", pa.string()),
        ("rule", pa.string()),
        ("subject", pa.string()),  # what it is about, short
        ("node", pa.int32()),
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("path", pa.string()),
        ("position", pa.int64()),
        ("offset", pa.int64()),  # the first one concerned
        ("end_offset", pa.int64()),  # exclusive; null: one place, or to the end of the log
        ("since_offset", pa.int64()),  # what is wrong came after this one; null: not known
        ("producer_id", pa.int64()),
        ("producer_epoch", pa.int16()),
        ("transactional_id", pa.string()),
        ("at_ms", pa.int64()),
        ("detail", pa.string()),  # one sentence: expected, came
        ("id", pa.string()),  # the same text for the same finding in each run
        # ``id`` of the finding that explains this one; null: none does. Until ``causes`` has seen a row of
        # ``pairs``, maybe AFTER_COORDINATOR and the coordinator's partition, or alone.
        ("cause", pa.string()),
        ("coordinator_partition", pa.int32()),  # of __transaction_state, that decides for this producer
    ]
)

_BATCH: Final = list(RECORD_BATCHES)[5:]  # after topic, partition, path, position, node

COPY_SOURCE: Final = pa.schema(
    [
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("copy", pa.string()),  # the directory, without a slash at its end
        ("rank", pa.int8()),  # 0: a fact of the copy or of its log; 1: a batch
        ("path", pa.string()),  # of a fact the file that says it; "" if none does
        ("position", pa.int64()),  # of a fact 0, or its number in the file
        ("node", pa.int32()),
        # Facts; ``first`` and ``second`` are null where nothing is said:
        #   "segment" base offset, bytes    each ``.log`` of the copy
        #   "torn" valid_end, 1 if last     a segment whose end cannot be read
        #   "hole" first, end               the directory itself says that it lacks these offsets
        #   "log-start" offset              log-start-offset-checkpoint
        #   "high-watermark" offset         replication-offset-checkpoint
        #   "leader-epoch" epoch, start     one line of leader-epoch-checkpoint
        #   "stopped"                       the directory cannot change any more; ``first``: its broker ended
        #                                   cleanly
        #   "compacted"                     the topic is, or once was, configured so, or is internal; never of
        #                                   an archive
        #   "cleaned" offset                cleaner-offset-checkpoint: a log cleaner has been there
        #   "tiered"                        remote.storage.enable: what is below the local start is elsewhere
        #   "untold"                        no metadata was read that would say whether it is compacted
        #   "replica" node                  by the metadata; one row each
        #   "voter" node                    of __cluster_metadata; one row each
        #   "metadata"                      the elections of this partition are known: each unclean one is
        #   "unclean" leader epoch, time    of an election that the metadata says was unclean
        #   "unseen" leader epoch, time     of elections up to this epoch a snapshot of the metadata, of that
        #                                   time, has the result alone: each may have been unclean; and there
        #                                   may have been another topic of that name before
        # Facts of the log stand with each of its copies.
        ("item", pa.string()),
        ("first", pa.int64()),
        ("second", pa.int64()),
        *_BATCH,
    ]
)

COPY_RESULT: Final = pa.schema(
    [
        *COPY_SOURCE,
        # Facts that the walk adds: "span" (first offset, end offset, of what stands in its place), "read"
        # (end offset of all that was read)
        ("place", pa.int64()),  # where in the log the row stands; of a fact -1
        ("flags", pa.int32()),  # FLAG_*: what is out of the ordinary; 0: nothing
        ("due", pa.int64()),  # the offset that was due here; null in front of the first
    ]
)

FLAG_HOLE: Final = 1  # offsets from ``due`` on are missing before it
FLAG_DISPLACED: Final = 2  # its offsets are not those that are due at its place
FLAG_COUNT: Final = 4  # the header's record count is not that of its offsets
FLAG_EPOCH_BACK: Final = 8  # its leader epoch is below that of the batch before
FLAG_EPOCH_FILE: Final = 16  # leader-epoch-checkpoint says another leader epoch
FLAG_OPAQUE: Final = 32  # a wrong checksum, or no batch: its columns are not believed
FLAG_AFTER_UNREAD: Final = 64  # what stands before it could not be read
FLAG_AFTER_CUT: Final = 128  # of these: the segment before it ends in a torn batch
FLAG_UNCOMMITTED: Final = 256  # not known to be committed
FLAG_COMPACTED: Final = 512  # of a compacted log: offsets may be missing, as of right
FLAG_EMPTIED: Final = 1024  # compaction has taken records out of it
FLAG_BEFORE_ELECTION: Final = 8192  # of a coordinator's log: an unclean election cut what followed it
FLAG_AFTER_END: Final = 4096  # a copy of a compacted log ends before it: what followed there may be cleaned
FLAG_STALE: Final = 2048  # of a turn: its marker's epoch was over

_LOG_BATCH: Final = [
    ("size", pa.int32()),
    ("base_offset", pa.int64()),
    ("last_offset", pa.int64()),
    ("leader_epoch", pa.int32()),
    ("attributes", pa.int16()),
    ("base_timestamp_ms", pa.int64()),  # where the log cleaner has been: max_timestamp_ms
    ("max_timestamp_ms", pa.int64()),
    ("base_sequence", pa.int32()),
    ("record_count", pa.int32()),
    ("control_type", pa.int16()),
    ("coordinator_epoch", pa.int32()),
    ("marker_version", pa.int64()),
    ("flags", pa.int32()),
]

COPIES_RESULT: Final = pa.schema(
    [
        *FOUND,
        *_LOG_BATCH,  # kind "batch": the log, each offset once
        # kind "copy", one row for each copy: ``path`` its directory, ``offset`` and ``end_offset`` what it
        # holds, ``stopped``;
        # kind "log", one row each: ``offset`` the first, ``end_offset`` the end of what is known to be
        # committed, ``at_ms`` the latest time that a server wrote, and
        ("unbroken_offset", pa.int64()),  # from here on to ``end_offset`` nothing is missing
        ("log_end", pa.int64()),  # of what was read
        ("first_ms", pa.int64()),  # the latest time of a server at or below ``unbroken_offset``; null: none
        # Of elections that were unclean, or may have been: before which offset each may have cut something
        # off, and when it was, or by when; null: none
        ("cut_offsets", pa.list_(pa.int64())),
        ("cut_times", pa.list_(pa.int64())),
        ("copies", pa.int32()),
        ("stopped", pa.bool_()),  # nothing can follow: a copy to the end is, and all of it is committed
        ("compacted", pa.bool_()),
    ]
)

_PLACE: Final = [
    ("topic", pa.string()),
    ("partition", pa.int32()),
    ("node", pa.int32()),
    ("path", pa.string()),
    ("position", pa.int64()),
]

LOG_SOURCE: Final = pa.schema(
    [
        *_PLACE,
        ("size", pa.int32()),
        ("base_offset", pa.int64()),
        ("last_offset", pa.int64()),
        ("attributes", pa.int16()),
        ("max_timestamp_ms", pa.int64()),
        ("producer_id", pa.int64()),
        ("producer_epoch", pa.int16()),
        ("base_sequence", pa.int32()),
        ("control_type", pa.int16()),
        ("coordinator_epoch", pa.int32()),
        ("marker_version", pa.int64()),
        ("flags", pa.int32()),
    ]
)
"""Rows of ``COPIES_RESULT`` of kind "batch", of any log but the metadata's."""

_TURN: Final = [
    # What a producer left on a partition from one marker to the next, that marker included.
    # ``producer_epoch``, ``offset``, ``node``, ``path``, ``position``, ``at_ms`` are the marker's; of an open
    # one its first batch's.
    ("marker_offset", pa.int64()),  # null: no marker ends it
    ("control_type", pa.int16()),  # 0 abort, 1 commit, -1 emptied by compaction; null: open
    ("coordinator_epoch", pa.int32()),
    ("marker_version", pa.int64()),
    ("data_epoch", pa.int16()),  # of its data; null: it has none
    ("data_offset", pa.int64()),  # the first and the last of its transactional data; null: none
    ("data_last", pa.int64()),
    ("batches", pa.int32()),  # of transactional data
    ("plain_offset", pa.int64()),  # the first batch of it that is data and not transactional; null: none
    ("data_ms", pa.int64()),  # by the producer's clock, the first batch's
    ("written_ms", pa.int64()),  # by servers' clocks: not earlier than this was its first row written
    ("since_offset", pa.int64()),  # of the marker before; null: none
    # FLAG_UNCOMMITTED, _COMPACTED, _STALE; FLAG_HOLE: offsets are missing since the marker before;
    # FLAG_OPAQUE: since then something could not be read that may be a marker
    ("flags", pa.int32()),
    # Of a marker: the first offset of a transaction that is open then, or what follows the marker; of rank 4
    # as the index says it
    ("stable_offset", pa.int64()),
    # Of an ABORT marker beside which none is open: where the next one of another producer begins, the end of
    # what was read if none does; null: not known
    ("next_open_offset", pa.int64()),
    # Of its data the first of a later epoch than ``data_epoch``: a marker should stand before it; null: none
    ("late_offset", pa.int64()),
]

LOG_RESULT: Final = pa.schema([*FOUND, *(each for each in _TURN if each[0] != "since_offset")])
"""Findings, and kind "turn"."""

STORY_SOURCE: Final = pa.schema(
    [
        *(field for field in TRANSACTION_STATES if field.name not in ("fences", "last_producer_epoch")),
        ("flags", pa.int32()),  # of its batch in the log
        ("unbroken_offset", pa.int64()),  # of its log
        ("log_ms", pa.int64()),  # ``at_ms`` of its log
        ("stopped", pa.bool_()),  # of its log
        ("partition_count", pa.int32()),  # of its topic, by the metadata; null: not known
        (
            "now_ms",
            pa.int64(),
        ),  # what open transactions are judged at: given, or the latest ``at_ms`` of any log
    ]
)
"""The transaction states whose batches are in the log (path and position of kind "batch")."""

_OUTCOME: Final = [
    # kind "outcome": one per transaction; topic, partition, offset, path are those of the record that
    # decided it
    ("outcome", pa.int16()),  # 0 abort, 1 commit, 2 still open, -1 not known; producer_epoch: its markers'
    ("data_epoch", pa.int16()),  # of its batches
    ("completed_offset", pa.int64()),  # where its id went on; null: not yet
    ("is_v2", pa.bool_()),  # its markers' epoch is its own
    ("started_ms", pa.int64()),
    ("prepared_ms", pa.int64()),
    ("timeout_ms", pa.int32()),
    # Its coordinator's leader epochs when it was decided and when its id went on (null: not yet): its marker
    # says one of these or one between them.
    ("first_coordinator_epoch", pa.int32()),
    ("last_coordinator_epoch", pa.int32()),
    ("partitions", pa.list_(pa.struct([("topic", pa.string()), ("partition", pa.int32())]))),
    # kind "producer": one per producer id of a transactional id
    ("first_epoch", pa.int16()),  # that the log tells of
    ("last_epoch", pa.int16()),
    ("is_whole", pa.bool_()),  # nothing that came before ``first_epoch`` can be missing
    ("unbroken_offset", pa.int64()),
    ("log_ms", pa.int64()),
]

STORY_RESULT: Final = pa.schema([*FOUND, *_OUTCOME])

PAIRS_SOURCE: Final = pa.schema(
    [
        # The data's partition. Rank 0: kind "log" of it, one row, producer_id -1. Rank 1: kind "producer" of
        # each producer that has a turn or an outcome there; with producer_id -1 kind "copy" of each copy,
        # ``copy`` its path. Rank 2: outcomes, one row for each of their partitions. Rank 3: turns. Rank 4:
        # entries of transaction indexes (.txnindex) of each copy. Rank 5: entries of producer snapshots
        # (.snapshot) of each copy.
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("producer_id", pa.int64()),
        ("rank", pa.int8()),
        ("offset", pa.int64()),  # as theirs is; rank 4: of the marker; rank 5: of the snapshot
        ("producer_epoch", pa.int16()),
        ("node", pa.int32()),
        ("path", pa.string()),
        ("position", pa.int64()),
        ("at_ms", pa.int64()),
        ("end_offset", pa.int64()),  # rank 0 (null: no copy of the log was read), and of a copy
        ("compacted", pa.bool_()),  # rank 0
        ("cut_offsets", pa.list_(pa.int64())),  # rank 0, both, as of kind "log"
        ("cut_times", pa.list_(pa.int64())),
        ("deleted_ms", pa.int64()),  # rank 0: when a topic of that name was deleted last; null: none was
        ("unbroken_offset", pa.int64()),  # ranks 0, 1
        # Rank 0: as of kind "log". Rank 1: of its coordinator's log.
        ("stopped", pa.bool_()),
        # Rank 0: there are coordinators' logs; nothing of any of them is missing, from the beginning on
        # (unbroken from 0, as many as the topic has partitions); all are stopped; from which time of servers
        # on nothing is missing in any of them (the latest ``first_ms``; null: none has one).
        ("coordinators", pa.bool_()),
        ("coordinators_whole", pa.bool_()),
        ("coordinators_stopped", pa.bool_()),
        ("coordinators_ms", pa.int64()),
        ("transactional_id", pa.string()),  # ranks 1, 2
        ("coordinator_partition", pa.int32()),  # ranks 1, 2: of __transaction_state
        *(field for field in _OUTCOME if field[0] not in ("partitions", "unbroken_offset")),
        *(field for field in _TURN if field[0] != "data_epoch"),
        ("copy", pa.string()),  # ranks 4, 5: its directory
        # Rank 4: of the aborted transaction the first offset. Rank 5: of the open one, -1 if there is none.
        ("first_offset", pa.int64()),
    ]
)

PAIRS_RESULT: Final = FOUND

SNAPSHOTS_SOURCE: Final = pa.schema(
    [
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("at", pa.int64()),  # the snapshot's offset; a batch's first
        ("rank", pa.int8()),  # 0: an entry of a producer snapshot; 1: a batch of a producer, or an odd one
        ("node", pa.int32()),
        ("path", pa.string()),
        ("position", pa.int64()),
        ("producer_id", pa.int64()),
        ("producer_epoch", pa.int16()),
        ("last_offset", pa.int64()),  # of an entry: of the producer's last data; -1: none
        ("timestamp_ms", pa.int64()),  # the last one of the producer; of a batch its latest
        ("last_sequence", pa.int32()),  # null of a batch
        ("first_offset", pa.int64()),  # of the transaction that is open; -1: none is; null of a batch
        ("copy_first", pa.int64()),  # the copy holds all from this offset on; null of a batch
        ("base_sequence", pa.int32()),  # null of an entry
        ("coordinator_epoch", pa.int32()),  # of an entry of its last marker; of a batch of a marker
        ("control_type", pa.int16()),  # null of an entry
        ("flags", pa.int32()),  # of a batch in the log; null of an entry
        # Of an entry in a compacted log: the batch that ends at its last offset, where its copy still has
        # that, as the log has it. ``held_producer_id`` -1: no data of a producer; null: there is none.
        ("held_producer_id", pa.int64()),
        ("held_epoch", pa.int16()),
        ("held_sequence", pa.int32()),  # of its first record
        ("held_offset", pa.int64()),  # its first
    ]
)
