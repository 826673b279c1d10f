"""--command-config: what is read of Kafka's properties; what is refused, without a secret in the message."""

from pathlib import Path

import pytest

from fencepost.cluster.command_config import read_access
from fencepost.cluster.console import Unreadable, WrongUsage
from fencepost.wire.auth import Login
from tests.certificates import Authority
from tests.secret_files import write_secret
from tests.together import table

LOGIN = "sasl.username=alice\nsasl.password=hunter2\n"


def file_of(folder: Path, text: str) -> Path:
    Authority().write(folder / "ca.pem")
    write_secret(folder / "password", "hunter2\n")
    write_secret(folder / "client.properties", text)
    return folder / "client.properties"


READ = [
    pytest.param(LOGIN, ("alice", "hunter2"), False, id="a-login-alone"),
    pytest.param(
        "sasl.username=alice\nsasl.password.file=password", ("alice", "hunter2"), False, id="in-a-file"
    ),
    pytest.param(f"security.protocol=SASL_PLAINTEXT\n{LOGIN}", ("alice", "hunter2"), False, id="said"),
    pytest.param(f"security.protocol=SASL_SSL\n{LOGIN}", ("alice", "hunter2"), True, id="inside-tls"),
    pytest.param(
        "security.protocol=SASL_SSL\nsasl.jaas.config=org.apache.kafka.PlainLoginModule required \\\n"
        '  username="alice" password="hunt\\"er2";',
        ("alice", 'hunt"er2'),
        True,
        id="jaas",
    ),
    pytest.param(
        "security.protocol=SSL\nssl.truststore.type=PEM\nssl.truststore.location=ca.pem", None, True, id="tls"
    ),
    pytest.param("client.id=x\nacks=all", None, False, id="others-are-left"),
]


@table(("text", "sasl", "by_tls"), READ)
def test_what_is_read(tmp_path: Path, text: str, sasl: tuple[str, str] | None, by_tls: bool) -> None:
    access = read_access(file_of(tmp_path, text))
    assert access.sasl == (None if sasl is None else Login(*sasl))
    assert (access.tls is not None) is by_tls


REFUSED = [
    pytest.param("security.protocol=TLS", "expected one of PLAINTEXT, SSL", id="protocol"),
    pytest.param("security.protocol=SASL_SSL", "expected sasl.username", id="no-login"),
    pytest.param("sasl.username=alice", "expected sasl.password.file", id="no-password"),
    pytest.param(f"sasl.mechanism=GSSAPI\n{LOGIN}", "sasl.mechanism: expected one of PLAIN", id="mechanism"),
    pytest.param('sasl.jaas.config=x username="hunter2"', "expected username", id="half-a-jaas"),
    pytest.param("security.protocol=SSL\nssl.truststore.location=ca.pem", "expected PEM", id="no-type"),
    pytest.param(
        "security.protocol=SSL\nssl.keystore.type=PEM\nssl.keystore.key=hunter2", "PEM", id="no-key"
    ),
    pytest.param(
        "security.protocol=SSL\nssl.truststore.type=PEM\nssl.truststore.location=none", "none", id="no-file"
    ),
]


@table(("text", "complaint"), REFUSED)
def test_what_is_refused(tmp_path: Path, text: str, complaint: str) -> None:
    with pytest.raises((WrongUsage, Unreadable)) as refused:
        read_access(file_of(tmp_path, text))
    assert complaint in str(refused.value)
    assert "hunter2" not in str(refused.value)


def test_a_file_with_a_password_is_its_owners(tmp_path: Path) -> None:
    file = file_of(tmp_path, LOGIN)
    file.chmod(0o644)
    with pytest.raises(Unreadable, match="chmod 600"):
        read_access(file)
