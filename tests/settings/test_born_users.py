"""Users that a cluster is born with: how they are named, kept in bootstrap.json, and never shown."""

import base64
import json
import stat
from pathlib import Path
from typing import Any

import pytest

from fencepost.controller.scram_types import Mechanism, StoredCredential
from fencepost.records.schema import UserScramCredentialRecord
from fencepost.records.types import NodeId
from fencepost.settings.born_users import USERS_MAX, parse_user, read_users, written_user
from fencepost.settings.node_identity import (
    BOOTSTRAP,
    NotFormatted,
    format_directory,
    id_text,
    random_id,
    read_identity,
    without_store,
)
from fencepost.wire.scram import credential_of, salted_password
from tests.together import table

SALT = base64.b64encode(b"a salt").decode()
SALTED = base64.b64encode(salted_password("SCRAM-SHA-256", "pw", b"a salt", 4096)).decode()


def stored(user: UserScramCredentialRecord) -> StoredCredential:
    return StoredCredential(user.salt, user.iterations, user.stored_key, user.server_key)


def test_a_password_or_what_was_made_of_it_is_the_same_user() -> None:
    by_password = parse_user(f"SCRAM-SHA-256=[name=al,password=pw,salt={SALT}]")
    assert by_password == parse_user(f"SCRAM-SHA-256=[name=al,salt={SALT},saltedpassword={SALTED}]")
    assert stored(by_password) == credential_of("SCRAM-SHA-256", "pw", b"a salt", 4096)
    made = parse_user("SCRAM-SHA-512=[name=al,password=p=w,iterations=5000]")
    assert (made.mechanism, made.iterations) == (Mechanism.SCRAM_SHA_512, 5000)
    assert stored(made) == credential_of("SCRAM-SHA-512", "p=w", made.salt, 5000)


@table(
    "text",
    [
        "",
        "PLAIN=[name=a,password=hush]",
        "SCRAM-SHA-256=name=a,password=hush",
        "SCRAM-SHA-256=[password=hush]",
        "SCRAM-SHA-256=[name=a]",
        "SCRAM-SHA-256=[name=a,password=]",
        "SCRAM-SHA-256=[name=a,password=hush,saltedpassword=hush]",
        "SCRAM-SHA-256=[name=a,saltedpassword=hush]",
        "SCRAM-SHA-256=[name=a,salt=hush!,saltedpassword=hush]",
        "SCRAM-SHA-256=[name=a,password=hush,iterations=4095]",
        "SCRAM-SHA-256=[name=a,password=hush,iterations=16385]",
        "SCRAM-SHA-256=[name=a,password=hush,iterations=hush]",
        "SCRAM-SHA-256=[name=a,password=hush,name=b]",
        "SCRAM-SHA-256=[name=a,password=hush,hush=1]",
        f"SCRAM-SHA-256=[name={'a' * 251},password=hush]",
    ],
)
def test_what_is_no_user_is_refused_without_its_password(text: str) -> None:
    with pytest.raises(ValueError) as refused:
        parse_user(text)
    assert "hush" not in str(refused.value)


def formatted(path: Path, users: tuple[UserScramCredentialRecord, ...]) -> Path:
    directory_id = random_id()
    format_directory(
        path,
        id_text(random_id()),
        NodeId(1),
        directory_id=directory_id,
        initial_voters={NodeId(1): directory_id},
        users=users,
    )
    return path


def test_a_directory_keeps_them_for_its_owner_alone(tmp_path: Path) -> None:
    users = tuple(parse_user(f"SCRAM-SHA-512=[name={'u' * 250},password={n}]") for n in range(USERS_MAX))
    identity = read_identity(formatted(tmp_path / "a", users))
    assert identity.users == users
    assert stat.S_IMODE((tmp_path / "a" / BOOTSTRAP).stat().st_mode) == 0o600
    assert without_store(tmp_path / "a", identity).users == ()
    assert read_identity(formatted(tmp_path / "b", ())).users == ()
    assert "users" not in (tmp_path / "b" / BOOTSTRAP).read_text()


@table("users", [5, [{}], [{"name": "a"}], [7], "no"])
def test_a_file_that_has_no_users_is_named(tmp_path: Path, users: Any) -> None:
    file = formatted(tmp_path / "a", (parse_user("SCRAM-SHA-256=[name=a,password=hush]"),)) / BOOTSTRAP
    file.write_text(json.dumps({**json.loads(file.read_text()), "users": users}))
    with pytest.raises(NotFormatted, match=r"bootstrap\.json: expected users"):
        read_identity(tmp_path / "a")


def test_json_is_read_as_it_is_written() -> None:
    user = parse_user("SCRAM-SHA-256=[name=a,password=pw]")
    assert read_users(json.loads(json.dumps([written_user(user)])), "f") == (user,)
