"""Every file with a secret that a configuration names, as somebody else may read it: refused by name."""

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from fencepost.bridge.live_port import access_of
from fencepost.cluster.command_config import read_access
from fencepost.cluster.console import Unreadable
from fencepost.settings import credentials
from fencepost.settings.config import ConfigError
from fencepost.settings.credentials import Credentials
from fencepost.wire.setting_files import SettingFileError, read_setting_file
from fencepost.wire.tls import TlsSettings
from tests.secret_files import write_secret

SECRET = "0123456789abcdef"


def config(folder: Path) -> Any:
    """Whatever has these attributes is a node's configuration here."""
    found: Any = SimpleNamespace(
        of=lambda _listener: found,
        logs_in=lambda _listener: True,
        node_id=1,
        secret_file=folder / "secret",
        sasl_users_file=folder / "users",
        sasl_password_file=folder / "password",
        sasl_username="broker",
        acls_file=folder / "acls",
        super_users=(),
        client_listener=SimpleNamespace(name="CLIENTS"),
        controller_names=("CONTROLLER",),
        listeners=(SimpleNamespace(name="CLIENTS"), SimpleNamespace(name="CONTROLLER")),
        security_protocol=lambda name: "SASL_PLAINTEXT",
        sasl_mechanisms=("PLAIN",),
        sasl_mechanism_of_nodes="PLAIN",
        tls_settings=TlsSettings(),
        links_use_tls=False,
        logs_in_at_controllers=True,
        uses_tls=lambda name: False,
        zookeeper_connect="a:1",
        zookeeper_sasl_username="me",
        zookeeper_sasl_password_file=folder / "zookeeper",
        zookeeper_keystore=folder / "key.pem",
        zookeeper_truststore=folder / "ca.pem",
        zookeeper_session_timeout_ms=1000,
        zookeeper_tls=True,
    )
    return found


def read_node(found: Any) -> Credentials:
    return credentials.read_credentials(found, "cluster")


READERS: dict[str, tuple[str, str, Callable[[Any], object]]] = {
    "the-secret": ("secret", "quorum.secret.file", read_node),
    "the-users": ("users", "sasl.plain.users.file", read_node),
    "the-nodes-password": ("password", "sasl.password.file", read_node),
    "zookeepers-password": ("zookeeper", "zookeeper.sasl.password.file", access_of),
    "zookeepers-key": ("key.pem", "zookeeper.ssl.keystore.location", access_of),
    "a-commands-password": (
        "password", "sasl.password.file",
        lambda found: read_access(found.sasl_password_file.parent / "client.properties"),
    ),
}  # fmt: skip


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name, text in (
        ("secret", SECRET), ("users", f"alice={SECRET}"), ("password", SECRET), ("zookeeper", SECRET),
        ("key.pem", SECRET),
    ):  # fmt: skip
        write_secret(tmp_path / name, text)
    (tmp_path / "acls").write_text("User:alice DESCRIBE\n")
    (tmp_path / "client.properties").write_text("sasl.username=alice\nsasl.password.file=password\n")
    return tmp_path


@pytest.mark.parametrize("mode", [0o600, 0o400, 0o700])
@pytest.mark.parametrize("reader", READERS)
def test_a_file_of_its_owner_is_read(folder: Path, reader: str, mode: int) -> None:
    name, _, read = READERS[reader]
    (folder / name).chmod(mode)
    read(config(folder))


@pytest.mark.parametrize("mode", [0o644, 0o640, 0o604, 0o620, 0o602, 0o610, 0o601, 0o777])
@pytest.mark.parametrize("reader", READERS)
def test_a_file_that_others_may_use_is_refused_with_what_to_do(folder: Path, reader: str, mode: int) -> None:
    name, setting, read = READERS[reader]
    (folder / name).chmod(mode)
    with pytest.raises((ConfigError, Unreadable)) as refused:
        read(config(folder))
    said = str(refused.value)
    assert f"{setting}={folder / name}" in said
    assert f"mode {mode:04o}" in said
    assert f"chmod 600 {folder / name}" in said
    assert SECRET not in said


def test_an_acl_file_is_no_secret(folder: Path) -> None:
    (folder / "acls").chmod(0o644)
    assert read_node(config(folder)).acls.allowed


def test_a_link_is_judged_by_the_file_it_leads_to(folder: Path) -> None:
    (folder / "link").symlink_to(folder / "secret")
    assert read_setting_file("a.setting", folder / "link", is_secret=True) == SECRET
    (folder / "secret").chmod(0o644)
    with pytest.raises(SettingFileError, match="chmod 600"):
        read_setting_file("a.setting", folder / "link", is_secret=True)
