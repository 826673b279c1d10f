"""Users' SCRAM credentials in the metadata log: what is set, removed, described and refused."""

import base64
import hashlib
import hmac
from typing import Any

import pytest

from fencepost.controller import levels, scram
from fencepost.controller.birth import decide_birth
from fencepost.controller.decision import Decision
from fencepost.controller.errors import ErrorCode, InvalidRequest, PolicyViolation, UnsupportedVersion
from fencepost.controller.features import FEATURES, FeatureLevel
from fencepost.controller.replay import replay_record
from fencepost.controller.scram_types import (
    AlterScram,
    AlterScramAnswer,
    DescribeScram,
    Mechanism,
    ScramDeletion,
    ScramUpsertion,
    StoredCredential,
    stored_of,
)
from fencepost.controller.view import EmptyView, Overlay
from fencepost.records.invariant import InvariantViolation
from fencepost.records.levels import LEVEL_MAX, SCRAM_USERS
from fencepost.records.schema import RemoveUserScramCredentialRecord, UserScramCredentialRecord
from fencepost.wire.scram import credential_of, salted_password
from tests.controller.worlds import image
from tests.together import table

S256, S512 = Mechanism
SALT = b"salt-of-16-bytes"


def at_level(level: int = SCRAM_USERS) -> Overlay:
    view = image()
    view.put(FEATURES, levels.LOG_LEVEL, FeatureLevel(level))
    return view


def sets(name: str, mechanism: int = S256, iterations: int = 4096, **other: bytes) -> ScramUpsertion:
    return ScramUpsertion(
        name, mechanism, iterations, other.get("salt", SALT), other.get("salted", b"x" * 32)
    )


def alter(view: Overlay, *changes: ScramUpsertion | ScramDeletion) -> dict[str, int]:
    """The code of each user; what is decided is applied."""
    decision = decide(view, *changes)
    for record in decision.records:
        replay_record(view, record)
    return {each.user: each.error_code for each in decision.response.results}


def decide(view: Overlay, *changes: ScramUpsertion | ScramDeletion) -> Decision[AlterScramAnswer]:
    deletions = tuple(each for each in changes if isinstance(each, ScramDeletion))
    upsertions = tuple(each for each in changes if isinstance(each, ScramUpsertion))
    return scram.decide_alter(view, AlterScram(deletions, upsertions))


def test_a_password_that_the_client_salted_verifies_its_proof() -> None:
    """RFC 7677's example, as ``kafka-configs`` would send it."""
    view, salt = at_level(), base64.b64decode("W22ZaJ0SNY7soEsUEjb6gQ==")
    salted = salted_password("SCRAM-SHA-256", "pencil", salt, 4096)
    assert alter(view, sets("user", salt=salt, salted=salted)) == {"user": 0}
    assert scram.find(view, "user", S256) == credential_of("SCRAM-SHA-256", "pencil", salt, 4096)
    assert scram.find(view, "user", S512) is None


def test_a_credential_is_set_again_and_removed() -> None:
    view = at_level()
    alter(view, sets("alice"), sets("bob", S512, 8192))
    assert scram.state(view) == scram.ScramState(2, 2)
    alter(view, sets("alice", iterations=5000))
    found = scram.find(view, "alice", S256)
    assert found is not None
    assert (found.iterations, scram.state(view)) == (5000, scram.ScramState(3, 2))
    assert alter(view, ScramDeletion("alice", S256)) == {"alice": 0}
    assert (scram.find(view, "alice", S256), scram.state(view)) == (None, scram.ScramState(4, 1))


REFUSED: list[Any] = [
    pytest.param((sets(""),), ErrorCode.UNACCEPTABLE_CREDENTIAL, id="no-name"),
    pytest.param((sets("\ud800"),), ErrorCode.UNACCEPTABLE_CREDENTIAL, id="no-text"),
    pytest.param((sets("a\0b"),), ErrorCode.UNACCEPTABLE_CREDENTIAL, id="zero"),
    pytest.param((sets("a" * 251),), ErrorCode.UNACCEPTABLE_CREDENTIAL, id="long-name"),
    pytest.param((sets("a", 0),), ErrorCode.UNSUPPORTED_SASL_MECHANISM, id="mechanism-0"),
    pytest.param((sets("a", 3),), ErrorCode.UNSUPPORTED_SASL_MECHANISM, id="mechanism-3"),
    pytest.param((sets("a", -1),), ErrorCode.UNSUPPORTED_SASL_MECHANISM, id="mechanism--1"),
    pytest.param((sets("a", iterations=4095),), ErrorCode.UNACCEPTABLE_CREDENTIAL, id="few"),
    pytest.param((sets("a", iterations=16_385),), ErrorCode.UNACCEPTABLE_CREDENTIAL, id="many"),
    pytest.param((sets("a", salt=b""),), ErrorCode.UNACCEPTABLE_CREDENTIAL, id="no-salt"),
    pytest.param((sets("a", salt=b"s" * 257),), ErrorCode.UNACCEPTABLE_CREDENTIAL, id="long-salt"),
    pytest.param((sets("a", salted=b"s" * 257),), ErrorCode.UNACCEPTABLE_CREDENTIAL, id="long-password"),
    pytest.param((ScramDeletion("a", S256),), ErrorCode.RESOURCE_NOT_FOUND, id="not-there"),
    pytest.param((ScramDeletion("a\0", S256),), ErrorCode.RESOURCE_NOT_FOUND, id="cannot-be-there"),
    pytest.param((sets("a"), sets("a", S512)), ErrorCode.DUPLICATE_RESOURCE, id="twice"),
    pytest.param((ScramDeletion("there", S256), sets("there")), ErrorCode.DUPLICATE_RESOURCE, id="both"),
]


@table(("changes", "code"), REFUSED)
def test_what_is_refused_harms_no_other_user(changes: tuple[Any, ...], code: ErrorCode) -> None:
    view = at_level()
    alter(view, sets("there"))
    name = changes[0].name
    assert alter(view, *changes, sets("good")) == {name: code, "good": 0}
    assert scram.state(view).count == 2


def test_limits() -> None:
    view = at_level()
    many = tuple(sets(f"u{n}") for n in range(scram.CHANGES_MAX + 1))
    with pytest.raises(InvalidRequest, match="501 changes"):
        decide(view, *many)
    assert len(decide(view, *many[1:]).records) == scram.CHANGES_MAX
    alter(view, sets("first"))
    view.put(scram.SCRAM_STATE, 0, scram.ScramState(1, scram.CREDENTIALS_MAX))
    with pytest.raises(PolicyViolation):
        decide(view, sets("one-more"))
    assert len(decide(view, sets("first")).records) == 1, "one that is there may be set again"
    with pytest.raises(UnsupportedVersion, match="log level 10"):
        decide(at_level(SCRAM_USERS - 1), sets("a"))


@table(
    ("below", "added", "removed", "fits"),
    [(1, 1, 0, True), (1, 2, 0, False), (2, 2, 0, True), (0, 1, 0, False), (0, 1, 1, True), (0, 2, 1, False),
     (-1, 1, 1, True), (-1, 0, 1, True), (-1, 1, 0, False)],
)  # fmt: skip
def test_a_cluster_has_so_many_credentials(below: int, added: int, removed: int, fits: bool) -> None:
    view = at_level()
    alter(view, sets("there"))
    view.put(scram.SCRAM_STATE, 0, scram.ScramState(1, scram.CREDENTIALS_MAX - below))
    new = [sets(f"new-{number}") for number in range(added)]
    gone = [ScramDeletion("there", S256)][:removed]
    if fits:
        assert len(decide(view, *new, *gone).records) == added + removed
    else:
        with pytest.raises(PolicyViolation):
            decide(view, *new, *gone)


def test_users_are_described_without_what_is_secret() -> None:
    view = at_level()
    alter(view, sets("alice"), sets("bob", S512, 8192))
    alter(view, sets("alice", S512))
    every = scram.describe(view, DescribeScram())
    assert [(each.user, each.credentials) for each in every.results] == [
        ("alice", ((1, 4096), (2, 4096))),
        ("bob", ((2, 8192),)),
    ]
    some = scram.describe(view, DescribeScram(("bob", "carol", "alice", "alice", "\ud800")))
    assert [(each.user, each.error_code) for each in some.results] == [
        ("bob", 0),
        ("carol", ErrorCode.RESOURCE_NOT_FOUND),
        ("alice", ErrorCode.DUPLICATE_RESOURCE),
        ("\ud800", ErrorCode.RESOURCE_NOT_FOUND),
    ]
    with pytest.raises(InvalidRequest):
        scram.describe(view, DescribeScram(("a",) * (scram.CREDENTIALS_MAX + 1)))


def test_the_records_of_an_image_make_it_again() -> None:
    view = at_level()
    alter(view, sets("alice"), sets("bob", S512))
    records = list(scram.records_of(view))
    again = image(*records)
    assert list(again.scan(scram.SCRAM_CREDENTIALS)) == list(view.scan(scram.SCRAM_CREDENTIALS))
    with pytest.raises(InvariantViolation, match="removed that is not there"):
        replay_record(again, RemoveUserScramCredentialRecord(name="carol", mechanism=1))


def test_no_repr_shows_a_secret() -> None:
    secret = b"do-not-show"
    shown = [
        repr(each)
        for each in (
            sets("a", salted=secret, salt=secret),
            AlterScram((), (sets("a", salted=secret, salt=secret),)),
            StoredCredential(secret, 4096, secret, secret),
            UserScramCredentialRecord(
                name="a", mechanism=1, salt=secret, stored_key=secret, server_key=secret, iterations=4096
            ),
        )
    ]
    assert not [each for each in shown if "do-not-show" in each]


def test_a_cluster_is_born_with_users_and_no_later_one() -> None:
    user = UserScramCredentialRecord(
        name="a", mechanism=1, salt=b"s", stored_key=b"k", server_key=b"v", iterations=4096
    )
    new = Overlay(EmptyView())
    records = decide_birth(new, LEVEL_MAX, (user,), migrating=False).records
    assert user in records
    for record in records:
        replay_record(new, record)
    assert scram.find(new, "a", S256) is not None
    assert decide_birth(new, LEVEL_MAX, (user,), migrating=False).records == ()
    assert user not in decide_birth(Overlay(EmptyView()), SCRAM_USERS - 1, (user,), migrating=False).records


@table(
    ("name", "may_be"),
    [("", False), ("a", True), ("a" * 250, True), ("a" * 251, False), ("\u00fc" * 125, True),
     ("\u00fc" * 126, False), ("a\0", False), ("\ud800", False), ("\udfff", False), ("\ue000", True)],
)  # fmt: skip
def test_a_user_has_a_name_of_so_many_bytes(name: str, may_be: bool) -> None:
    assert scram.is_name(name) == may_be


@table(("mechanism", "hashes"), [(Mechanism.SCRAM_SHA_256, "sha256"), (Mechanism.SCRAM_SHA_512, "sha512")])
def test_keys_are_those_of_the_mechanism(mechanism: Mechanism, hashes: str) -> None:
    """RFC 5802: H(HMAC(SaltedPassword, "Client Key")), HMAC(SaltedPassword, "Server Key")."""
    found = stored_of(mechanism, b"salted", b"salt", 4096)
    client = hmac.digest(b"salted", b"Client Key", hashes)
    assert found.stored_key == hashlib.new(hashes, client).digest()
    assert found.server_key == hmac.digest(b"salted", b"Server Key", hashes)
    assert (found.salt, found.iterations) == (b"salt", 4096)
    assert mechanism.title == mechanism.name.replace("_", "-")
