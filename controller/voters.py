"""Voters: which directory holds each node id's vote, and which node leads.

Invariant   a node id is bound to one directory at a time, or to none. A voter that comes back with
            another one has forgotten its votes and its log; it counts for nothing until a new Voters
            record binds its new directory (docs/design.md 4). Two records that follow each other differ by
            one voter.
Source      KIP-853 (VotersRecord, directory ids); Kafka control records.
"""

import uuid
from collections.abc import Mapping
from typing import Final

import msgspec

from fencepost.controller.view import MutableView, Table, View, decode_int_key, encode_int_key
from fencepost.records.control import (
    ControlRecord,
    KRaftVersion,
    LeaderChange,
    Voter,
    VoterRegistration,
    Voters,
)
from fencepost.records.levels import LEADER_CHANGE_0
from fencepost.records.types import NodeId

VOTERS_MAX: Final = 9
KRAFT_VERSION: Final = 1  # KIP-853: voters with directory ids


class Quorum(msgspec.Struct, frozen=True, array_like=True):
    """The voters' directories, and the kraft.version they imply."""

    kraft_version: int = 0
    directories: dict[int, uuid.UUID] = {}


QUORUM: Final[Table[int, Quorum]] = Table("quorum", Quorum, encode_int_key, decode_int_key)


def bindings(view: View) -> dict[NodeId, uuid.UUID]:
    """Node id to directory id, empty before the first leader."""
    quorum = view.get(QUORUM, 0) or Quorum()
    return {NodeId(node): directory for node, directory in quorum.directories.items()}


def decide_leader_change(
    view: View, leader_id: NodeId, voters: Mapping[NodeId, uuid.UUID], log_level: int
) -> tuple[ControlRecord, ...]:
    """The control records of a new leadership; the first one also writes the voters.

    ``voters`` is what the new leader knows of node ids and directories; after the first
    leadership the image's own binding is used. ``log_level``: see ``levels.of_leader``.
    """
    known = bindings(view) or dict(voters)
    version = 0 if log_level >= LEADER_CHANGE_0 else 1
    voting = tuple(
        Voter(voter_id=node, voter_directory_id=known[node] if version else None) for node in sorted(known)
    )
    change = LeaderChange(version=version, leader_id=leader_id, voters=voting)
    if bindings(view):
        return (change,)
    return (change, KRaftVersion(k_raft_version=KRAFT_VERSION), voters_record(known))


def decide_bind(view: View, node_id: NodeId, directory_id: uuid.UUID) -> tuple[ControlRecord, ...]:
    """The next step towards ``node_id`` voting from ``directory_id``; nothing if it does already.

    One voter at a time: first the old directory goes, then, in a decision of its own that sees the
    first one applied, the new one comes (quorum/electorate.py says why).
    """
    bound = bindings(view)
    if bound.get(node_id) == directory_id:
        return ()
    if bound.pop(node_id, None) is None:
        bound[node_id] = directory_id
    return (voters_record(bound),)


def voters_record(directories: Mapping[NodeId, uuid.UUID]) -> Voters:
    """A Voters record in node-id order."""
    return Voters(
        voters=tuple(
            VoterRegistration(voter_id=node, voter_directory_id=directories[node])
            for node in sorted(directories)
        )
    )


def bound_by(record: Voters) -> dict[NodeId, uuid.UUID]:
    """What a Voters record binds; a voter without a directory id is bound to none."""
    return {
        NodeId(v.voter_id): v.voter_directory_id for v in record.voters if v.voter_directory_id is not None
    }


def replay_voters(view: MutableView, record: Voters) -> None:
    """Total. The record holds every voter, so it replaces what was."""
    quorum = view.get(QUORUM, 0) or Quorum()
    bound = {int(node): directory for node, directory in bound_by(record).items()}
    view.put(QUORUM, 0, msgspec.structs.replace(quorum, directories=bound))


def replay_kraft_version(view: MutableView, record: KRaftVersion) -> None:
    """Note the kraft version. Total: a committed record always applies."""
    quorum = view.get(QUORUM, 0) or Quorum()
    view.put(QUORUM, 0, msgspec.structs.replace(quorum, kraft_version=record.k_raft_version))
