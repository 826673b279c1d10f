"""AlterConfigs, API key 33, versions 0-2: set all settings of topics; what is not named is removed.

2   flexible
Each resource has its own error. Bytes as IncrementalAlterConfigs (44), without the operation.
"""

from typing import Final

from fencepost.controller.config_changes import AlterConfigs, AlterConfigsAnswer
from fencepost.controller.errors import ApiError
from fencepost.wire.dispatch import BROKER, CONTROLLER, Api
from fencepost.wire.k44_incremental_alter_configs import (
    read_request,
    read_response,
    refused,
    write_request,
    write_response,
)
from fencepost.wire.request_limits import TOPIC_LISTS
from fencepost.wire.schema import Buffer

_FLEXIBLE_FROM: Final = 2


def _decode_request(version: int, body: Buffer) -> AlterConfigs:
    return read_request(
        f"AlterConfigs v{version}", body, flexible=version >= _FLEXIBLE_FROM, replaces_all=True
    )


def _encode_request(version: int, request: AlterConfigs) -> bytes:
    return write_request(request, flexible=version >= _FLEXIBLE_FROM)


def _encode_response(version: int, answer: AlterConfigsAnswer, throttle_ms: int) -> bytes:
    return write_response(answer, throttle_ms, flexible=version >= _FLEXIBLE_FROM)


def _refusal(version: int, request: AlterConfigs | None, error: ApiError, throttle_ms: int) -> bytes:
    return _encode_response(version, refused(request, error), throttle_ms)


def _decode_response(version: int, body: Buffer) -> AlterConfigsAnswer:
    return read_response(f"AlterConfigs answer v{version}", body, flexible=version >= _FLEXIBLE_FROM)


ALTER_CONFIGS: Final[Api[AlterConfigs, AlterConfigsAnswer]] = Api(
    key=33,
    name="AlterConfigs",
    versions=range(3),
    flexible_from=_FLEXIBLE_FROM,
    listeners=(BROKER, CONTROLLER),
    request_bytes_max=TOPIC_LISTS,  # 1,000 resources and 2,500 settings
    decode_request=_decode_request,
    encode_response=_encode_response,
    refusal=_refusal,
    encode_request=_encode_request,
    decode_response=_decode_response,
)
