"""Domain types: names for the integers that must not be mixed up.

Source   Raft (Ongaro 2014) for term and index; Kafka's schemas for the rest.
"""

import enum
from typing import Final, NewType

NodeId = NewType("NodeId", int)  # i32, a voter of the quorum
BrokerId = NewType("BrokerId", int)  # i32, >= 0; in a combined process equal to the node id
BrokerEpoch = NewType("BrokerEpoch", int)  # i64, the offset of the broker's RegisterBrokerRecord
ProducerId = NewType("ProducerId", int)  # i64, 0 .. PRODUCER_ID_MAX
Term = NewType("Term", int)  # Raft term; on Kafka's wire the leader epoch (i32)
LogIndex = NewType("LogIndex", int)  # position of an entry in the Raft log, from 1
Offset = NewType("Offset", int)  # position of a record in one of the three Kafka logs, from 0
ImageVersion = NewType("ImageVersion", int)  # +1 per applied entry, from 0
ProposalNumber = NewType("ProposalNumber", int)  # counts one node's proposals in one process life

PRODUCER_ID_MAX: Final = 2**63 - 1
"""The largest int64. As an exclusive end it may be reached, never passed (A1: first <= MAX - length)."""


class Log(enum.IntEnum):
    """The three Kafka logs that one Raft log carries. The value is the tag in an entry."""

    METADATA = 0
    TRANSACTION_STATE = 1
    CONSUMER_OFFSETS = 2

    @property
    def directory(self) -> str:
        """Name of the log's directory, as Kafka names ``topic-partition`` directories."""
        return _DIRECTORIES[self]


LOGS: Final = tuple(Log)
"""By their values: an enumeration takes longer to walk, and to find a member in."""

_DIRECTORIES: Final = {
    Log.METADATA: "__cluster_metadata-0",
    Log.TRANSACTION_STATE: "__transaction_state-0",
    Log.CONSUMER_OFFSETS: "__consumer_offsets-0",
}
