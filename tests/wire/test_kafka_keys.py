"""docs/not-served.md names each key, version and setting of Kafka 4.1 that a node lacks, and no other."""

import re
from collections.abc import Iterator
from pathlib import Path

from kio.schema import index

from fencepost.controller.broker_configs import CHANGEABLE
from fencepost.controller.topic_configs import SETTINGS
from fencepost.wire import dispatch
from fencepost.wire.registry import APIS
from tests.wire import kafka_keys

PAGE = Path(__file__).parents[2] / "docs" / "not-served.md"
LISTENERS = {dispatch.BROKER: kafka_keys.BROKER, dispatch.CONTROLLER: kafka_keys.CONTROLLER}
WHERE = {
    (dispatch.BROKER,): "broker",
    (dispatch.CONTROLLER,): "controller",
    (dispatch.BROKER, dispatch.CONTROLLER): "both",
}


def rows(heading: str) -> Iterator[list[str]]:
    """The cells of the table below it."""
    text = PAGE.read_text("utf-8").split(f"## {heading}\n")[1].split("\n## ")[0]
    lines = [line for line in text.splitlines() if line.startswith("| ")]
    for line in lines[1:]:  # without its head
        yield [cell.strip() for cell in line.strip("|").split("|")]


def names(heading: str) -> set[str]:
    """What is in code marks, of what stands below it."""
    text = PAGE.read_text("utf-8").split(f"## {heading}\n")[1].split("\n## ")[0]
    return set(re.findall(r"`([a-z.]+)`", text))


def is_served(key: int, listener: str) -> bool:
    return key in APIS and listener in APIS[key].listeners


def test_every_key_that_is_not_served_is_on_the_page() -> None:
    missing: dict[int, list[str]] = {}
    for listener, keys in LISTENERS.items():
        for key in keys:
            if not is_served(key, listener):
                missing.setdefault(key, []).append(listener)
    expected = {str(key): WHERE[tuple(listeners)] for key, listeners in sorted(missing.items())}
    assert {cells[0]: cells[2] for cells in rows("Keys")} == expected


def test_every_key_on_the_page_has_its_name() -> None:
    for key, name, *_ in rows("Keys"):
        known = index.api_key_map[int(key)]
        assert known.replace("_", "") == name.lower()


def test_every_version_that_is_not_served_is_on_the_page() -> None:
    expected = set()
    for listener, keys in LISTENERS.items():
        for key, (first, last) in keys.items():
            if is_served(key, listener):
                api = APIS[key]
                served = max(api.versions[0], api.served_from), api.versions[-1]
                if served[0] > first or served[1] < last:
                    ranges = [f"{low} to {high}" for low, high in ((first, last), served)]
                    expected.add((str(key), api.name, *ranges))
    assert {tuple(cells[:4]) for cells in rows("Versions")} == expected


def test_every_setting_of_a_topic_that_has_one_value_is_on_the_page() -> None:
    fixed = {name: setting.default for name, setting in SETTINGS.items() if setting.is_fixed}
    found = {name.strip("`"): value.strip("`") for name, value, *_ in rows("Settings of topics")}
    assert found == fixed


def test_no_setting_of_brokers_is_called_fixed_that_changes() -> None:
    named = names("Settings of brokers")
    assert not named & CHANGEABLE.keys()
    assert named >= {"num.io.threads", "ssl.keystore.location", "log.cleaner.threads", "max.connections"}


def test_what_applications_asked_for_is_served_and_what_they_missed_is_on_the_page() -> None:
    missing = {cells[0] for cells in rows("Keys")}
    for application, asked, _, missed in rows("What applications asked for"):
        for part in asked.split(", "):
            first, _, last = part.partition(" to ")
            for key in range(int(first), int(last or first) + 1):
                assert is_served(key, dispatch.BROKER), (application, key)
        assert missed == "none" or missed in missing
