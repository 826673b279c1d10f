"""The columns of every table that is read out of log directories: names, Arrow types, what a value means.

Position    ``node``, ``topic``, ``partition``, ``path``, ``position`` say where a row was read: a finding
            repeats them. ``node`` is meta.properties' node.id (or broker.id), -1 if the directory has none.
Null        a value that the bytes do not have. -1 where Kafka itself writes -1 (no producer, no sequence).
Versions    ``TABLES_VERSION`` is written beside the tables; a table of another version is refused.
Source      Kafka DefaultRecordBatch, TransactionLogValue, ProducerIdsRecord, RegisterBrokerRecord,
            OffsetCommitValue, GroupMetadataValue, ConsumerProtocolAssignment, OffsetCheckpointFile,
            LeaderEpochCheckpointFile, AbortedTxn, ProducerSnapshot, PartitionRecord.
"""

from typing import Final

import pyarrow as pa

TABLES_VERSION: Final = 3

_WHERE: Final = [
    ("node", pa.int32()),
    ("topic", pa.string()),
    ("partition", pa.int32()),
    ("path", pa.string()),  # of the segment, as it was given to the audit
    ("position", pa.int64()),  # of the batch, bytes from the start of the file
]

RECORD_BATCHES: Final = pa.schema(
    [
        *_WHERE,
        ("size", pa.int32()),  # bytes, the header included
        ("base_offset", pa.int64()),
        ("last_offset", pa.int64()),  # inclusive
        ("leader_epoch", pa.int32()),
        ("crc", pa.int64()),  # as written, unsigned
        # Null: sound. "crc": its checksum is wrong, and every other column but path, position and size is
        # what the header says and may be false. "unreadable": ``size`` bytes from ``position`` on are no
        # batch, and what a header would say is null.
        ("fault", pa.string()),
        ("reason", pa.string()),  # of the fault, a sentence
        ("attributes", pa.int16()),
        ("base_timestamp_ms", pa.int64()),
        ("max_timestamp_ms", pa.int64()),
        ("producer_id", pa.int64()),
        ("producer_epoch", pa.int16()),
        ("base_sequence", pa.int32()),
        ("record_count", pa.int32()),
        ("control_type", pa.int16()),  # 0 abort, 1 commit, others as Kafka numbers them; null: data
        ("coordinator_epoch", pa.int32()),  # of a marker
        ("marker_version", pa.int64()),  # fencepost's: image version of the transaction's end
    ]
)
"""One row per record batch of any log, faults included: a batch is never left out in silence."""

PRODUCER_ID_BLOCKS: Final = pa.schema(
    [
        *_WHERE,
        ("source", pa.string()),  # "log", "snapshot" (path names it) or "zookeeper"
        ("offset", pa.int64()),  # of the record; of a snapshot its end offset - 1; of ZooKeeper the zxid
        ("leader_epoch", pa.int32()),
        ("timestamp_ms", pa.int64()),
        ("broker_id", pa.int32()),  # -1: brokers took these ids from ZooKeeper themselves
        ("broker_epoch", pa.int64()),
        # Null: the record says the end only; the block reaches back to the end before it.
        ("block_first", pa.int64()),
        ("block_end", pa.int64()),  # exclusive
    ]
)

BROKERS: Final = pa.schema(
    [
        *_WHERE,
        ("offset", pa.int64()),
        ("timestamp_ms", pa.int64()),
        ("event", pa.string()),  # "registered", "unregistered", "fenced", "unfenced", "shutdown"
        ("broker_id", pa.int32()),
        ("broker_epoch", pa.int64()),
        ("incarnation_id", pa.string()),  # null unless registered
        ("endpoints", pa.string()),  # HOST:PORT, by commas; null unless registered
    ]
)

TOPICS: Final = pa.schema(
    [
        *_WHERE,
        ("offset", pa.int64()),
        ("timestamp_ms", pa.int64()),
        ("event", pa.string()),  # "created", "configured", "deleted"
        ("name", pa.string()),  # null: only the id is known
        ("topic_id", pa.string()),
        ("config_key", pa.string()),
        ("config_value", pa.string()),  # null: set back to the default
    ]
)

TRANSACTION_STATES: Final = pa.schema(
    [
        *_WHERE,
        ("offset", pa.int64()),
        ("leader_epoch", pa.int32()),
        ("timestamp_ms", pa.int64()),  # of the record
        ("transactional_id", pa.string()),
        ("forgotten", pa.bool_()),  # a tombstone: the columns below are null
        # Empty, Ongoing, PrepareCommit, PrepareAbort, CompleteCommit, CompleteAbort, Dead, PrepareEpochFence
        ("state", pa.string()),
        ("producer_id", pa.int64()),
        ("producer_epoch", pa.int16()),
        ("timeout_ms", pa.int32()),
        ("updated_ms", pa.int64()),
        ("started_ms", pa.int64()),  # -1: no transaction
        ("previous_producer_id", pa.int64()),
        ("next_producer_id", pa.int64()),
        ("next_producer_epoch", pa.int16()),
        ("client_transaction_version", pa.int16()),
        ("last_producer_epoch", pa.int16()),  # fencepost's, -1 elsewhere
        ("timed_out", pa.bool_()),
        ("partitions", pa.list_(pa.struct([("topic", pa.string()), ("partition", pa.int32())]))),
        (
            "fences",  # fencepost's, newest last; empty elsewhere
            pa.list_(
                pa.struct(
                    [
                        ("at_ms", pa.int64()),
                        ("cause", pa.string()),
                        ("producer_id", pa.int64()),
                        ("producer_epoch", pa.int16()),
                        ("by", pa.string()),
                    ]
                )
            ),
        ),
    ]
)

OFFSET_COMMITS: Final = pa.schema(
    [
        *_WHERE,
        ("offset", pa.int64()),
        ("timestamp_ms", pa.int64()),
        ("group_id", pa.string()),
        ("commit_topic", pa.string()),
        ("commit_partition", pa.int32()),
        ("committed_offset", pa.int64()),  # null: a tombstone, and so are those below but the producer's
        ("producer_id", pa.int64()),  # of the batch: -1 outside a transaction
        ("producer_epoch", pa.int16()),
        ("topic_id", pa.string()),  # null: not known, as in values before version 4
        ("committed_ms", pa.int64()),  # the coordinator's clock
        ("expires_ms", pa.int64()),  # -1: by the group's retention
        # What follows is fencepost's, of commits in transactions only. -1 and null elsewhere.
        ("generation", pa.int32()),  # that the producer presented, else the group's; -1: it had no members
        ("is_identified", pa.bool_()),  # it presented a generation
        ("member_id", pa.string()),  # as which member
    ]
)

GROUP_GENERATIONS: Final = pa.schema(
    [
        *_WHERE,
        ("offset", pa.int64()),
        ("timestamp_ms", pa.int64()),
        ("group_id", pa.string()),
        ("forgotten", pa.bool_()),  # a tombstone: the columns below are null
        # Empty, Stable; fencepost's log tells PreparingRebalance and CompletingRebalance, too
        ("state", pa.string()),
        ("state_ms", pa.int64()),  # since when; -1: not known
        ("generation", pa.int32()),
        ("protocol_type", pa.string()),
        ("protocol", pa.string()),
        ("leader", pa.string()),
        (
            "members",
            pa.list_(
                pa.struct(
                    [
                        ("member_id", pa.string()),
                        ("instance_id", pa.string()),  # of a static member
                        ("client_id", pa.string()),
                        ("client_host", pa.string()),
                        # Null: none yet, or not that of a consumer
                        (
                            "assignment",
                            pa.list_(pa.struct([("topic", pa.string()), ("partition", pa.int32())])),
                        ),
                    ]
                )
            ),
        ),
    ]
)
"""One row per record that says which members a group has; groups of KIP-848's protocol have none."""

RECORD_FAULTS: Final = pa.schema(
    [
        *_WHERE,
        ("offset", pa.int64()),
        # "record": a record of a sound batch that cannot be read; "compression": its whole batch cannot be
        # opened; "version": the record is written in a version that is not known here
        ("fault", pa.string()),
        ("reason", pa.string()),
    ]
)
"""What a sound batch holds and the decoder cannot read. Metadata of a kind unknown to it is no fault."""

PARTITIONS: Final = pa.schema(
    [
        *_WHERE,
        ("offset", pa.int64()),
        ("timestamp_ms", pa.int64()),
        ("event", pa.string()),  # "created" (or as a checkpoint has it), "changed"
        ("topic_id", pa.string()),
        ("partition_id", pa.int32()),
        # Of a change null: as before.
        ("replicas", pa.list_(pa.int32())),
        ("isr", pa.list_(pa.int32())),
        ("leader", pa.int32()),  # -1: none
        ("leader_epoch", pa.int32()),  # null of a change: one more than before, if it names a leader
        ("recovering", pa.bool_()),  # the leader was elected though it may lack committed records
    ]
)
"""One row per record that says who has a partition. Where the record was read is of the metadata log."""

VOTERS: Final = pa.schema(
    [
        *_WHERE,
        ("offset", pa.int64()),  # -1: the file quorum-state says it
        ("leader_epoch", pa.int32()),
        ("voter_id", pa.int32()),
    ]
)
"""One row per voter of each record, or file, that lists them all: the latest list counts."""

_SUBJECT: Final = [
    *_WHERE,  # topic and partition are those that the row is about
    ("copy", pa.string()),  # the partition's directory
]

OFFSET_CHECKPOINTS: Final = pa.schema(
    [
        *_SUBJECT,
        ("kind", pa.string()),  # "high-watermark", "log-start", "cleaned" or "recovery"
        ("offset", pa.int64()),
    ]
)
"""One row per line of the checkpoints in a log.dirs entry; ``position`` counts them."""

LEADER_EPOCHS: Final = pa.schema([*_SUBJECT, ("epoch", pa.int32()), ("start_offset", pa.int64())])
"""One row per line of a leader-epoch-checkpoint."""

ABORTED_TRANSACTIONS: Final = pa.schema(
    [
        *_SUBJECT,
        ("producer_id", pa.int64()),
        ("first_offset", pa.int64()),
        ("last_offset", pa.int64()),  # of the marker
        ("last_stable_offset", pa.int64()),
    ]
)
"""One row per entry of a .txnindex."""

PRODUCER_STATES: Final = pa.schema(
    [
        *_SUBJECT,
        ("offset", pa.int64()),  # of the file's name: what is before it made the state
        ("producer_id", pa.int64()),
        ("producer_epoch", pa.int16()),
        ("last_sequence", pa.int32()),
        ("last_offset", pa.int64()),
        ("offset_delta", pa.int32()),
        ("timestamp_ms", pa.int64()),
        ("coordinator_epoch", pa.int32()),
        ("first_offset", pa.int64()),  # of the transaction that is open; -1: none is
    ]
)
"""One row per entry of a producer snapshot."""

DIRECTORIES: Final = pa.schema(
    [
        *_SUBJECT,  # ``copy`` of a log.dirs entry that entry; null of a registration
        # "partition" (partition.metadata: of which topic it is), "log-dir" (meta.properties: of which node),
        # "registered" (the metadata log: which entry of log.dirs a broker has), "cluster" (meta.properties:
        # of which cluster)
        ("kind", pa.string()),
        ("broker_id", pa.int32()),  # null of a partition
        ("identifier", pa.string()),  # of a partition the topic's, of a cluster cluster.id, else directory.id
    ]
)
"""One row per directory that says what it is, and per directory that a broker has registered."""

FILES: Final = pa.schema(
    [
        ("node", pa.int32()),
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("path", pa.string()),
        # "segment", "checkpoint" (snapshot), "zookeeper-export", "hole" (``size`` offsets that holes.json
        # in the directory names, ``base_offset`` the first), "directory" (one that could not be listed, or
        # that is no copy: ``reason`` says why), "offset-checkpoint", "leader-epochs", "transaction-index",
        # "producer-snapshot", "quorum-state", "partition-metadata", "properties", "clean-shutdown" (that it
        # is there is what it says), "unread" (``size`` files of a suffix in a partition's directory, that no
        # reader of the audit looks at)
        ("kind", pa.string()),
        ("base_offset", pa.int64()),  # of the name; of a hole its first offset; null for an export
        ("size", pa.int64()),  # bytes when it was listed; of a hole offsets
        ("valid_end", pa.int64()),  # bytes from 0 that were walked
        # "end": all of it. "preallocated": zeros from valid_end on. "torn": a batch begins there and the file
        # ends in it. "truncated": it was longer when it was last read. "unreadable": see reason (permission,
        # vanished, I/O).
        ("stop", pa.string()),
        ("reason", pa.string()),
        # No segment with a higher base offset: it may still be written to.
        ("last_of_partition", pa.bool_()),
    ]
)
"""One row per file that was found, as the last ingest left it."""

TABLES: Final = {
    "record_batches": RECORD_BATCHES,
    "producer_id_blocks": PRODUCER_ID_BLOCKS,
    "brokers": BROKERS,
    "topics": TOPICS,
    "transaction_states": TRANSACTION_STATES,
    "offset_commits": OFFSET_COMMITS,
    "group_generations": GROUP_GENERATIONS,
    "record_faults": RECORD_FAULTS,
    "partitions": PARTITIONS,
    "voters": VOTERS,
    "offset_checkpoints": OFFSET_CHECKPOINTS,
    "leader_epochs": LEADER_EPOCHS,
    "aborted_transactions": ABORTED_TRANSACTIONS,
    "producer_states": PRODUCER_STATES,
    "directories": DIRECTORIES,
    "files": FILES,
}
