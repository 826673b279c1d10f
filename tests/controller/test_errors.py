"""Error codes are Kafka's."""

from kio.schema.errors import ErrorCode as KafkaErrorCode

from fencepost.controller.errors import ErrorCode


def test_each_code_is_kafkas() -> None:
    ours = {each.name.lower(): int(each) for each in ErrorCode}
    assert ours == {name: int(KafkaErrorCode[name]) for name in ours}
