"""What is broken on purpose where files of certificates change, end, or are chains."""

from typing import Final

from tests.mutants.mutant import Mutant

PEERS: Final = "tests/wire/test_tls_peers.py::"

CERTIFICATES: Final = (
    Mutant(
        "resumed-after-its-end",
        "a session is resumed until its certificate ends",
        "wire/tls_handshake.py",
        "            server.require_current(transport)\n",
        "",
        (PEERS + "test_a_session_is_resumed_until_its_certificate_ends",),
    ),
    Mutant(
        "half-written-authorities",
        "a file of authorities is read when it is no longer written",
        "wire/tls.py",
        "        if self._found == self._seen or self._found != before:\n",
        "        if self._found == self._seen:\n",
        (PEERS + "test_a_file_is_read_when_it_is_no_longer_written",),
    ),
    Mutant(
        "certificate-without-an-end",
        "a file of authorities that ends in the midst of one is broken",
        "wire/tls.py",
        "    if ends_early(text):",
        "    if False:",
        (PEERS + "test_a_file_is_read_when_it_is_no_longer_written",),
    ),
    Mutant(
        "intermediate-not-trusted",
        "an intermediate authority is trusted by itself, as in Java",
        "wire/tls.py",
        "        context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN\n",
        "",
        (PEERS + "test_chains",),
    ),
    Mutant(
        "authority-by-name-alone",
        "a key of `up --tls` says by which of several authorities of one name it was signed",
        "cluster/secured.py",
        "    certificate = begun.add_extension(by, critical=False).sign(key, hashes.SHA256())\n",
        "    certificate = begun.sign(key, hashes.SHA256())\n",
        ("tests/cli/test_secured.py::test_keys_are_verified_where_two_authorities_of_one_name_are_trusted",),
    ),
)
