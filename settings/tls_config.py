"""The settings of TLS, a part of every node's configuration (config.py); the same keys are a client's.

PEM         only. A key and its chain in one file, or each as the value of a setting, whose lines are divided
            by ``\\n``, by a backslash at the end of a line, or by spaces.
Source      Kafka SslConfigs.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from fencepost.settings.config_values import PATH, TEXT, Kind, choice, ensure, keyed
from fencepost.settings.transaction_config import TransactionConfig
from fencepost.wire.principals import PrincipalRules, parse_rules
from fencepost.wire.tls import TlsSettings

_BLOCK: Final = re.compile(r"-----BEGIN ([A-Z0-9 ]{1,40})-----(.*?)-----END \1-----", re.DOTALL)
_LINE: Final = 64
_PEM_TYPE: Final = choice("PEM")


def _parse_pem(text: str) -> str:
    """The blocks as a file has them: base64 in lines of 64."""
    blocks = []
    for label, body in _BLOCK.findall(text.replace("\\n", "\n")):
        base64 = "".join(body.split())
        lines = [base64[at : at + _LINE] for at in range(0, len(base64), _LINE)]
        blocks.append("\n".join([f"-----BEGIN {label}-----", *lines, f"-----END {label}-----\n"]))
    ensure(bool(blocks))
    return "".join(blocks)


def _render_pem(text: str) -> str:
    return text.replace("\n", "\\n")


def _parse_algorithm(text: str) -> bool:
    ensure(text.lower() in ("https", ""))
    return text != ""


PEM: Final = Kind("PEM text", _parse_pem, _render_pem)
SECRET_PEM: Final = Kind("a private key in PEM", _parse_pem, _render_pem, is_secret=True)
SECRET_TEXT: Final = Kind("some text", TEXT.parse, is_secret=True)
RULES: Final = Kind(
    "RULE:pattern/replacement/[L|U] and DEFAULT, divided by commas",
    parse_rules,
    lambda rules: str(rules.text),
)
ALGORITHM: Final = Kind("https, or nothing", _parse_algorithm, lambda on: "https" if on else "")


@dataclass(frozen=True, slots=True, kw_only=True)
class TlsConfig(TransactionConfig):  # a class with slots inherits from one such class alone
    """What of a node's configuration concerns keys and certificates."""

    ssl_key_type: str | None = field(default=None, metadata=keyed("ssl.keystore.type", _PEM_TYPE))
    ssl_key_file: Path | None = field(default=None, metadata=keyed("ssl.keystore.location", PATH))
    ssl_key: str | None = field(default=None, repr=False, metadata=keyed("ssl.keystore.key", SECRET_PEM))
    ssl_chain: str | None = field(
        default=None, repr=False, metadata=keyed("ssl.keystore.certificate.chain", PEM)
    )
    ssl_key_password: str | None = field(
        default=None, repr=False, metadata=keyed("ssl.key.password", SECRET_TEXT)
    )
    ssl_trusted_type: str | None = field(default=None, metadata=keyed("ssl.truststore.type", _PEM_TYPE))
    ssl_trusted_file: Path | None = field(default=None, metadata=keyed("ssl.truststore.location", PATH))
    ssl_trusted: str | None = field(
        default=None, repr=False, metadata=keyed("ssl.truststore.certificates", PEM)
    )
    ssl_client_auth: Any = field(  # of SSL listeners: on SASL_SSL the login says who it is, as in Kafka
        default="none", metadata=keyed("ssl.client.auth", choice("none", "requested", "required"))
    )
    ssl_verifies_host: bool = field(
        default=True, metadata=keyed("ssl.endpoint.identification.algorithm", ALGORITHM)
    )
    ssl_rules: PrincipalRules = field(
        default=PrincipalRules(), metadata=keyed("ssl.principal.mapping.rules", RULES)
    )

    @property
    def has_secrets(self) -> bool:
        """Whether the configuration itself holds a secret, and its file must be its owner's alone."""
        return self.ssl_key is not None or self.ssl_key_password is not None

    @property
    def tls_settings(self) -> TlsSettings:
        """Where keys and certificates are."""
        return TlsSettings(
            key_file=self.ssl_key_file,
            key=self.ssl_key,
            chain=self.ssl_chain,
            key_password=self.ssl_key_password,
            trusted_file=self.ssl_trusted_file,
            trusted=self.ssl_trusted,
            client_auth=self.ssl_client_auth,
            verifies_host=self.ssl_verifies_host,
            rules=self.ssl_rules,
        )


def checks_of_tls(config: TlsConfig, uses: Sequence[str], *, mutual: bool) -> Iterator[tuple[bool, str]]:
    """What must hold between the settings, with the complaint if it does not. ``uses``: what needs a key."""
    has_store = config.ssl_key_file is not None or config.ssl_key is not None or config.ssl_chain is not None
    has_trusted = config.ssl_trusted_file is not None or config.ssl_trusted is not None
    yield (
        not has_store or config.ssl_key_type is not None,
        "ssl.keystore.type is missing: expected PEM (stores of type JKS and PKCS12 are not read)",
    )
    yield (
        not has_trusted or config.ssl_trusted_type is not None,
        "ssl.truststore.type is missing: expected PEM (stores of type JKS and PKCS12 are not read)",
    )
    yield (
        (config.ssl_key is None) == (config.ssl_chain is None),
        "ssl.keystore.key and ssl.keystore.certificate.chain: expected both or neither",
    )
    yield (
        config.ssl_key_file is None or config.ssl_key is None,
        "ssl.keystore.location and ssl.keystore.key: expected one of them",
    )
    yield (
        config.ssl_trusted_file is None or config.ssl_trusted is None,
        "ssl.truststore.location and ssl.truststore.certificates: expected one of them",
    )
    named = ", ".join(uses)
    yield not uses or has_store, f"ssl.keystore.location is missing: {named} need a key and a certificate"
    wants_trusted = bool(uses) and (config.ssl_client_auth != "none" or mutual)
    yield (
        has_trusted or not wants_trusted,
        f"ssl.truststore.location is missing: {named} verify the certificates of those who connect",
    )
