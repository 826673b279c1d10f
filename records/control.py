"""Control records: what the Raft layer itself writes into a Kafka log.

They live in control batches. The key is version i16 = 0 and type i16; the value is a flexible message
whose first field is its own version. Unknown types are ignored, as Kafka does.

Versions  each is read by its own schema, for ever. LeaderChange has two: released Kafka (4.3) reads version 0
         only; version 1, which names directories, is what log level 0 writes (records/levels.py).
Source   Kafka ControlRecordType, LeaderChangeMessage v0 and v1, Snapshot{Header,Footer}Record v0,
         KRaftVersionRecord v0, VotersRecord v0; Kafka ControlRecordUtils.
"""

import struct
from dataclasses import dataclass, field
from typing import ClassVar, Final, TypeAlias
from uuid import UUID

from kio.static.constants import EntityType
from kio.static.primitive import i16

from fencepost.records.invariant import CorruptData, invariant
from fencepost.records.message import read_message, write_message
from fencepost.records.schema import INT16, INT32, INT64, STRING, UINT16, UUID_
from fencepost.records.types import NodeId


@dataclass(frozen=True, slots=True, kw_only=True)
class Voter:
    """A voter of the quorum; ``voter_directory_id`` is None (zeros) where none is known."""

    __type__: ClassVar = EntityType.nested
    __version__: ClassVar[i16] = i16(1)
    __flexible__: ClassVar[bool] = True

    voter_id: NodeId = field(metadata=INT32)
    voter_directory_id: UUID | None = field(default=None, metadata=UUID_)


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaderChange:
    """A leader was elected: the first record of its epoch. Source: LeaderChangeMessage.

    ``version`` 0 has no directories: ``voter_directory_id`` is None in every voter.
    """

    __type__: ClassVar = EntityType.data
    __version__: ClassVar[i16] = i16(1)
    __flexible__: ClassVar[bool] = True
    control_type: ClassVar[int] = 2

    version: int = field(default=1, metadata=INT16)
    leader_id: NodeId = field(metadata=INT32)
    voters: tuple[Voter, ...] = ()
    granting_voters: tuple[Voter, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class _VoterV0:
    """A voter in version 0 of Kafka's LeaderChangeMessage."""

    __type__: ClassVar = EntityType.nested
    __version__: ClassVar[i16] = i16(0)
    __flexible__: ClassVar[bool] = True

    voter_id: NodeId = field(metadata=INT32)


@dataclass(frozen=True, slots=True, kw_only=True)
class _LeaderChangeV0:
    """Version 0 of Kafka's LeaderChangeMessage."""

    __type__: ClassVar = EntityType.data
    __version__: ClassVar[i16] = i16(0)
    __flexible__: ClassVar[bool] = True

    version: int = field(default=0, metadata=INT16)
    leader_id: NodeId = field(metadata=INT32)
    voters: tuple[_VoterV0, ...] = ()
    granting_voters: tuple[_VoterV0, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotHeader:
    """A snapshot begins. The time is that of the last record it contains, in ms."""

    __type__: ClassVar = EntityType.data
    __version__: ClassVar[i16] = i16(0)
    __flexible__: ClassVar[bool] = True
    control_type: ClassVar[int] = 3

    version: int = field(default=0, metadata=INT16)
    last_contained_log_timestamp: int = field(metadata=INT64)


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotFooter:
    """A snapshot ends: without this record it is torn."""

    __type__: ClassVar = EntityType.data
    __version__: ClassVar[i16] = i16(0)
    __flexible__: ClassVar[bool] = True
    control_type: ClassVar[int] = 4

    version: int = field(default=0, metadata=INT16)


@dataclass(frozen=True, slots=True, kw_only=True)
class KRaftVersion:
    """The quorum's own feature level: 0 static voters, 1 voters in the log (KIP-853)."""

    __type__: ClassVar = EntityType.data
    __version__: ClassVar[i16] = i16(0)
    __flexible__: ClassVar[bool] = True
    control_type: ClassVar[int] = 5

    version: int = field(default=0, metadata=INT16)
    k_raft_version: int = field(metadata=INT16)


@dataclass(frozen=True, slots=True, kw_only=True)
class VoterEndpoint:
    """The address of one of a voter's listeners."""

    __type__: ClassVar = EntityType.nested
    __version__: ClassVar[i16] = i16(0)
    __flexible__: ClassVar[bool] = True

    name: str = field(metadata=STRING)
    host: str = field(metadata=STRING)
    port: int = field(metadata=UINT16)


@dataclass(frozen=True, slots=True, kw_only=True)
class KRaftVersionFeature:
    """The levels of the quorum's own feature that a voter supports, both inclusive."""

    __type__: ClassVar = EntityType.nested
    __version__: ClassVar[i16] = i16(0)
    __flexible__: ClassVar[bool] = True

    min_supported_version: int = field(default=0, metadata=INT16)
    max_supported_version: int = field(default=1, metadata=INT16)


@dataclass(frozen=True, slots=True, kw_only=True)
class VoterRegistration:
    """One voter with its directory and endpoints, as the Voters record holds it."""

    __type__: ClassVar = EntityType.nested
    __version__: ClassVar[i16] = i16(0)
    __flexible__: ClassVar[bool] = True

    voter_id: NodeId = field(metadata=INT32)
    voter_directory_id: UUID | None = field(default=None, metadata=UUID_)
    endpoints: tuple[VoterEndpoint, ...] = ()
    k_raft_version_feature: KRaftVersionFeature = KRaftVersionFeature()


@dataclass(frozen=True, slots=True, kw_only=True)
class Voters:
    """Who votes, and from which directory. Source: VotersRecord v0 (KIP-853)."""

    __type__: ClassVar = EntityType.data
    __version__: ClassVar[i16] = i16(0)
    __flexible__: ClassVar[bool] = True
    control_type: ClassVar[int] = 6

    version: int = field(default=0, metadata=INT16)
    voters: tuple[VoterRegistration, ...] = ()


ControlRecord: TypeAlias = LeaderChange | SnapshotHeader | SnapshotFooter | KRaftVersion | Voters

CONTROL_RECORDS: Final[dict[int, type[ControlRecord]]] = {
    LeaderChange.control_type: LeaderChange,
    SnapshotHeader.control_type: SnapshotHeader,
    SnapshotFooter.control_type: SnapshotFooter,
    KRaftVersion.control_type: KRaftVersion,
    Voters.control_type: Voters,
}
"""Every control record by its type. Types 0 and 1 (transaction markers) belong to partition logs."""

_KEY: Final = struct.Struct(">hh")
_VERSION: Final = struct.Struct(">h")
_KEY_VERSION: Final = 0


def encode_control(record: ControlRecord) -> tuple[bytes, bytes]:
    """Key and value of a record for a control batch. Inverse: ``decode_control``.

    Raises   InvariantViolation if a field does not fit its Kafka type.
    """
    key = _KEY.pack(_KEY_VERSION, record.control_type)
    if isinstance(record, LeaderChange) and record.version == 0:
        return key, write_message(_without_directories(record))
    return key, write_message(record)


def decode_control(key: bytes | None, value: bytes | None) -> ControlRecord | None:
    """Inverse of ``encode_control``. None: a type that this version does not know, to be ignored.

    A version above the one known is read as far as it is known: Kafka adds only tagged fields and fields
    at the end. Raises CorruptData.
    """
    if key is None or len(key) < _KEY.size:
        raise CorruptData(f"the key of a control record is {key!r}, expected {_KEY.size} bytes")
    key_version, control_type = _KEY.unpack_from(key)
    if key_version < _KEY_VERSION:
        raise CorruptData(f"the key of a control record has version {key_version}, expected at least 0")
    record_type = CONTROL_RECORDS.get(control_type)
    if record_type is None:
        return None
    if value is None:
        raise CorruptData(f"the control record {record_type.__name__} has no value")
    version = _version(value)
    if version < 0:
        raise CorruptData(f"{record_type.__name__} version {version}, expected at least 0")
    record: ControlRecord
    if record_type is LeaderChange and version == 0:
        old, end = read_message(_LeaderChangeV0, value)
        record = _with_directories(old)
    else:
        record, end = read_message(record_type, value)
    if version <= record_type.__version__ and end != len(value):
        raise CorruptData(f"{len(value) - end} bytes after the control record {record_type.__name__}")
    return record


def _version(value: bytes) -> int:
    """The field that every control record begins with. Raises CorruptData."""
    if len(value) < _VERSION.size:
        raise CorruptData(f"bytes end inside the version of a control record: {value!r}")
    version: int = _VERSION.unpack_from(value)[0]
    return version


def _without_directories(record: LeaderChange) -> _LeaderChangeV0:
    def voters(named: tuple[Voter, ...]) -> tuple[_VoterV0, ...]:
        invariant(
            all(voter.voter_directory_id is None for voter in named),
            "LeaderChange version 0 has no directories",
            voters=named,
        )
        return tuple(_VoterV0(voter_id=voter.voter_id) for voter in named)

    return _LeaderChangeV0(
        leader_id=record.leader_id,
        voters=voters(record.voters),
        granting_voters=voters(record.granting_voters),
    )


def _with_directories(old: _LeaderChangeV0) -> LeaderChange:
    """The record that version 0 stands for. Inverse of ``_without_directories``."""
    return LeaderChange(
        version=0,
        leader_id=old.leader_id,
        voters=tuple(Voter(voter_id=voter.voter_id) for voter in old.voters),
        granting_voters=tuple(Voter(voter_id=voter.voter_id) for voter in old.granting_voters),
    )
