"""What a client of Kafka's brokers sends and receives, by one import.

Requests and responses whose fields decisions read are defined in ``controller/``; an application's client
(``client/``) knows them by these names alone, and knows nothing else of a node.
"""

from fencepost.controller.errors import ApiError, ErrorCode, UnsupportedVersion
from fencepost.controller.feature_updates import Direction, FeatureUpdate, UpdateFeatures
from fencepost.controller.group_errors import MemberIdRequired
from fencepost.controller.groups.describe import (
    DescribedGroup,
    DescribeGroups,
    DescribeGroupsAnswer,
    ListedGroup,
    ListGroups,
)
from fencepost.controller.groups.heartbeat import HeartbeatGroup
from fencepost.controller.groups.identity import Identity
from fencepost.controller.groups.joining import JoinGroup, JoinGroupAnswer
from fencepost.controller.groups.leaving import LeaveGroup, Leaver
from fencepost.controller.groups.offset_messages import (
    AddOffsets,
    CommitOffsets,
    CommitTransactionOffsets,
    DeleteGroups,
    DeleteOffsets,
    FetchedGroup,
    FetchOffsets,
    FetchOffsetsAnswer,
    GroupQuery,
    OffsetToCommit,
    PartitionCodes,
)
from fencepost.controller.groups.syncing import SyncGroup, SyncGroupAnswer
from fencepost.controller.topics import CreateTopics, DeleteTopics, NewTopic, TopicConfig
from fencepost.controller.transactions.add_partitions import (
    AddPartitions,
    AddPartitionsToTxn,
    AddPartitionsToTxnAnswer,
)
from fencepost.controller.transactions.describe import (
    DescribedTransaction,
    DescribeTransactions,
    ListedTransaction,
    ListTransactions,
    ListTransactionsAnswer,
)
from fencepost.controller.transactions.end_txn import EndTxn, EndTxnAnswer
from fencepost.controller.transactions.group_init import MemberAssignment
from fencepost.controller.transactions.init_request import InitProducerId, InitProducerIdAnswer
from fencepost.records.transaction_log import TopicPartitions

__all__ = [
    "AddOffsets",
    "AddPartitions",
    "AddPartitionsToTxn",
    "AddPartitionsToTxnAnswer",
    "ApiError",
    "CommitOffsets",
    "CommitTransactionOffsets",
    "CreateTopics",
    "DeleteGroups",
    "DeleteOffsets",
    "DeleteTopics",
    "DescribeGroups",
    "DescribeGroupsAnswer",
    "DescribeTransactions",
    "DescribedGroup",
    "DescribedTransaction",
    "Direction",
    "EndTxn",
    "EndTxnAnswer",
    "ErrorCode",
    "FeatureUpdate",
    "FetchOffsets",
    "FetchOffsetsAnswer",
    "FetchedGroup",
    "GroupQuery",
    "HeartbeatGroup",
    "Identity",
    "InitProducerId",
    "InitProducerIdAnswer",
    "JoinGroup",
    "JoinGroupAnswer",
    "LeaveGroup",
    "Leaver",
    "ListGroups",
    "ListTransactions",
    "ListTransactionsAnswer",
    "ListedGroup",
    "ListedTransaction",
    "MemberAssignment",
    "MemberIdRequired",
    "NewTopic",
    "OffsetToCommit",
    "PartitionCodes",
    "SyncGroup",
    "SyncGroupAnswer",
    "TopicConfig",
    "TopicPartitions",
    "UnsupportedVersion",
    "UpdateFeatures",
]
