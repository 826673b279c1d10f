"""The files that a node's configuration names, read once for its roles."""

from pathlib import Path

import pytest

from fencepost.records.types import NodeId
from fencepost.settings.config import Address, ConfigError, ListenerAddress, NodeConfig
from fencepost.settings.credentials import Credentials, read_credentials
from fencepost.wire.auth import Login
from tests.secret_files import write_secret
from tests.together import table


def config(tmp_path: Path, users: str | None = None, password: str | None = None) -> NodeConfig:
    users_file, password_file = tmp_path / "users", tmp_path / "password"
    write_secret(tmp_path / "secret", "the secret of this cluster\n")
    if users is not None:
        write_secret(users_file, users)
    if password is not None:
        write_secret(password_file, password)
    return NodeConfig(
        node_id=NodeId(1),
        roles=("broker",),
        log_directories=(tmp_path,),
        secret_file=tmp_path / "secret",
        listeners=(ListenerAddress("CLIENTS", Address("127.0.0.1", 9092)),),
        controller_bootstrap=(Address("127.0.0.1", 9192),),
        security_protocols=(("CLIENTS", "PLAINTEXT" if users is None else "SASL_PLAINTEXT"),),
        sasl_users_file=users_file,
        sasl_username=None if password is None else "broker-1",
        sasl_password_file=None if password is None else password_file,
    )


def read(config: NodeConfig) -> Credentials:
    return read_credentials(config, "cluster")


def test_without_settings_there_are_no_credentials(tmp_path: Path) -> None:
    assert read(config(tmp_path)).own is None
    assert read(config(tmp_path)).users["CLIENTS"] is None


@table("text", ["s3cret", "s3cret\n", "s3cret\r\n"], ids=repr)
def test_a_password_is_the_file_without_its_line_end(tmp_path: Path, text: str) -> None:
    assert read(config(tmp_path, password=text)).own == Login("broker-1", "s3cret")


def test_users_are_read_line_by_line(tmp_path: Path) -> None:
    text = "# comment\n\nalice=a=b\n bob = c \n"
    logins = read(config(tmp_path, users=text)).users["CLIENTS"]
    assert logins is not None
    assert logins.passwords == {"alice": "a=b", "bob": "c"}


BAD_USERS = [
    pytest.param("alice", "line 1", id="no-equals"),
    pytest.param("alice=x\n=y", "line 2", id="no-name"),
    pytest.param("alice=", "line 1", id="no-password"),
    pytest.param("alice=x\nalice=y", "line 2", id="twice"),
]


@table(("text", "where"), BAD_USERS)
def test_a_line_that_cannot_be_read_is_named(tmp_path: Path, text: str, where: str) -> None:
    with pytest.raises(ConfigError, match=where):
        read(config(tmp_path, users=text))


def test_too_many_users_are_refused(tmp_path: Path) -> None:
    text = "".join(f"u{n}=x\n" for n in range(10_001))
    with pytest.raises(ConfigError, match="10001 users"):
        read(config(tmp_path, users=text))


def test_a_file_that_is_empty_missing_binary_or_huge_is_named(tmp_path: Path) -> None:
    found = config(tmp_path, password="")
    with pytest.raises(ConfigError, match="password: expected a password"):
        read(found)
    (tmp_path / "password").write_bytes(b"\xff\xfe")
    with pytest.raises(ConfigError, match="password: cannot be read"):
        read(found)
    (tmp_path / "password").write_bytes(b"x" * (1024 * 1024 + 1))
    with pytest.raises(ConfigError, match="larger than"):
        read(found)
    (tmp_path / "password").unlink()
    with pytest.raises(ConfigError, match="password: cannot be read"):
        read(found)
