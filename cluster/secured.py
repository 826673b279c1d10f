"""What ``fencepost up --tls`` adds to a new cluster: an authority of its own, keys, users, clients' settings.

Files       D/tls/ca.pem is the authority's certificate, which clients are given; D/tls/ca.key its key;
            D/tls/node-N.pem each node's key. With users: D/tls/users, and D/clients/NAME.properties for each
            of them, for Kafka's tools and ours. Without: D/tls/client.pem and D/clients/client.properties.
            All are their owner's alone.
Listeners   clients': TLS, with a login by SCRAM-SHA-512 if there are users, else with a certificate of the
            authority. Controllers' and Raft's: TLS, with a certificate of the authority.
Bounds      the keys are EC P-256, and valid for DAYS. The names are those of this host alone.
"""

import ipaddress
import re
import secrets
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Final, NamedTuple

from fencepost.cluster.console import WrongUsage

if TYPE_CHECKING:
    from cryptography import x509
    from cryptography.hazmat.primitives.asymmetric import ec

DAYS: Final = 3650
NODE_USER: Final = "fencepost-node"
"""As whom the nodes log in to each other."""
CLIENTS: Final = "CLIENTS"
"""The listener of clients."""
MECHANISM: Final = "SCRAM-SHA-512"
HOSTS: Final = ("127.0.0.1", "::1", "localhost")


class Secured(NamedTuple):
    """``own``: lines of each node's configuration. ``files``: by their path in the cluster's folder."""

    own: dict[int, list[str]]
    files: dict[str, str]


def secured(
    directory: str,
    node_count: int,
    port: int,
    users: Mapping[str, str] | None = None,
    *,
    knows_clients: bool = True,
) -> Secured:
    """A cluster of that many nodes in that folder. ``users``: password by name; None: no login is wanted.

    ``knows_clients``: those who do not log in show a certificate. Raises WrongUsage.
    """
    names = [f"node-{node_id}" for node_id in range(1, node_count + 1)]
    by_certificate = users is None and knows_clients
    files = _keys([*names, "client"] if by_certificate else names)
    protocol = "SSL" if users is None else "SASL_SSL"
    lines = [
        f"listener.security.protocol.map={CLIENTS}:{protocol},CONTROLLER:SSL",
        "ssl.keystore.type=PEM",
        "ssl.truststore.type=PEM",
        "ssl.truststore.location=../../tls/ca.pem",
        f"ssl.client.auth={'required' if knows_clients else 'none'}",
    ]
    trust = f"ssl.truststore.type=PEM\nssl.truststore.location={directory}/tls/ca.pem\n"
    if users is None:
        store = f"ssl.keystore.type=PEM\nssl.keystore.location={directory}/tls/client.pem\n"
        store = store if by_certificate else ""
        files["clients/client.properties"] = f"security.protocol=SSL\n{store}{trust}"
    else:
        if NODE_USER in users:
            raise WrongUsage(f"--users: {NODE_USER} is what the nodes call themselves; choose another name")
        for name, word in users.items():
            _require_writable(name, word)
        password = secrets.token_urlsafe(24)
        everyone = {**users, NODE_USER: password}
        files["tls/users"] = "".join(f"{name}={word}\n" for name, word in everyone.items())
        files["tls/node-password"] = f"{password}\n"
        files |= {f"clients/{name}.properties": _client(name, word) + trust for name, word in users.items()}
        lines += [
            f"sasl.enabled.mechanisms={MECHANISM}",
            f"sasl.mechanism.inter.broker.protocol={MECHANISM}",
            "sasl.plain.users.file=../../tls/users",
            f"sasl.username={NODE_USER}",
            "sasl.password.file=../../tls/node-password",
        ]
    own = {
        node_id: [
            (
                f"listeners={CLIENTS}://127.0.0.1:{port + node_id - 1},"
                f"CONTROLLER://127.0.0.1:{port + 99 + node_id}"
            ),
            f"ssl.keystore.location=../../tls/node-{node_id}.pem",
            *lines,
        ]
        for node_id in range(1, node_count + 1)
    }
    return Secured(own, files)


def _require_writable(name: str, password: str) -> None:
    """A name is part of a file's; both stand between quotes in a file that Java reads as Latin-1."""
    if not re.fullmatch(r"[A-Za-z0-9@_-][A-Za-z0-9@._-]{0,99}", name):
        raise WrongUsage(f"--users: {name!r}: expected 1 to 100 letters, digits and @ . _ -")
    if not re.fullmatch(r"[!#-\[\]-~ ]+", password):
        raise WrongUsage(f"--users: the password of {name}: expected ASCII without quotes and backslashes")


def _client(name: str, password: str) -> str:
    """For ``--command-config`` of Kafka's tools and ours."""
    return (
        f"security.protocol=SASL_SSL\nsasl.mechanism={MECHANISM}\n"
        "sasl.jaas.config=org.apache.kafka.common.security.scram.ScramLoginModule required "
        f'username="{name}" password="{password}";\n'
    )


def _keys(names: list[str]) -> dict[str, str]:
    try:
        from cryptography import x509
        from cryptography.hazmat.primitives.asymmetric import ec
    except ModuleNotFoundError as error:
        raise WrongUsage("--tls makes keys, which needs the extra: pip install 'fencepost[tls]'") from error
    key = ec.generate_private_key(ec.SECP256R1())
    name = _name("fencepost local authority")
    authority = _begun(name, name, key).add_extension(
        x509.BasicConstraints(ca=True, path_length=0), critical=True
    )
    files = {"tls/ca.pem": _signed(authority, key), "tls/ca.key": _private(key)}
    hosts = [
        x509.DNSName(host) if host == "localhost" else x509.IPAddress(ipaddress.ip_address(host))
        for host in HOSTS
    ]
    for each in names:
        own = ec.generate_private_key(ec.SECP256R1())
        certificate = _begun(_name(each), name, own).add_extension(
            x509.SubjectAlternativeName(hosts), critical=False
        )
        files[f"tls/{each}.pem"] = _private(own) + _signed(certificate, key)
    return files


def _name(common_name: str) -> "x509.Name":
    from cryptography import x509
    from cryptography.x509.oid import NameOID

    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common_name)])


def _begun(
    subject: "x509.Name", issuer: "x509.Name", key: "ec.EllipticCurvePrivateKey"
) -> "x509.CertificateBuilder":
    from cryptography import x509

    now = datetime.now(UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=DAYS))
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
    )


def _signed(begun: "x509.CertificateBuilder", key: "ec.EllipticCurvePrivateKey") -> str:
    """The authority is named by its key, too: all that we make have one name, and OpenSSL tries one."""
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization

    by = x509.AuthorityKeyIdentifier.from_issuer_public_key(key.public_key())
    certificate = begun.add_extension(by, critical=False).sign(key, hashes.SHA256())
    return certificate.public_bytes(serialization.Encoding.PEM).decode()


def _private(key: "ec.EllipticCurvePrivateKey") -> str:
    from cryptography.hazmat.primitives import serialization

    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    ).decode()
