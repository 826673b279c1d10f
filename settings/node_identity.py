"""Whose directory is this? The identity that ``storage format`` writes and a node starts only with.

Files       ``meta.properties``: cluster id, node id, directory id (meta_properties.py).
            ``bootstrap.json``: the voters' directory ids at the cluster's birth, and the log level that it is
            born at, {"voters": {"1": "<id>"}, "log_level": 1}; no level is 0. With SCRAM users (``users``) it
            is a secret. Without the file the directory belongs to a broker, or to a voter to be readmitted.
            Once the node has a store, which knows what the file said, one that cannot be read is removed.
Directory   ``directory.id`` names the directory and its partition logs. Only ``storage format`` gives one.
Voter       ``fencepost.voter.id`` names the store: who votes. It is written once it is another id.
Store       once the node has a store, meta.properties says so, and the store says whose it is: a node whose
            store is gone forgot its votes, so it comes back as a new voter, never as the one it was. Its
            directory, and with it the partition logs, is the same as before.
Older       versions know no voter id. They are made to find a lost store, or another's, and take part as no
            one that has voted: a new voter is written as one whose store is lost.
Killed      at any line: ``meta.properties`` is written last, by rename, so a directory is formatted or not.
Ids         cluster and directory ids are random UUIDs, written as Kafka does: 22 characters of URL-safe
            base64 without padding.
Source      Kafka ``MetaProperties`` v1, ``kafka-storage.sh format``.
"""

import base64
import binascii
import json
import uuid
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final
from uuid import UUID

from fencepost.records.levels import LEVEL_MAX
from fencepost.records.named_errors import why
from fencepost.records.schema import UserScramCredentialRecord
from fencepost.records.types import NodeId
from fencepost.settings.born_users import read_users, written_user
from fencepost.settings.durable_file import write_durably
from fencepost.settings.meta_properties import (
    COPY,
    META_PROPERTIES,
    read_bounded,
    read_properties,
    write_properties,
)

BOOTSTRAP: Final = "bootstrap.json"
ID_CHARACTERS: Final = 22
# Kafka's readers of this file skip what they do not know.
_HAS_STORE: Final = "fencepost.has.store"
_VOTER_ID: Final = "fencepost.voter.id"
_NO_STORE_YET: Final = "fencepost.voter.has.no.store"  # beside the former, for a new voter: see Older
_RESERVED: Final = frozenset(UUID(int=number) for number in range(100))  # as in Kafka's DirectoryId


class StorageError(Exception):
    """A node directory cannot be used as it is. Says what was found and what to type."""


class NotFormatted(StorageError):
    """There is no identity in the directory, or not a whole one."""


class StoreLost(StorageError):
    """The directory had a store, and has not the same one now: what the node promised is forgotten."""


class ForeignDirectory(StorageError):
    """The directory belongs to another node or another cluster."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Identity:
    """Who the directory says it is. ``initial_voters`` is None in a directory formatted without them."""

    cluster_id: str
    node_id: NodeId
    directory_id: UUID
    voter_id: UUID  # of the store: what Raft's peers and Voters records call the voter's directory
    initial_voters: dict[NodeId, UUID] | None
    log_level: int = 0  # of a cluster that is born with ``initial_voters``
    users: tuple[UserScramCredentialRecord, ...] = ()  # the same
    has_store: bool = False
    bootstrap_fault: str = ""  # why bootstrap.json could not be read; the store knows what it said
    meta_fault: str = ""  # what is wrong with meta.properties, or with its copy, and which of them counts
    is_meta_checked: bool = field(default=True, compare=False)  # False: an earlier version wrote it


def random_id() -> UUID:
    """A new cluster or directory id. As in Kafka none is reserved and none begins with a dash."""
    while True:
        candidate = uuid.uuid4()
        if candidate not in _RESERVED and not id_text(candidate).startswith("-"):
            return candidate


def id_text(identifier: UUID) -> str:
    """22 characters of URL-safe base64. Inverse: ``parse_id``."""
    return base64.urlsafe_b64encode(identifier.bytes).rstrip(b"=").decode("ascii")


def parse_id(text: str) -> UUID:
    """Inverse of ``id_text``. Raises ValueError that says what an id looks like."""
    try:
        identifier = UUID(bytes=base64.b64decode(text + "==", altchars=b"-_", validate=True))
    except (ValueError, binascii.Error):
        identifier = None
    if identifier is None or id_text(identifier) != text:
        raise ValueError(f"expected an id of {ID_CHARACTERS} base64 characters, got {text[:80]!r}")
    return identifier


def format_directory(
    path: Path,
    cluster_id: str,
    node_id: NodeId,
    *,
    directory_id: UUID | None = None,
    initial_voters: Mapping[NodeId, UUID] | None = None,
    users: tuple[UserScramCredentialRecord, ...] = (),
    ignore_formatted: bool = False,
) -> Identity:
    """Give an empty or new directory its identity, durably.

    ``ignore_formatted``: a directory that already belongs to this cluster and node is left as it is.
    Raises ForeignDirectory if it belongs to someone, StorageError if it holds anything else.
    """
    if (path / META_PROPERTIES).exists():
        found = read_identity(path)
        if ignore_formatted:
            require_identity(path, found, cluster_id=cluster_id, node_id=node_id)
            return found
        raise ForeignDirectory(
            f"{path} is already formatted, for node {found.node_id} of cluster {found.cluster_id}; "
            f"use another directory, or remove this one if its contents are not needed"
        )
    path.mkdir(parents=True, exist_ok=True)
    unexpected = sorted(each.name for each in path.iterdir() if each.name not in _LEFTOVERS)
    if unexpected:
        names = ", ".join(unexpected[:5])
        raise StorageError(f"{path} is not empty: it holds {names}; use another directory")
    parse_id(cluster_id)
    directory_id = directory_id or random_id()
    identity = Identity(
        cluster_id=cluster_id,
        node_id=node_id,
        directory_id=directory_id,
        voter_id=directory_id,
        initial_voters=dict(initial_voters) if initial_voters is not None else None,
        log_level=0 if initial_voters is None else LEVEL_MAX,
        users=() if initial_voters is None else users,
    )
    if identity.initial_voters is not None:
        voters = {str(voter): id_text(each) for voter, each in sorted(identity.initial_voters.items())}
        content: dict[str, Any] = {"voters": voters, "log_level": identity.log_level}
        if identity.users:
            content["users"] = [written_user(each) for each in identity.users]
        mode = 0o600 if identity.users else 0o644
        write_durably(path / BOOTSTRAP, json.dumps(content) + "\n", mode=mode)
    else:
        (path / BOOTSTRAP).unlink(missing_ok=True)
    _write_meta(path, identity)
    return identity


def remember_store(path: Path, identity: Identity) -> None:
    """From now on the node starts only with the store that it has. Durable; call before it takes part."""
    _write_meta(path, replace(identity, has_store=True))


def mended(path: Path, identity: Identity) -> Identity:
    """The same, once meta.properties is as this version writes it; on a full disk it stays as it is.

    A bootstrap.json that cannot be read, and that the store makes up for, is removed.
    """
    with suppress(OSError):
        if identity.meta_fault or not identity.is_meta_checked:
            _write_meta(path, identity)
        if identity.bootstrap_fault:
            (path / BOOTSTRAP).unlink(missing_ok=True)
    return replace(identity, meta_fault="", is_meta_checked=True, bootstrap_fault="")


def without_store(path: Path, identity: Identity) -> Identity:
    """The identity once the store is gone: a new voter, to be readmitted, in the old directory. Durable."""
    renewed = replace(identity, voter_id=random_id(), initial_voters=None, log_level=0, has_store=False)
    renewed = replace(renewed, users=())
    (path / BOOTSTRAP).unlink(missing_ok=True)  # first: killed here, the store is found missing again
    _write_meta(path, renewed)
    return renewed


def of_restored(path: Path, identity: Identity, cluster_id: str, voter_id: UUID) -> Identity:
    """The identity in a restored cluster: a voter without a store yet, in the old directory. Durable."""
    renewed = replace(identity, voter_id=voter_id, initial_voters=None, log_level=0, has_store=False)
    renewed = replace(renewed, cluster_id=cluster_id, users=())
    (path / BOOTSTRAP).unlink(missing_ok=True)
    _write_meta(path, renewed)
    return renewed


def _write_meta(path: Path, identity: Identity) -> None:
    meta = {
        "version": "1",
        "cluster.id": identity.cluster_id,
        "node.id": str(identity.node_id),
        "directory.id": id_text(identity.directory_id),
    }
    is_new_voter = identity.voter_id != identity.directory_id
    if identity.has_store or is_new_voter:
        meta[_HAS_STORE] = "true"
    if is_new_voter:
        meta[_VOTER_ID] = id_text(identity.voter_id)
        if not identity.has_store:
            meta[_NO_STORE_YET] = "true"
    write_properties(path, meta)


_LEFTOVERS: Final = {BOOTSTRAP, COPY, *(f"{name}.part" for name in (BOOTSTRAP, COPY, META_PROPERTIES))}
"""Of a format that was killed."""


def read_identity(path: Path) -> Identity:
    """Read the identity of a formatted directory. Raises NotFormatted."""
    file = path / META_PROPERTIES
    if not file.exists():
        raise NotFormatted(
            f"{path} is not formatted (no {META_PROPERTIES}); "
            f"type: fencepost storage format --config FILE --cluster-id ID"
        )
    try:
        pairs, meta_fault, is_checked = read_properties(path)
        if pairs["version"] != "1":
            raise ValueError(f"expected version=1, got version={pairs['version']}")
        parse_id(pairs["cluster.id"])
        has_store = pairs.get(_HAS_STORE) == "true" and pairs.get(_NO_STORE_YET) != "true"
        (initial_voters, log_level, users), fault = _bootstrap(path / BOOTSTRAP, has_store=has_store)
        return Identity(
            cluster_id=pairs["cluster.id"],
            node_id=NodeId(int(pairs["node.id"])),
            directory_id=parse_id(pairs["directory.id"]),
            voter_id=parse_id(pairs.get(_VOTER_ID, pairs["directory.id"])),
            initial_voters=initial_voters,
            log_level=log_level,
            users=users,
            has_store=has_store,
            bootstrap_fault=fault,
            meta_fault=meta_fault,
            is_meta_checked=is_checked,
        )
    except KeyError as missing:
        raise NotFormatted(f"{file}: {missing.args[0]} is missing") from None
    except (OSError, ValueError) as error:
        raise NotFormatted(f"{file}: {why(error)}") from error


def require_identity(path: Path, found: Identity, *, cluster_id: str | None, node_id: NodeId) -> None:
    """Raises ForeignDirectory unless ``found`` is this node's, and this cluster's if that is known."""
    if found.node_id != node_id:
        raise ForeignDirectory(
            f"{path} belongs to node {found.node_id}, but the configuration says node.id={node_id}; "
            f"set log.dirs to this node's own directory"
        )
    if cluster_id is not None and found.cluster_id != cluster_id:
        raise ForeignDirectory(
            f"{path} belongs to cluster {found.cluster_id}, not {cluster_id}; use this cluster's directory"
        )


_Bootstrap = tuple[dict[NodeId, UUID] | None, int, tuple[UserScramCredentialRecord, ...]]


def _bootstrap(file: Path, *, has_store: bool) -> tuple[_Bootstrap, str]:
    """What the file says; what is wrong with it, if a store, which knows what it said, makes up for it.

    Raises NotFormatted.
    """
    try:
        return _read_bootstrap(file), ""
    except (OSError, ValueError) as error:
        if has_store:
            return (None, 0, ()), f"{file}: {why(error)}"
        raise NotFormatted(
            f"{file}: {why(error)}. It is the same in the directory of each first voter: copy it from "
            "another one"
        ) from error


def _read_bootstrap(file: Path) -> _Bootstrap:
    if not file.exists():
        return None, 0, ()
    content = json.loads(read_bounded(file))
    voters = content.get("voters") if isinstance(content, dict) else None
    if not isinstance(voters, dict) or not voters:
        raise ValueError(f'{BOOTSTRAP}: expected {{"voters": {{"1": "<directory id>"}}}}')
    log_level = content.get("log_level", 0)
    if type(log_level) is not int or log_level < 0:
        raise ValueError(f"{BOOTSTRAP}: expected a log_level of at least 0, got {log_level!r}")
    known = {NodeId(int(voter)): parse_id(str(directory)) for voter, directory in voters.items()}
    return known, log_level, read_users(content.get("users", []), BOOTSTRAP)
