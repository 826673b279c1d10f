"""Certificates for tests: an authority, and what it signs, in PEM files."""

import ipaddress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from tests.secret_files import write_secret

DAY = timedelta(days=1)
HOSTS = ("127.0.0.1", "127.0.1.1", "127.0.1.2", "127.0.1.3", "::1", "localhost")


def pem_of(key: ec.EllipticCurvePrivateKey, password: str | None = None) -> str:
    encryption: serialization.KeySerializationEncryption = serialization.NoEncryption()
    if password is not None:
        encryption = serialization.BestAvailableEncryption(password.encode())
    form = serialization.PrivateFormat.PKCS8
    return key.private_bytes(serialization.Encoding.PEM, form, encryption).decode()


def named(common_name: str, unit: str = "") -> x509.Name:
    parts = [x509.NameAttribute(NameOID.ORGANIZATION_NAME, "Fencepost, Inc.")]
    if unit:
        parts.append(x509.NameAttribute(NameOID.ORGANIZATIONAL_UNIT_NAME, unit))
    return x509.Name([*parts, x509.NameAttribute(NameOID.COMMON_NAME, common_name)])


def san(hosts: tuple[str, ...]) -> x509.SubjectAlternativeName:
    names: list[x509.GeneralName] = []
    for host in hosts:
        try:
            names.append(x509.IPAddress(ipaddress.ip_address(host)))
        except ValueError:
            names.append(x509.DNSName(host))
    return x509.SubjectAlternativeName(names)


@dataclass
class Signed:
    """A key, and its certificate."""

    key: str
    certificate: str

    @property
    def both(self) -> str:
        return self.key + self.certificate

    def write(self, file: Path) -> Path:
        write_secret(file, self.both)
        return file


class Authority:
    """Signs certificates."""

    def __init__(self, name: str = "an authority of tests") -> None:
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = named(name)
        constraints = x509.BasicConstraints(ca=True, path_length=None)
        self.certificate = (
            self._begun(self._name, self._key.public_key(), DAY)
            .add_extension(constraints, critical=True)
            .sign(self._key, hashes.SHA256())
            .public_bytes(serialization.Encoding.PEM)
            .decode()
        )

    def sign(
        self,
        common_name: str,
        *,
        hosts: tuple[str, ...] = HOSTS,
        unit: str = "",
        left: timedelta = DAY,
        password: str | None = None,
    ) -> Signed:
        """``left``: how long it is still valid; less than nothing: it has expired."""
        key = ec.generate_private_key(ec.SECP256R1())
        certificate = (
            self._begun(named(common_name, unit), key.public_key(), left)
            .add_extension(san(hosts), critical=False)
            .sign(self._key, hashes.SHA256())
            .public_bytes(serialization.Encoding.PEM)
            .decode()
        )
        return Signed(pem_of(key, password), certificate)

    def vouch(self, other: "Authority") -> str:
        """The certificate that makes of the other an intermediate authority."""
        constraints = x509.BasicConstraints(ca=True, path_length=None)
        begun = self._begun(other._name, other._key.public_key(), DAY)
        signed = begun.add_extension(constraints, critical=True).sign(self._key, hashes.SHA256())
        return signed.public_bytes(serialization.Encoding.PEM).decode()

    def write(self, file: Path) -> Path:
        file.write_text(self.certificate, "ascii")
        return file

    def _begun(
        self, name: x509.Name, key: ec.EllipticCurvePublicKey, left: timedelta
    ) -> x509.CertificateBuilder:
        now = datetime.now(UTC)
        return (
            x509.CertificateBuilder()
            .subject_name(name)
            .issuer_name(self._name)
            .public_key(key)
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - 3 * DAY)
            .not_valid_after(now + left)
        )
