"""Whose votes and acks count: node ids bound to directory ids (docs/design.md 4, KIP-853).

A voter that comes back with another directory has forgotten what it voted and what it acknowledged.
It neither votes nor is counted until it is readmitted, in two steps of one voter each (Raft thesis §4.1:
majorities before and after such a step always meet, so no joint consensus is needed): a Voters record
without the old directory; and, once that is applied and the node holds the log up to the commit index,
one that binds the new directory. As there, the latest Voters record in the log counts, applied or not,
and the next step waits until the last one is applied. As there, too, a vote is given to a candidate whose
log is later than ours even if ours does not count it, and by a voter whose log does not bind it yet if
the candidate's does: who counts is the candidate's to say, and its records were committed without them.

First start   no node is bound. ``initial`` (written by ``storage format``) binds all voters; without
              it, the nodes bind each other once all of them are connected and all are empty.
"""

import uuid
from collections.abc import Callable

import msgspec

from fencepost.controller import voters
from fencepost.controller.view import View
from fencepost.quorum.journal import REGULAR, Journal
from fencepost.quorum.replica_config import ReplicaConfig
from fencepost.records.control import Voters
from fencepost.records.entry import decode_entry, decode_records, holds_controls
from fencepost.records.invariant import invariant
from fencepost.records.types import LogIndex, NodeId
from fencepost.snapshots.store import Store

Bindings = dict[NodeId, uuid.UUID]

_INITIAL = "bootstrap.voters"


class Electorate:
    """The bindings this node knows, and the directories its peers say they have."""

    def __init__(
        self, config: ReplicaConfig, store: Store, journal: Journal, applied_index: Callable[[], LogIndex]
    ) -> None:
        node_id, voter_ids = config.node_id, config.voter_ids
        invariant(node_id in voter_ids, "a node outside its own quorum", node_id=node_id)
        self._node_id = node_id
        self._voter_ids = voter_ids
        self._store = store
        self._journal = journal
        self._applied_index = applied_index
        self.directories: Bindings = {node_id: config.directory_id}  # what each node says it has
        self._unbound_peers: set[NodeId] = set()  # connected, and bound to nothing themselves
        self._scanned: tuple[tuple[int, int | None], list[Bindings]] = ((0, None), [])
        self._row: tuple[voters.Quorum | None, Bindings] = (None, {})  # the image's row, and what it binds
        raw = store.meta_get(_INITIAL)
        self._initial: Bindings = {}
        if raw is not None:
            self._initial = msgspec.msgpack.decode(raw, type=dict[NodeId, uuid.UUID], strict=False)
        elif config.initial_voters:
            self._adopt(dict(config.initial_voters))
        elif voter_ids == {node_id}:
            self._adopt({node_id: config.directory_id})

    @property
    def image(self) -> View:
        """The image whose Voters record binds."""
        return self._store.image

    def bound(self) -> Bindings:
        """The binding in force: the image's, or before its first Voters record the initial one."""
        row = self.image.get(voters.QUORUM, 0)
        if row is None:
            return self._initial
        if row is not self._row[0]:
            self._row = (row, voters.bindings(self.image))
        return self._row[1] or self._initial

    @property
    def may_vote(self) -> bool:
        """This node's own directory is bound."""
        return self.counts(self._node_id)

    def counts(self, peer: NodeId) -> bool:
        """The directory that ``peer`` has is the one it is bound to, by the latest record in the log."""
        directory = self.directories.get(peer)
        return directory is not None and self.bound_to(peer) == directory

    def bound_to(self, peer: NodeId) -> uuid.UUID | None:
        """The directory of ``peer`` by the latest record in the log; None: it has none that counts."""
        unapplied = self._unapplied()
        return (unapplied[-1] if unapplied else self.bound()).get(peer)

    def is_own(self, directory: uuid.UUID | None) -> bool:
        """It is this node's directory."""
        return directory == self.directories[self._node_id]

    def _unapplied(self) -> list[Bindings]:
        """Bindings of Voters records in the log after the applied index; empty almost always."""
        _, last, term = self._journal[-1]
        first = self._applied_index() + 1
        if first > last:
            return []
        if self._scanned[0] != (last, term):  # by log matching it stands for everything before it
            found: list[Bindings] = []
            for index in range(first, last + 1):
                entry = self._journal.entry_at(index)
                if entry is not None and entry[0][:1] == REGULAR:
                    found += _bindings_in(entry[0][1:])
            self._scanned = ((last, term), found)
        return self._scanned[1]

    def met(self, peer: NodeId, directory: uuid.UUID, bound: Bindings) -> None:
        """A peer connected: its directory, and the bindings it knows. May end the first start."""
        self.directories[peer] = directory
        if bound:
            self._unbound_peers.discard(peer)
        else:
            self._unbound_peers.add(peer)
        if self.bound():
            return
        if bound.get(self._node_id) == self.directories[self._node_id]:
            self._adopt(bound)  # it knows this very directory, so nothing was forgotten here
        elif self._unbound_peers | {self._node_id} == self._voter_ids:
            self._adopt(dict(self.directories))

    def _adopt(self, bound: Bindings) -> None:
        self._initial = bound
        raw = msgspec.msgpack.encode({int(node): directory for node, directory in sorted(bound.items())})
        self._store.meta_put(_INITIAL, raw)


def _bindings_in(payload: bytes) -> list[Bindings]:
    if not holds_controls(payload):
        return []  # every ack of a busy leader comes this way: do not decode what cannot bind
    return [
        voters.bound_by(record)
        for batch in decode_records(decode_entry(payload))
        if batch.control
        for record in batch.records
        if isinstance(record, Voters)
    ]
