"""Log levels: a number for every change of bytes in the log, in snapshots, in image rows or in private APIs.

The level in force is a row of the image (controller/levels.py): what a leader writes follows it, so nodes of
this version and of an older one work together until an operator raises it. Each change has a name here, the
level from which on it is written; what was written below it is read for ever.

  0   what the first version wrote; there is no row.
  1   LeaderChange records have version 0, the one that Apache Kafka reads.
  2   ``__consumer_offsets`` is written, in entries of a layout of their own (records/entry.py).
  3   the feature ``transaction.version`` may be above 0: any leader serves clients of transactions V2.
  4   two-phase commit (KIP-939): a transaction may have no timeout, and may be kept by another instance than
      the one that began it: the row then has that one's pair beside the transaction's.
  5   group-aware InitProducerId (KIP-447): a transactional id has assignments of groups, and the first offset
      that a transaction commits names its transactional id.
  6   a partition whose log is lost may be started again, empty: PartitionChangeRecord, and a table of the
      offsets at which such partitions start. No bytes: every version that reads this level seals its image
      (snapshots/sums.py), so an image at this level without a seal is a damaged one.
  7   no bytes: every broker takes changed settings of a topic, and its new partitions, while it runs.
  8   ACLs are in the metadata log: AccessControlEntryRecord, RemoveAccessControlEntryRecord, their tables.
      No bytes: every broker cleans the logs of compacted topics, so topics may be compacted.
  9   what brokers report of their partitions is kept: where each log ends, and which are offline, in a tag of
      BrokerRegistrationChangeRecord and two tables.
  10  users' SCRAM credentials are in the metadata log: UserScramCredentialRecord,
      RemoveUserScramCredentialRecord, their table.
  11  brokers have settings in the metadata log: ConfigRecord of resource type 4, and their table. No bytes:
      every broker obeys all topic settings of Kafka's that can be set here.

Source   the same purpose as Kafka's ``metadata.version``, for what Kafka does not know of.
"""

from typing import Final

LEVEL_MAX: Final = 11
"""The highest level that this version reads and writes."""

LEADER_CHANGE_0: Final = 1
"""From this level on a LeaderChange is written in version 0."""

GROUP_LOG: Final = 2
"""From this level on ``__consumer_offsets`` is written, and an entry may hold several batches of it."""

TRANSACTIONS_V2: Final = 3
"""From this level on every voter serves EndTxn version 5, so clients may learn of it (KIP-890)."""

TWO_PHASE_COMMIT: Final = 4
"""From this level on every voter decides by the client's pair where it is not the transaction's (KIP-939)."""

GROUP_AWARE_INIT: Final = 5
"""From this level on every voter keeps what a group-aware InitProducerId was given (KIP-447)."""


PARTITION_RECOVERY: Final = 6
"""From this level on every voter keeps at which offset a lost partition was started again."""

SEALED_IMAGES: Final = 6
"""From this level on every voter's image has a seal."""

CHANGED_TOPICS: Final = 7
"""From this level on the settings of a topic and its number of partitions may be changed."""

ACLS: Final = 8
"""From this level on every voter keeps the ACLs of the metadata log."""

COMPACTED_TOPICS: Final = 8
"""From this level on every broker obeys ``cleanup.policy=compact`` and what belongs to it."""

PARTITION_REPORTS: Final = 9
"""From this level on every voter keeps what brokers report of their partitions."""

SCRAM_USERS: Final = 10
"""From this level on every voter keeps the SCRAM credentials of the metadata log."""

SETTINGS_OF_BROKERS: Final = 11
"""From this level on every voter keeps settings of brokers, and every broker obeys them."""


class LevelTooHigh(Exception):
    """What is to be read belongs to a later version. It is sound: only this node must be upgraded."""

    def __init__(self, what: str, level: int, level_max: int = LEVEL_MAX) -> None:
        super().__init__(
            f"{what} has log level {level}, this node reads levels up to {level_max}: upgrade this node"
        )
        self.level = level
