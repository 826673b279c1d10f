"""Keys and certificates that cannot be used are refused by name, without a byte of them."""

from pathlib import Path
from typing import Any

import pytest

from fencepost.wire.tls import Tls, TlsError, TlsSettings
from tests.certificates import Authority


def unusable(tmp_path: Path) -> list[tuple[dict[str, Any], str]]:
    authority = Authority()
    signed, other = authority.sign("a"), authority.sign("b")
    encrypted = authority.sign("a", password="correct")
    public = tmp_path / "public.pem"
    public.write_text(signed.both, "ascii")
    public.chmod(0o644)
    return [
        ({"key_file": tmp_path / "missing.pem"}, "missing.pem: cannot be read"),
        ({"key_file": public}, "chmod 600"),
        ({"key": signed.key, "chain": ""}, "expected a certificate in PEM"),
        ({"key": "", "chain": signed.certificate}, "expected a private key in PEM"),
        ({"key": signed.key, "chain": other.certificate}, "the key is not that of the first certificate"),
        ({"key": encrypted.key, "chain": encrypted.certificate}, "ssl.key.password is missing"),
        (
            {"key": encrypted.key, "chain": encrypted.certificate, "key_password": "wrong-word"},
            "ssl.key.password is wrong",
        ),
        ({"trusted": "no certificate"}, "ssl.truststore.certificates: expected certificates of authorities"),
        ({"trusted": f"{authority.certificate}-----BEGIN CERT"}, "a certificate in it has no end"),
        ({"trusted": f"{authority.certificate}--"}, "a certificate in it has no end"),
        (
            {"trusted": authority.certificate * 2 + authority.certificate[:-9]},
            "a certificate in it has no end",
        ),
        ({"trusted_file": tmp_path / "missing.pem"}, "missing.pem: cannot be read"),
    ]


@pytest.mark.parametrize("number", range(12))
def test_what_cannot_be_used_is_refused_without_its_bytes(tmp_path: Path, number: int) -> None:
    settings, complaint = unusable(tmp_path)[number]
    with pytest.raises(TlsError) as refused:
        Tls(TlsSettings(**settings))
    assert complaint in str(refused.value)
    assert "wrong-word" not in str(refused.value)
    assert "MI" not in str(refused.value).replace(str(tmp_path), "")
    assert "PRIVATE" not in repr(TlsSettings(**settings))


def test_an_encrypted_key_is_read_with_its_password() -> None:
    signed = Authority().sign("a", password="correct")
    Tls(TlsSettings(key=signed.key, chain=signed.certificate, key_password="correct"))
