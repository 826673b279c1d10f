"""Settings of brokers that change while they run: what is accepted, kept and in force."""

from collections.abc import Mapping

import pytest

from fencepost.controller import broker_configs, cluster_version
from fencepost.controller.broker_configs import BROKER_RESOURCE, CHANGEABLE
from fencepost.controller.config_changes import (
    AlterConfigs,
    ConfigChange,
    ConfigOperation,
    ConfigsAltered,
    ResourceChanges,
    decide_alter,
    require_count,
)
from fencepost.controller.errors import ErrorCode, UnsupportedVersion
from fencepost.controller.levels import LOG_LEVEL
from fencepost.controller.replay import replay_record
from fencepost.controller.topic_configs import (
    SETTINGS,
    SOURCE_BROKER,
    SOURCE_BROKERS,
    SOURCE_DEFAULT,
    SOURCE_PROPERTIES,
    SOURCE_TOPIC,
    in_force,
    with_properties,
)
from fencepost.controller.topics import ConfigSynonym, TopicConfig
from fencepost.controller.view import Overlay
from fencepost.records.levels import SETTINGS_OF_BROKERS
from fencepost.records.schema import ConfigRecord, FeatureLevelRecord
from fencepost.records.types import BrokerId
from tests.controller.topic_worlds import world
from tests.together import table

ALL, ONE = "", "1"
RETENTION, POLICY = "log.retention.ms", "log.cleanup.policy"


def stage(*, level: int = SETTINGS_OF_BROKERS) -> Overlay:
    view = world()
    replay_record(view, FeatureLevelRecord(name=LOG_LEVEL, feature_level=level))
    return view


def alter(view: Overlay, name: str, *changes: ConfigChange, replaces_all: bool = False) -> ConfigsAltered:
    resource = ResourceChanges(BROKER_RESOURCE, name, changes)
    request = AlterConfigs((resource,), replaces_all=replaces_all)
    decision = decide_alter(view, request, require_count(request))
    for record in decision.records:
        replay_record(view, record)
    (row,) = decision.response.resources
    return row


def set_to(view: Overlay, name: str, settings: Mapping[str, str]) -> None:
    changes = (ConfigChange(setting, value) for setting, value in settings.items())
    assert alter(view, name, *changes).error_code == ErrorCode.NONE


REFUSED = [
    (ONE, "num.network.threads", "8", ErrorCode.INVALID_REQUEST, "num.network.threads"),
    (ONE, "log.dirs", "/tmp", ErrorCode.INVALID_REQUEST, "log.dirs"),
    (ONE, "retention.ms", "1", ErrorCode.INVALID_REQUEST, "retention.ms"),
    (ALL, "min.insync.replicas", "2", ErrorCode.INVALID_REQUEST, "min.insync.replicas"),
    (ALL, "log.preallocate", "false", ErrorCode.INVALID_REQUEST, "log.preallocate"),
    (ALL, RETENTION, "-2", ErrorCode.INVALID_REQUEST, RETENTION),
    (ALL, RETENTION, "soon", ErrorCode.INVALID_REQUEST, RETENTION),
    (ALL, POLICY, "evict", ErrorCode.INVALID_REQUEST, POLICY),
    ("99", RETENTION, "1", ErrorCode.BROKER_ID_NOT_REGISTERED, "99"),
    ("01", RETENTION, "1", ErrorCode.INVALID_REQUEST, "'01'"),
    ("-1", RETENTION, "1", ErrorCode.INVALID_REQUEST, "'-1'"),
    ("\u0661", RETENTION, "1", ErrorCode.INVALID_REQUEST, "broker"),
    ("1" * 30_000, RETENTION, "1", ErrorCode.INVALID_REQUEST, "broker"),
    ("orders", RETENTION, "1", ErrorCode.INVALID_REQUEST, "'orders'"),
]


@table(("whose", "name", "value", "code", "named"), REFUSED)
def test_what_no_broker_obeys_is_refused_by_name(
    whose: str, name: str, value: str, code: ErrorCode, named: str
) -> None:
    view = stage()
    row = (
        alter(view, whose, ConfigChange(RETENTION, "7"), ConfigChange(name, value))
        if (name != RETENTION)
        else alter(view, whose, ConfigChange(name, value))
    )
    assert (row.resource_type, row.name, row.error_code) == (BROKER_RESOURCE, whose, code)
    assert named in (row.error_message or "")
    assert broker_configs.layers(view, BrokerId(1)) == ()


def test_what_can_change_is_what_topics_have_by_default_and_nothing_that_is_fixed() -> None:
    of_topics = {each.of_broker for each in SETTINGS.values() if not each.is_fixed}
    assert CHANGEABLE.keys() == of_topics - {"", "min.insync.replicas"}
    view = stage()
    set_to(view, ALL, {name: each.default for name, each in CHANGEABLE.items()})
    assert dict(broker_configs.find(view, ALL)) == {name: each.default for name, each in CHANGEABLE.items()}


def test_below_its_log_level_nothing_is_changed() -> None:
    view = stage(level=SETTINGS_OF_BROKERS - 1)
    row = alter(view, ALL, ConfigChange(RETENTION, "7"))
    assert row.error_code == UnsupportedVersion.code
    assert f"log level {SETTINGS_OF_BROKERS}" in (row.error_message or "")


def test_a_broker_has_its_own_before_those_of_all_and_deleting_one_uncovers_the_next() -> None:
    view = stage()
    set_to(view, ALL, {RETENTION: "8", "message.max.bytes": "99"})
    set_to(view, ONE, {RETENTION: " 7 "})
    one, every = (ConfigSynonym(RETENTION, v, s) for v, s in (("7", SOURCE_BROKER), ("8", SOURCE_BROKERS)))
    size = ("message.max.bytes", (ConfigSynonym("message.max.bytes", "99", SOURCE_BROKERS),))
    assert broker_configs.layers(view, BrokerId(1)) == ((RETENTION, (one, every)), size)
    assert broker_configs.layers(view, BrokerId(2)) == ((RETENTION, (every,)), size)
    assert broker_configs.layers(view, None) == ((RETENTION, (every,)), size)
    assert alter(view, ONE, ConfigChange(RETENTION, None, ConfigOperation.DELETE)).error_code == 0
    assert broker_configs.layers(view, BrokerId(1)) == ((RETENTION, (every,)), size)
    assert alter(view, ALL, replaces_all=True).error_code == 0
    assert broker_configs.layers(view, BrokerId(1)) == ()
    assert list(view.scan(broker_configs.BROKER_CONFIGS)) == []


def test_a_list_is_appended_to_and_subtracted_from() -> None:
    view = stage()
    for operation, value in (
        (ConfigOperation.APPEND, "delete,compact"),
        (ConfigOperation.SUBTRACT, "compact"),
    ):
        alter(view, ALL, ConfigChange(POLICY, "compact", operation))
        assert broker_configs.find(view, ALL) == ((POLICY, value if operation == 2 else "delete"),)
    assert alter(view, ALL, ConfigChange(RETENTION, "1", ConfigOperation.APPEND)).error_code == 40


def test_each_change_is_another_digest_and_another_version_of_the_cluster() -> None:
    view = stage()
    seen, versions = [broker_configs.digest_of(view, BrokerId(1))], [cluster_version.current(view)]
    for whose, value in ((ALL, "7"), (ONE, "7"), (ONE, "8")):
        set_to(view, whose, {RETENTION: value})
        seen.append(broker_configs.digest_of(view, BrokerId(1)))
        versions.append(cluster_version.current(view))
    assert seen[0] == 0
    assert len(set(seen)) == len(seen)
    assert len(set(versions)) == len(versions)
    assert all(0 <= each < 2**63 for each in seen)
    other = stage()
    set_to(other, ONE, {RETENTION: "7"})
    assert broker_configs.digest_of(other, BrokerId(1)) != seen[1], "of one broker is not of all"
    assert broker_configs.digest_of(other, BrokerId(2)) == 0


def test_the_records_of_what_is_kept_make_it_again() -> None:
    view, again = stage(), stage()
    set_to(view, ALL, {RETENTION: "8", POLICY: "compact"})
    set_to(view, ONE, {RETENTION: "7"})
    records = tuple(broker_configs.records_of(view))
    assert all(isinstance(each, ConfigRecord) for each in records)
    for record in records:
        replay_record(again, record)
    assert list(again.scan(broker_configs.BROKER_CONFIGS)) == list(view.scan(broker_configs.BROKER_CONFIGS))


LAYERS = [
    pytest.param((), (), (), [SOURCE_DEFAULT], id="default"),
    pytest.param((), (), (RETENTION,), [SOURCE_PROPERTIES, SOURCE_DEFAULT], id="properties"),
    pytest.param((), (ALL,), (), [SOURCE_BROKERS, SOURCE_DEFAULT], id="all-brokers"),
    pytest.param(
        ("retention.ms",),
        (ONE, ALL),
        (RETENTION,),
        [SOURCE_TOPIC, SOURCE_BROKER, SOURCE_BROKERS, SOURCE_PROPERTIES, SOURCE_DEFAULT],
        id="every-one",
    ),
]


@pytest.mark.parametrize(("own", "changed", "properties", "sources"), LAYERS)
def test_a_topics_setting_is_the_first_of_its_synonyms(
    own: tuple[str, ...], changed: tuple[str, ...], properties: tuple[str, ...], sources: list[int]
) -> None:
    view = stage()
    for number, whose in enumerate(changed):
        set_to(view, whose, {RETENTION: str(number)})
    defaults = with_properties(
        broker_configs.layers(view, BrokerId(1)), tuple((name, "77") for name in properties)
    )
    found = in_force(tuple((name, "66") for name in own), defaults)
    (row,) = (each for each in found if each.name == "retention.ms")
    assert [each.source for each in row.synonyms] == sources
    assert (row.value, row.source) == (row.synonyms[0].value, sources[0])
    names = {each.source: each.name for each in row.synonyms}
    assert names == {each: "retention.ms" if each == SOURCE_TOPIC else RETENTION for each in sources}
    assert all(isinstance(each, TopicConfig) for each in found)
    assert [each.name for each in found] == sorted(SETTINGS)


def test_below_its_log_level_no_digest_is_one() -> None:
    """It is none that a broker could have seen."""
    for level in (SETTINGS_OF_BROKERS - 1, SETTINGS_OF_BROKERS):
        found = [broker_configs.digest_of(world(log_level=level), BrokerId(1))]
        assert found == [-1 if level < SETTINGS_OF_BROKERS else 0]
    view = world(log_level=SETTINGS_OF_BROKERS)
    replay_record(view, ConfigRecord(resource_type=4, resource_name="1", name="log.retention.ms", value="5"))
    assert broker_configs.digest_of(view, BrokerId(1)) > 0
    assert broker_configs.digest_of(view, BrokerId(2)) == 0
