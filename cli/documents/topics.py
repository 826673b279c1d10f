"""Documents of commands about topics, settings, users and ACLs."""

from collections.abc import Mapping
from typing import Any, Final

from msgspec import UNSET, UnsetType

from fencepost.cli.documents.base import Document, Part


class TopicNames(Document):
    """``topics list``, and of those that were deleted ``topics delete``."""

    topics: list[str]


class TopicMade(Document):
    """``topics create``; of one that was there already the first two."""

    topic: str
    created: bool
    topic_id: str | UnsetType = UNSET
    partition_count: int | UnsetType = UNSET
    replication_factor: int | UnsetType = UNSET


class Partition(Part):
    """A partition; ``leader`` null: it has none."""

    partition: int
    leader: int | None
    leader_epoch: int
    replicas: list[int]
    isr: list[int]


class Topic(Part):
    """A topic; ``configs``: what was set for it."""

    topic: str
    topic_id: str | None
    partition_count: int
    replication_factor: int
    configs: dict[str, str]
    partitions: list[Partition]


class Topics(Document):
    """``topics describe``."""

    topics: list[Topic]


class TopicAltered(Document):
    """``topics alter``."""

    topic: str
    partition_count: int
    validate_only: bool


class LowWatermark(Part):
    """Where a partition begins."""

    topic: str
    partition: int
    low_watermark: int


class RecordsDeleted(Document):
    """``topics delete-records``."""

    partitions: list[LowWatermark]


class LostTransaction(Part):
    """A transaction that has the recovered partition."""

    transactional_id: str
    producer_id: int
    state: str


class Recovered(Document):
    """``topics recover``; ``committed_offsets`` by group."""

    partition: str
    start_offset: int
    leader_epoch: int | None
    recovered: bool
    reported_end: int | None
    committed_offsets: dict[str, int]
    transactions: list[LostTransaction]


class Synonym(Part):
    """A value that a setting has or could have, and where it is from."""

    name: str
    value: str | None
    source: str


class Setting(Part):
    """A setting, and where its value is from; ``synonyms``: what counts first is first."""

    name: str
    value: str | None
    sensitive: bool
    source: str
    synonyms: list[Synonym]


class UserCredential(Part):
    """A SCRAM credential of a user."""

    user: str
    mechanism: str
    iterations: int


class Settings(Document):
    """``configs describe``: ``users`` of --entity-type users, ``settings`` of others."""

    settings: list[Setting] | UnsetType = UNSET
    users: list[UserCredential] | UnsetType = UNSET


class SettingsAltered(Document):
    """``configs alter``."""

    name: str
    changed: list[str]
    validate_only: bool


class Acl(Part):
    """An ACL, in Kafka's words."""

    resource_type: str
    name: str
    pattern_type: str
    principal: str
    host: str
    operation: str
    permission_type: str


class Acls(Document):
    """``acls``: those that are there, or that were added or removed."""

    acls: list[Acl]


TOPICS: Final[Mapping[str, Any]] = {
    "topics list": TopicNames,
    "topics create": TopicMade,
    "topics describe": Topics,
    "topics alter": TopicAltered,
    "topics delete": TopicNames,
    "topics delete-records": RecordsDeleted,
    "topics recover": Recovered,
    "configs describe": Settings,
    "configs alter": SettingsAltered,
    "acls list": Acls,
    "acls add": Acls,
    "acls remove": Acls,
    "acls import": Acls,
}
