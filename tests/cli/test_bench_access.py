"""``fencepost bench transactions --command-config``: clusters that are reached by TLS, or with a login."""

from pathlib import Path
from types import SimpleNamespace

import pytest

from fencepost.bench import transactions
from fencepost.bench.transaction_subjects import CLUSTER, PEER, Subject, librdkafkas_access
from fencepost.cluster.console import WrongUsage
from fencepost.cluster.target import Target
from fencepost.wire.auth import Login
from fencepost.wire.tls import TlsSettings
from tests.cli.test_bench_transactions import Recorder, load, plan
from tests.together import table

TLS_FILES = TlsSettings(key_file=Path("/k.pem"), trusted_file=Path("/ca.pem"))
REACHED = [
    pytest.param(Target(()), {}, id="plain"),
    pytest.param(
        Target((), sasl=Login("ann", "secret", "SCRAM-SHA-256")),
        {
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "SCRAM-SHA-256",
            "sasl.username": "ann",
            "sasl.password": "secret",
        },
        id="login",
    ),
    pytest.param(
        Target((), tls=SimpleNamespace(settings=TLS_FILES)),  # type: ignore[arg-type]
        {
            "security.protocol": "SSL",
            "ssl.endpoint.identification.algorithm": "https",
            "ssl.ca.location": "/ca.pem",
            "ssl.key.location": "/k.pem",
            "ssl.certificate.location": "/k.pem",
        },
        id="tls",
    ),
    pytest.param(
        Target((), sasl=Login("ann", "x"), tls=SimpleNamespace(settings=TlsSettings(verifies_host=False))),  # type: ignore[arg-type]
        {
            "security.protocol": "SASL_SSL",
            "sasl.mechanism": "PLAIN",
            "sasl.username": "ann",
            "sasl.password": "x",
            "ssl.endpoint.identification.algorithm": "none",
        },
        id="login-by-tls",
    ),
]


@table(("target", "settings"), REACHED)
def test_both_clusters_are_reached_as_the_command_config_says(
    target: Target, settings: dict[str, str]
) -> None:
    assert librdkafkas_access(target) == settings


def test_keys_that_are_no_files_are_refused() -> None:
    for own in (TlsSettings(key="k"), TlsSettings(trusted="c"), TlsSettings(key_password="p")):
        with pytest.raises(WrongUsage, match="files"):
            librdkafkas_access(Target((), tls=SimpleNamespace(settings=own)))  # type: ignore[arg-type]


def test_each_load_has_the_access_of_its_cluster() -> None:
    child = Recorder()
    subjects = [
        Subject(name=CLUSTER, bootstrap="a:1", access={"security.protocol": "SSL"}),
        Subject(name=PEER, bootstrap="b:1"),
    ]
    transactions._windows(plan(warm_up_s=1.0), load(), child, subjects, lambda _line: None)
    assert {(each.bootstrap, *each.access.values()) for each in child.loads} == {("a:1", "SSL"), ("b:1",)}
