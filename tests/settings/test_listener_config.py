"""Listeners, TLS and the authorizer in a node's configuration."""

import pytest

from fencepost.settings.config import Address, ConfigError
from fencepost.settings.properties import parse_properties
from tests.settings.test_config import FILE, STORE, read
from tests.together import table


def test_off_loopback_a_listener_that_knows_its_clients_is_accepted() -> None:
    for protocol in ("SASL_SSL", "SSL"):
        config = read(
            **{key.replace(".", "_"): value for key, value in STORE.items()},
            ssl_client_auth="required",
            sasl_plain_users_file="users",
            listeners="CLIENTS://10.0.0.1:9093,CONTROLLER://10.0.0.1:9193",
            controller_quorum_voters="2@10.0.0.1:9293",
            listener_security_protocol_map=f"CLIENTS:{protocol},CONTROLLER:SSL",
        )
        assert config.links_use_tls
        assert parse_properties(config.render(), FILE) == config


def test_pem_text_may_be_divided_as_kafka_allows() -> None:
    first = "-----BEGIN PRIVATE KEY-----\\nQUJD\\nREVG\\n-----END PRIVATE KEY-----"
    second = "-----BEGIN PRIVATE KEY----- QUJD REVG -----END PRIVATE KEY-----"
    third = "-----BEGIN PRIVATE KEY-----\\\n  QUJD\\\n  REVG\\\n  -----END PRIVATE KEY-----"
    found = {
        read(ssl_keystore_type="PEM", ssl_keystore_key=text, ssl_keystore_certificate_chain=text).ssl_key
        for text in (first, second, third)
    }
    assert found == {"-----BEGIN PRIVATE KEY-----\nQUJDREVG\n-----END PRIVATE KEY-----\n"}
    config = read(ssl_keystore_type="PEM", ssl_keystore_key=first, ssl_keystore_certificate_chain=first)
    assert "QUJD" not in repr(config)
    assert parse_properties(config.render(), FILE) == config


def test_several_listeners_by_kafkas_names() -> None:
    config = read(
        listeners="outside://[::1]:9094,INSIDE://127.0.0.1:9093,QUORUM://127.0.0.1:9193",
        advertised_listeners="OUTSIDE://kafka.example.com:19094,QUORUM://127.0.0.3:9193",
        listener_security_protocol_map="INSIDE:PLAINTEXT,OUTSIDE:PLAINTEXT",
        inter_broker_listener_name="INSIDE",
        controller_listener_names="QUORUM",
    )
    assert [each.name for each in config.client_listeners] == ["INSIDE", "OUTSIDE"]
    assert [each.name for each in config.controller_listeners] == ["QUORUM"]
    assert config.advertised_address("OUTSIDE") == Address("kafka.example.com", 19094)
    assert config.advertised_address("QUORUM") == Address("127.0.0.3", 9193)
    assert config.advertised_address("INSIDE") == Address("127.0.0.1", 9093)


@table("host", ["10.0.0.1", "[fd00::1]", "node-1.example.com", "127.0.0.1", "[::1]", "localhost"], ids=str)
def test_any_address_will_do_if_the_operator_says_so(host: str) -> None:
    config = read(
        fencepost_allow_insecure_listeners="true",
        listeners=f"PLAINTEXT://{host}:9093,CONTROLLER://:9193",
        advertised_listeners=f"CONTROLLER://{host}:9193",
        controller_quorum_voters=f"2@{host}:9293",
    )
    assert str(config.advertised_address("PLAINTEXT")) == f"{host}:9093"
    assert parse_properties(config.render(), FILE) == config


CLASS = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"


@pytest.mark.parametrize(
    ("changes", "complaint"),
    [
        (
            {"authorizer_class_name": "kafka.security.authorizer.AclAuthorizer"},
            "StandardAuthorizer; got 'kafka.sec",
        ),
        ({"authorizer_class_name": CLASS, "authorizer_acls_file": "acls"}, "expected one of them"),
        ({"allow_everyone_if_no_acl_found": "true"}, "authorizer.class.name alone"),
    ],
    ids=["another-class", "beside-a-file", "without-a-class"],
)
def test_an_authorizer_is_kafka_s_and_stands_alone(changes: dict[str, str], complaint: str) -> None:
    with pytest.raises(ConfigError, match=complaint):
        read(**changes)
    assert read(authorizer_class_name=CLASS).has_authorizer
