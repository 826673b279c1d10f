"""Documents of commands about transactions and groups, and of explain."""

from collections.abc import Mapping
from typing import Any, Final

from msgspec import UNSET, UnsetType

from fencepost.cli.documents.base import Document, Part, SetAside


class ListedTransaction(Part):
    """A transactional id; ``two_phase_open_ms`` null: none of two-phase commit is open."""

    transactional_id: str
    coordinator: int
    producer_id: int
    transaction_state: str
    two_phase_open_ms: int | None
    is_kept: bool


class Transactions(Document):
    """``transactions list``."""

    transactions: list[ListedTransaction]


class Fence(Part):
    """A producer that was fenced, and why; ``timeout_ms``: where that is why.

    ``later_...``: the pair that the id had when it was fenced the next time, or has now.
    """

    at_ms: int
    cause: str
    producer_id: int
    producer_epoch: int
    client_id: str
    later_producer_id: int | None
    later_producer_epoch: int | None
    timeout_ms: int | None


class FencedInstance(Fence):
    """The same, of one of several transactional ids."""

    transactional_id: str


class Assignment(Part):
    """Partitions of a group that the id's producer was assigned, the first of ``count``."""

    group: str
    generation: int
    count: int
    partitions: list[str]


class PendingOffset(Part):
    """An offset that is committed with the transaction."""

    group: str
    topic: str
    partition: int
    offset: int


class PendingOffsets(Part):
    """The first of ``count``."""

    count: int
    offsets: list[PendingOffset]


class DescribedTransaction(Document):
    """``transactions describe``; ``explanation`` null: of a coordinator that is Apache Kafka's."""

    coordinator_id: int
    transactional_id: str
    producer_id: int
    producer_epoch: int
    transaction_state: str
    transaction_timeout_ms: int
    current_transaction_start_time_ms: int | None
    transaction_duration_ms: int | None
    topic_partitions: list[str]
    explanation: str | None
    fences: list[Fence]
    set_aside: list[SetAside]
    pending_offsets: PendingOffsets | None
    assignments: list[Assignment]


class ProducerState(Part):
    """What a partition remembers of a producer."""

    producer_id: int
    producer_epoch: int
    latest_coordinator_epoch: int
    last_sequence: int
    last_timestamp: int
    current_transaction_start_offset: int | None


class Producers(Document):
    """``transactions describe-producers``."""

    producers: list[ProducerState]


class HangingTransaction(Part):
    """One that is open on a partition and that no coordinator will end."""

    topic: str
    partition: int
    producer_id: int
    producer_epoch: int
    coordinator_epoch: int
    start_offset: int
    last_timestamp: int
    duration_min: int


class Hanging(Document):
    """``transactions find-hanging``."""

    hanging: list[HangingTransaction]
    set_aside: list[SetAside]


class Aborted(Document):
    """``transactions abort``."""

    topic: str
    partition: int
    producer_id: int
    producer_epoch: int
    coordinator_epoch: int
    dry_run: bool


class Terminated(Document):
    """``transactions force-terminate``: the state it was in, and who the id's producer is now."""

    transactional_id: str
    transaction_state: str
    producer_id: int
    producer_epoch: int
    dry_run: bool


class Coordinated(Part):
    """A transactional id, as its coordinator has it (docs/explain.md)."""

    transactional_id: str
    coordinator_id: int | None
    coordinator_partition: int | None
    state: str
    producer_id: int
    producer_epoch: int
    timeout_ms: int | None
    started_ms: int | None
    due_ms: int | None
    partitions: list[str]


class ToolCommand(Part):
    """A command that ends a transaction."""

    tool: str
    command: str


class OpenTransaction(Part):
    """A transaction that is open on a partition."""

    producer_id: int
    producer_epoch: int
    start_offset: int
    holds_last_stable_offset: bool
    first_write_ms: int | None
    last_write_ms: int | None
    last_write_ago_ms: int | None
    coordinator_epoch: int | None
    holding: str
    reason: str
    transaction: Coordinated | None
    commands: list[ToolCommand]


class HeldPartition(Part):
    """A partition, and what is open on it."""

    topic: str
    partition: int
    leader: int | None
    last_stable_offset: int | None
    high_watermark: int | None
    behind: int | None
    open: list[OpenTransaction]


class Wedged(Part):
    """A marker that a partition refuses."""

    transactional_id: str
    partition: str
    reason: str
    since_ms: int


class Unanswered(Part):
    """What the cluster or the directories did not say."""

    of: str
    reason: str
    error_code: int | None
    to_do: str


class Explained(Document):
    """``explain``: one of ``bootstrap_server`` and ``directories`` is there."""

    kind: str
    name: str
    at_ms: int
    is_open: bool
    is_complete: bool
    partitions: list[HeldPartition]
    transaction: Coordinated | None
    missing: list[str]
    remembered_on: int | None
    wedged: list[Wedged]
    fences: list[FencedInstance]
    unanswered: list[Unanswered]
    bootstrap_server: str | UnsetType = UNSET
    directories: list[str] | UnsetType = UNSET


class ListedGroup(Part):
    """A group; ``protocol`` null: it exists by its offsets alone."""

    group: str
    type: str
    protocol: str | None
    state: str


class Groups(Document):
    """``groups list``."""

    groups: list[ListedGroup]


class GroupState(Part):
    """A group, with --state. Epochs: with --verbose."""

    group: str
    coordinator_id: str
    assignment_strategy: str | None
    state: str
    members: int
    group_epoch: int | UnsetType | None = UNSET
    target_assignment_epoch: int | UnsetType | None = UNSET


class Member(Part):
    """A member, with --members. What has a default: with --verbose."""

    group: str
    consumer_id: str
    group_instance_id: str | None
    host: str
    client_id: str
    partitions: int
    current_epoch: int | UnsetType | None = UNSET
    current_assignment: str | UnsetType | None = UNSET
    target_epoch: int | UnsetType | None = UNSET
    target_assignment: str | UnsetType | None = UNSET


class GroupOffset(Part):
    """A partition that a group reads. ``leader_epoch``: with --verbose."""

    group: str
    topic: str
    partition: int
    current_offset: int | None
    log_end_offset: int | None
    lag: int | None
    consumer_id: str | None
    host: str | None
    client_id: str | None
    leader_epoch: int | UnsetType | None = UNSET


class DescribedGroups(Document):
    """``groups describe``: one of the three."""

    groups: list[GroupState] | UnsetType = UNSET
    members: list[Member] | UnsetType = UNSET
    offsets: list[GroupOffset] | UnsetType = UNSET


class DeletedGroup(Part):
    """``status``: Successful, or why not."""

    group: str
    status: str


class DeletedGroups(Document):
    """``groups delete``."""

    groups: list[DeletedGroup]


class DeletedOffset(Part):
    """``status``: Successful, or why not; ``partition`` null: of a topic that is not there."""

    topic: str
    partition: int | None
    status: str


class DeletedOffsets(Document):
    """``groups delete-offsets``."""

    partitions: list[DeletedOffset]


class NewOffset(Part):
    """Where a group goes on in a partition."""

    group: str
    topic: str
    partition: int
    new_offset: int


class ResetOffsets(Document):
    """``groups reset-offsets``."""

    offsets: list[NewOffset]


TRANSACTIONS: Final[Mapping[str, Any]] = {
    "transactions list": Transactions,
    "transactions describe": DescribedTransaction,
    "transactions describe-producers": Producers,
    "transactions find-hanging": Hanging,
    "transactions abort": Aborted,
    "transactions force-terminate": Terminated,
    "explain": Explained,
    "groups list": Groups,
    "groups describe": DescribedGroups,
    "groups delete": DeletedGroups,
    "groups delete-offsets": DeletedOffsets,
    "groups reset-offsets": ResetOffsets,
}
