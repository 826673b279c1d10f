"""A node's configuration from variables: names, what is passed over, what is refused."""

from dataclasses import fields
from pathlib import Path

import pytest

from fencepost.settings.config import ConfigError, NodeConfig
from fencepost.settings.environment import read_environment, setting_of
from fencepost.settings.properties import parse_properties
from tests.together import table

LEAST = {
    "KAFKA_NODE_ID": "1",
    "KAFKA_PROCESS_ROLES": "broker,controller",
    "KAFKA_LOG_DIRS": "data",
    "KAFKA_LISTENERS": "PLAINTEXT://127.0.0.1:9092,CONTROLLER://127.0.0.1:9192",
    "KAFKA_CONTROLLER_QUORUM_VOTERS": "1@127.0.0.1:9292",
    "KAFKA_CONTROLLER_QUORUM_BOOTSTRAP_SERVERS": "127.0.0.1:9192",
    "KAFKA_QUORUM_SECRET_FILE": "secret",
}


@table(
    ("variable", "setting"),
    [
        ("KAFKA_NODE_ID", "node.id"),
        ("KAFKA_METRICS_PORT", "metrics.port"),
        ("KAFKA_FENCEPOST_METRICS_HOST", "fencepost.metrics.host"),
        ("KAFKA_A__B___C_D", "a_b-c.d"),
    ],
)
def test_names_are_those_of_kafkas_image(variable: str, setting: str) -> None:
    assert setting_of(variable) == setting


def test_every_setting_has_a_variable() -> None:
    for each in fields(NodeConfig):
        key = each.metadata["key"]
        variable = key.replace("-", "___").replace("_", "__").replace(".", "_").upper()
        assert setting_of(f"KAFKA_{variable}") == key


def test_the_variables_are_a_node_and_its_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    config = read_environment(
        LEAST
        | {"PATH": "/bin", "KAFKA_METRICS_PORT": " 9404 ", "KAFKA_SUPER_USERS": "User:a;User:CN=b,O=c"}
        | {"KAFKA_HEAP_OPTS": "-Xmx1g", "KAFKA_LOG4J_OPTS": "x", "KAFKA_PORT": "tcp://10.0.0.1:9092"}
        | {"KAFKA_SERVICE_HOST": "10.0.0.1", "KAFKA_UI_PORT_80_TCP_ADDR": "10.0.0.2"}
        | {"KAFKA_SERVICE_PORT_CLIENTS": "9092", "KAFKA_PORT_9092_TCP": "tcp://10.0.0.1:9092"},
    )
    assert (config.node_id, config.metrics_port) == (1, 9404)
    assert config.log_directories == (tmp_path / "data",)
    assert parse_properties(config.render(), tmp_path / "elsewhere" / "node.properties") == config


@table(
    ("more", "said"),
    [
        ({"KAFKA_LOGDIRS": "/x"}, "KAFKA_LOGDIRS: unknown key logdirs; did you mean log.dirs?"),
        ({"KAFKA_ZOOKEEPER_CONNECTION": "x"}, "unknown key zookeeper.connection"),
        ({"KAFKA_NODE_ID": "one"}, "KAFKA_NODE_ID: node.id: expected"),
        ({"KAFKA_node_id": "2"}, "node.id is given twice"),
        ({"KAFKA_NODE_ID": "2"}, "the variables KAFKA_*: controller.quorum.voters: node.id 2 is not among"),
        ({"KAFKA_LOG_LEVEL": "info\nnode.id=3"}, "KAFKA_LOG_LEVEL: log.level: expected"),
    ],
)
def test_what_is_no_setting_is_refused_by_its_variable(more: dict[str, str], said: str) -> None:
    with pytest.raises(ConfigError) as caught:
        read_environment(LEAST | more)
    assert said in str(caught.value)


def test_what_is_missing_is_named() -> None:
    with pytest.raises(ConfigError, match=r"the variables KAFKA_\*: missing .*node.id"):
        read_environment({})
