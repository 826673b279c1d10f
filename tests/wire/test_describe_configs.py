"""Refusals of DescribeConfigs, CreateTopics and DeleteTopics: the error stands at each part."""

from typing import Any

import pytest

from fencepost.controller.errors import ErrorCode, InvalidRequest, NotController, StaleBrokerEpoch
from fencepost.controller.topics import CreateTopics, DeleteTopics, NewTopic
from fencepost.records.types import BrokerEpoch, BrokerId
from fencepost.wire.dispatch import Api
from fencepost.wire.k19_create_topics import CREATE_TOPICS
from fencepost.wire.k20_delete_topics import DELETE_TOPICS
from fencepost.wire.k32_describe_configs import DESCRIBE_CONFIGS
from tests.together import table
from tests.wire.topic_rows import CONFIGS

DESCRIBE = CONFIGS.request


def test_a_refusal_stands_at_each_resource() -> None:
    error = StaleBrokerEpoch(broker_id=BrokerId(1), sent=BrokerEpoch(1), current=None)
    refused = DESCRIBE_CONFIGS.decode_response(4, DESCRIBE_CONFIGS.refusal(4, DESCRIBE, error, 0))
    assert [each.name for each in refused.results] == ["orders", "none", "1"]
    assert {each.error_code for each in refused.results} == {ErrorCode.STALE_BROKER_EPOCH}


@table(
    ("api", "request_"),
    [
        pytest.param(DESCRIBE_CONFIGS, DESCRIBE, id="DescribeConfigs"),
        pytest.param(CREATE_TOPICS, CreateTopics((NewTopic("a"), NewTopic("b"))), id="CreateTopics"),
        pytest.param(DELETE_TOPICS, DeleteTopics(("a", "b")), id="DeleteTopics"),
    ],
)
def test_the_wrong_controller_is_known_by_its_rows(api: Api[Any, Any], request_: Any) -> None:
    """So that a ControllerClient asks the next one."""
    version = api.versions[-1]
    with pytest.raises(NotController):
        api.decode_response(version, api.refusal(version, request_, NotController("not I"), 0))
    api.decode_response(version, api.refusal(version, request_, InvalidRequest("no"), 0))
