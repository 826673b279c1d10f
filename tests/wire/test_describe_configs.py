"""DescribeConfigs: what is written is read back at every version, and kio reads the same."""

import pytest

from controller.errors import ErrorCode, StaleBrokerEpoch
from controller.topics import TopicConfig
from records.types import BrokerEpoch, BrokerId
from tests.wire.every_api import kios_request, kios_response
from wire.k32_describe_configs import (
    BROKER_RESOURCE,
    DESCRIBE_CONFIGS,
    TOPIC_RESOURCE,
    ConfigResource,
    ConfigsDescribed,
    DescribeConfigs,
    DescribeConfigsAnswer,
)

ASKED = DescribeConfigs(
    (
        ConfigResource(TOPIC_RESOURCE, "orders"),
        ConfigResource(TOPIC_RESOURCE, "none", ()),
        ConfigResource(BROKER_RESOURCE, "1", ("retention.ms", "x")),
    )
)
TOLD = DescribeConfigsAnswer(
    (
        ConfigsDescribed(
            TOPIC_RESOURCE,
            "orders",
            (TopicConfig("retention.ms", "5", 1), TopicConfig("secret", None, 5, True, True)),
        ),
        ConfigsDescribed(BROKER_RESOURCE, "1", (), ErrorCode.INVALID_REQUEST, "no"),
    )
)


@pytest.mark.parametrize("version", DESCRIBE_CONFIGS.versions, ids="v{}".format)
def test_it_comes_back_and_kio_reads_it(version: int) -> None:
    request = DESCRIBE_CONFIGS.encode_request(version, ASKED)
    assert DESCRIBE_CONFIGS.decode_request(version, request) == ASKED
    theirs, end = kios_request(32, version, request)
    assert (len(theirs.resources), end) == (3, len(request))
    response = DESCRIBE_CONFIGS.encode_response(version, TOLD, 7)
    assert DESCRIBE_CONFIGS.decode_response(version, response) == TOLD
    theirs, end = kios_response(32, version, response)
    assert [row.name for row in theirs.results[0].configs] == ["retention.ms", "secret"]
    assert end == len(response)


def test_a_refusal_stands_at_each_resource() -> None:
    error = StaleBrokerEpoch(broker_id=BrokerId(1), sent=BrokerEpoch(1), current=None)
    refused = DESCRIBE_CONFIGS.decode_response(4, DESCRIBE_CONFIGS.refusal(4, ASKED, error, 0))
    assert [each.name for each in refused.results] == ["orders", "none", "1"]
    assert {each.error_code for each in refused.results} == {ErrorCode.STALE_BROKER_EPOCH}
