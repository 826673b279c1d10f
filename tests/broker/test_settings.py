"""The files of secrets that a broker's configuration names."""

from pathlib import Path

import pytest

from fencepost.broker.settings import SettingsError, client_credentials, own_credentials
from fencepost.quorum.config import Address, ListenerAddress, NodeConfig
from fencepost.records.types import NodeId
from tests.secret_files import write_secret


def config(tmp_path: Path, users: str | None = None, password: str | None = None) -> NodeConfig:
    users_file, password_file = tmp_path / "users", tmp_path / "password"
    if users is not None:
        write_secret(users_file, users)
    if password is not None:
        write_secret(password_file, password)
    return NodeConfig(
        node_id=NodeId(1),
        roles=("broker",),
        directory=tmp_path,
        secret_file=tmp_path / "secret",
        listeners=(ListenerAddress("CLIENTS", Address("127.0.0.1", 9092)),),
        controller_bootstrap=(Address("127.0.0.1", 9192),),
        security_protocols=(("CLIENTS", "PLAINTEXT" if users is None else "SASL_PLAINTEXT"),),
        sasl_users_file=users_file,
        sasl_username=None if password is None else "broker-1",
        sasl_password_file=None if password is None else password_file,
    )


def test_without_settings_there_are_no_credentials(tmp_path: Path) -> None:
    assert own_credentials(config(tmp_path)) is None
    assert client_credentials(config(tmp_path), "CLIENTS") is None


@pytest.mark.parametrize("text", ["s3cret", "s3cret\n", "s3cret\r\n"], ids=repr)
def test_a_password_is_the_file_without_its_line_end(tmp_path: Path, text: str) -> None:
    assert own_credentials(config(tmp_path, password=text)) == ("broker-1", "s3cret")


def test_users_are_read_line_by_line(tmp_path: Path) -> None:
    text = "# comment\n\nalice=a=b\n bob = c \n"
    assert client_credentials(config(tmp_path, users=text), "CLIENTS") == {"alice": "a=b", "bob": "c"}


BAD_USERS = [
    pytest.param("alice", "line 1", id="no-equals"),
    pytest.param("alice=x\n=y", "line 2", id="no-name"),
    pytest.param("alice=", "line 1", id="no-password"),
    pytest.param("alice=x\nalice=y", "line 2", id="twice"),
]


@pytest.mark.parametrize(("text", "where"), BAD_USERS)
def test_a_line_that_cannot_be_read_is_named(tmp_path: Path, text: str, where: str) -> None:
    with pytest.raises(SettingsError, match=where):
        client_credentials(config(tmp_path, users=text), "CLIENTS")


def test_too_many_users_are_refused(tmp_path: Path) -> None:
    text = "".join(f"u{n}=x\n" for n in range(10_001))
    with pytest.raises(SettingsError, match="10001 users"):
        client_credentials(config(tmp_path, users=text), "CLIENTS")


def test_a_file_that_is_empty_missing_binary_or_huge_is_named(tmp_path: Path) -> None:
    found = config(tmp_path, password="")
    with pytest.raises(SettingsError, match="password: expected a password"):
        own_credentials(found)
    (tmp_path / "password").write_bytes(b"\xff\xfe")
    with pytest.raises(SettingsError, match="password: cannot be read"):
        own_credentials(found)
    (tmp_path / "password").write_bytes(b"x" * (1024 * 1024 + 1))
    with pytest.raises(SettingsError, match="larger than"):
        own_credentials(found)
    (tmp_path / "password").unlink()
    with pytest.raises(SettingsError, match="password: cannot be read"):
        own_credentials(found)
