"""Settings of one listener: ``listener.name.LISTENER.SETTING``, as Kafka reads it, others refused by name."""

from pathlib import Path

import pytest

from fencepost.cli.node_config import read_config
from fencepost.cluster.command_config import access_of
from fencepost.cluster.console import Unreadable
from fencepost.settings.config import ConfigError, NodeConfig
from fencepost.settings.credentials import read_credentials
from fencepost.settings.environment import read_environment
from fencepost.settings.properties import parse_properties
from fencepost.wire.tls import ClientAuth
from tests.certificates import Authority
from tests.secret_files import write_secret
from tests.settings.test_config import FILE, INLINE, STORE, WHOLE
from tests.together import table

LISTENERS = {
    "listeners": "INSIDE://127.0.0.1:9093,OUT-SIDE://127.0.0.1:9094,CONTROLLER://127.0.0.1:9193",
    "listener.security.protocol.map": "INSIDE:SSL,OUT-SIDE:SASL_SSL,CONTROLLER:SSL",
    "inter.broker.listener.name": "INSIDE",
    "sasl.plain.users.file": "users",
    **STORE,
}
OWN = "listener.name."


def of(**own: str) -> NodeConfig:
    """Three listeners, and what one has of its own: ``out_side__ssl_client_auth`` is OUT-SIDE's."""
    named = {f"{OWN}{key.replace('__', '.').replace('out_side', 'out-side')}": own[key] for key in own}
    return read({key.replace("_", "."): value for key, value in named.items()})


def read(changes: dict[str, str | None]) -> NodeConfig:
    merged = {**WHOLE, **LISTENERS, **changes}
    lines = [f"{key}={value}" for key, value in merged.items() if value is not None]
    return parse_properties("\n".join(lines), FILE)


def test_it_is_in_the_place_of_the_rest_for_that_listener_alone() -> None:
    config = of(
        out_side__ssl_keystore_location="outside.pem",
        out_side__sasl_enabled_mechanisms="SCRAM-SHA-512",
        out_side__connections_max_reauth_ms="1000",
        out_side__max_connections="7",
        inside__ssl_principal_mapping_rules="RULE:^CN=(.*?),.*$/$1/",
    )
    outside, inside = config.of("OUT-SIDE"), config.of("INSIDE")
    assert outside.tls_settings.key_file == Path("/etc/fencepost/outside.pem")
    assert outside.tls_settings.trusted_file == inside.tls_settings.trusted_file == Path("/etc/fencepost/t")
    assert (outside.sasl_mechanisms, inside.sasl_mechanisms) == (("SCRAM-SHA-512",), ("PLAIN",))
    assert (config.limits("OUT-SIDE").reauth_ms("PLAIN"), config.limits("INSIDE").reauth_ms("PLAIN")) == (
        1000,
        0,
    )
    assert (config.limits("OUT-SIDE").connections_max, config.limits().connections_max) == (7, 4096)
    assert inside.ssl_rules.name_of("CN=app,O=Example") == "app"
    assert outside.ssl_rules.name_of("CN=app,O=Example") == "CN=app,O=Example"
    assert config.of("CONTROLLER") is config
    assert config.serves_scram


def test_a_mechanism_of_a_listener_has_its_own_end_of_logins() -> None:
    limits = read(
        {
            f"{OWN}out-side.scram-sha-256.connections.max.reauth.ms": "5",
            f"{OWN}out-side.connections.max.reauth.ms": "6",
            "connections.max.reauth.ms": "7",
        }
    ).limits
    assert [limits("OUT-SIDE").reauth_ms(each) for each in ("SCRAM-SHA-256", "PLAIN")] == [5, 6]
    assert limits("INSIDE").reauth_ms("SCRAM-SHA-256") == 7


CLIENT_AUTH: list[tuple[str | None, str | None, ClientAuth]] = [
    (None, None, "none"),
    ("required", None, "none"),
    (None, "required", "required"),
    ("required", "requested", "requested"),
]


@table(("of_all", "own", "found"), CLIENT_AUTH)
def test_by_sasl_ssl_a_certificate_is_shown_where_that_listener_says_so(
    of_all: str | None, own: str | None, found: ClientAuth
) -> None:
    config = read({"ssl.client.auth": of_all, f"{OWN}out-side.ssl.client.auth": own})
    assert config.client_auth("OUT-SIDE") == found
    assert config.client_auth("INSIDE") == (of_all or "none")


def test_what_is_written_is_read_back_and_shows_no_secret() -> None:
    own = {
        f"{OWN}out-side.ssl.key.password": "hush",
        f"{OWN}out-side.plain.connections.max.reauth.ms": "5",
        f"{OWN}controller.ssl.keystore.location": None,
        f"{OWN}inside.sasl.enabled.mechanisms": "SCRAM-SHA-256,PLAIN",
    }
    config = read(own)
    assert parse_properties(config.render(), FILE) == config
    assert "hush" not in repr(config)
    assert config.of("OUT-SIDE").ssl_key_password == "hush"


def test_a_file_with_a_listeners_own_secret_is_its_owners(tmp_path: Path) -> None:
    file = write_secret(tmp_path / "node.properties", read({f"{OWN}out-side.ssl.key.password": "x"}).render())
    assert read_config(file).of("OUT-SIDE").has_secrets
    file.chmod(0o644)
    with pytest.raises(Unreadable, match="--config"):
        read_config(file)


def test_a_container_gives_it_by_a_variable() -> None:
    variables = {
        f"KAFKA_{key.replace('.', '_').upper()}": value for key, value in {**WHOLE, **LISTENERS}.items()
    }
    config = read_environment({**variables, "KAFKA_LISTENER_NAME_OUT___SIDE_MAX_CONNECTIONS": "7"})
    assert config.limits("OUT-SIDE").connections_max == 7


REFUSED = [
    ("inside.num.network.threads=3", "num.network.threads is no setting that a listener has of its own"),
    ("inside.ssl.client.auht=none", "ssl.client.auht is no setting that a listener has of its own"),
    ("INSIDE.ssl.client.auth=none", "the listener's name in lower case"),
    ("inside=1", "expected listener.name.LISTENER.SETTING"),
    ("=1", "unknown key listener.name."),
    ("inside.plain.ssl.client.auth=none", "has connections.max.reauth.ms of its own, no other setting"),
    ("inside.gssapi.connections.max.reauth.ms=1", "gssapi.connections.max.reauth.ms is no setting"),
    ("elsewhere.ssl.client.auth=none", "no listener ELSEWHERE, only CONTROLLER, INSIDE, OUT-SIDE"),
    ("inside.ssl.client.auth=maybe", "listener.name.inside.ssl.client.auth: expected one of none, req"),
    ("inside.ssl.client.auth=none\nlistener.name.inside.ssl.client.auth=none", "is given twice"),
    ("inside.ssl.keystore.type=JKS", "listener.name.inside.ssl.keystore.type: expected one of PEM"),
    (f"inside.ssl.keystore.key={INLINE}", "expected both or neither"),
    (
        "out-side.sasl.enabled.mechanisms=",
        "listener.name.out-side.sasl.enabled.mechanisms: expected at least one",
    ),
]


@table(("line", "complaint"), REFUSED)
def test_anything_else_is_refused_by_name(line: str, complaint: str) -> None:
    text = "".join(f"{key}={value}\n" for key, value in {**WHOLE, **LISTENERS}.items())
    with pytest.raises(ConfigError) as caught:
        parse_properties(f"{text}{OWN}{line}\n", FILE)
    assert complaint in str(caught.value)


def test_a_listener_is_authenticated_by_what_it_has_of_its_own() -> None:
    off = {"listeners": "INSIDE://10.0.0.1:9093,CONTROLLER://127.0.0.1:9193"}
    assert read({**off, f"{OWN}inside.ssl.client.auth": "required"}).client_auth("INSIDE") == "required"
    for key in ("ssl.client.auth", f"{OWN}inside.ssl.client.auth"):
        with pytest.raises(ConfigError, match="which others than this host may reach"):
            read(
                {
                    **off,
                    "ssl.client.auth": "required",
                    f"{OWN}inside.ssl.client.auth": "requested",
                    key: "none",
                }
            )
    with pytest.raises(ConfigError, match=r"ssl\.keystore\.location is missing: INSIDE, OUT-SIDE need"):
        read(dict.fromkeys(STORE) | {f"{OWN}controller.{key}": value for key, value in STORE.items()})


def test_keys_of_listeners_are_those_that_they_name_and_made_once(tmp_path: Path) -> None:
    authority, public = Authority(), Authority("another")
    files = {
        "ssl.keystore.location": authority.sign("inside").write(tmp_path / "inside.pem"),
        "ssl.truststore.location": authority.write(tmp_path / "ca.pem"),
        f"{OWN}out-side.ssl.keystore.location": public.sign("outside").write(tmp_path / "outside.pem"),
        f"{OWN}controller.ssl.truststore.location": public.write(tmp_path / "controllers.pem"),
        "quorum.secret.file": write_secret(tmp_path / "secret", "the secret of this cluster"),
        "sasl.plain.users.file": write_secret(tmp_path / "users", "alice=x"),
        f"{OWN}out-side.sasl.plain.users.file": write_secret(tmp_path / "others", "bob=x"),
    }
    config = read({key: str(file) for key, file in files.items()})
    found = read_credentials(config, "cluster")
    assert found.tls_of["INSIDE"] is found.tls is found.tls_for_brokers
    assert found.tls_of["CONTROLLER"] is found.tls_for_controllers is not found.tls
    keys = [found.tls_of[each].settings.key_file.name for each in ("INSIDE", "OUT-SIDE")]  # type: ignore[union-attr]
    assert keys == ["inside.pem", "outside.pem"]
    controllers = access_of(config, to_brokers=False).tls
    assert controllers is not None
    assert controllers.settings.trusted_file == tmp_path / "controllers.pem"
    logins = found.users["OUT-SIDE"]
    assert logins is not None
    assert dict(logins.passwords) == {"bob": "x"}
