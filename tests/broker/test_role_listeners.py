"""The listeners of a role: each with the keys, logins and limits that it has of its own."""

from pathlib import Path

import structlog

from fencepost.broker.listeners import RoleListeners
from fencepost.settings.credentials import read_credentials
from fencepost.settings.properties import parse_properties
from fencepost.wire.k18_api_versions import NO_FEATURES
from fencepost.wire.stalls import Stalls
from tests.certificates import Authority
from tests.secret_files import write_secret

LINES = """
node.id=2
process.roles=broker
controller.quorum.bootstrap.servers=127.0.0.1:9192
listeners=INSIDE://127.0.0.1:9093,OUTSIDE://127.0.0.1:9094
listener.security.protocol.map=INSIDE:SSL,OUTSIDE:SASL_SSL,CONTROLLER:PLAINTEXT
inter.broker.listener.name=INSIDE
log.dirs=data
quorum.secret.file=secret
sasl.plain.users.file=users
ssl.keystore.type=PEM
ssl.keystore.location=inside.pem
ssl.truststore.type=PEM
ssl.truststore.location=ca.pem
listener.name.outside.ssl.keystore.location=outside.pem
listener.name.outside.ssl.client.auth=required
listener.name.outside.max.connections=7
listener.name.outside.sasl.enabled.mechanisms=SCRAM-SHA-256
"""


def test_each_has_what_is_its_own(tmp_path: Path) -> None:
    authority = Authority()
    authority.write(tmp_path / "ca.pem")
    for name in ("inside", "outside"):
        authority.sign(name).write(tmp_path / f"{name}.pem")
    write_secret(tmp_path / "secret", "the secret of this cluster")
    write_secret(tmp_path / "users", "alice=x")
    config = parse_properties(LINES, tmp_path / "node.properties")
    listeners = RoleListeners(
        config.client_listeners,
        {},
        config,
        read_credentials(config, "cluster"),
        log=structlog.get_logger(),
        features=lambda: NO_FEATURES,
        memory=None,
        stalls=Stalls(),
        count_failed=lambda _request: None,
    )
    inside, outside = (listener._handshakes for listener in listeners.all)
    assert inside is not None
    assert outside is not None
    found = [(each._tls.settings.key_file, each._client_auth) for each in (inside, outside)]
    assert found == [(tmp_path / "inside.pem", "none"), (tmp_path / "outside.pem", "required")]
    assert [each.limits.connections_max for each in listeners.all] == [4096, 7]
    assert [each.logins and each.logins.mechanisms for each in listeners.all] == [None, ("SCRAM-SHA-256",)]
