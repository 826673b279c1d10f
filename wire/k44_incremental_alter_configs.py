"""IncrementalAlterConfigs, API key 44, versions 0-1: change some settings of topics.

1   flexible
Each resource has its own error.
"""

from typing import Final

from fencepost.controller.config_changes import (
    AlterConfigs,
    AlterConfigsAnswer,
    ConfigChange,
    ConfigsAltered,
    ResourceChanges,
)
from fencepost.controller.errors import ApiError
from fencepost.wire.cursor import Reader, Writer, read
from fencepost.wire.dispatch import BROKER, CONTROLLER, Api
from fencepost.wire.errors import code_of, message_of, raise_if_elsewhere
from fencepost.wire.request_limits import TOPIC_LISTS
from fencepost.wire.schema import LOOKED_UP_ELEMENTS_MAX, Buffer

_FLEXIBLE_FROM: Final = 1
ANSWER_ELEMENTS_MAX: Final = LOOKED_UP_ELEMENTS_MAX  # a row for each resource of a request


def _decode_request(version: int, body: Buffer) -> AlterConfigs:
    flexible = version >= _FLEXIBLE_FROM
    return read_request(f"IncrementalAlterConfigs v{version}", body, flexible=flexible, replaces_all=False)


def _encode_request(version: int, request: AlterConfigs) -> bytes:
    return write_request(request, flexible=version >= _FLEXIBLE_FROM)


def _encode_response(version: int, answer: AlterConfigsAnswer, throttle_ms: int) -> bytes:
    return write_response(answer, throttle_ms, flexible=version >= _FLEXIBLE_FROM)


def _refusal(version: int, request: AlterConfigs | None, error: ApiError, throttle_ms: int) -> bytes:
    return _encode_response(version, refused(request, error), throttle_ms)


def _decode_response(version: int, body: Buffer) -> AlterConfigsAnswer:
    flexible = version >= _FLEXIBLE_FROM
    return read_response(f"IncrementalAlterConfigs answer v{version}", body, flexible=flexible)


INCREMENTAL_ALTER_CONFIGS: Final[Api[AlterConfigs, AlterConfigsAnswer]] = Api(
    key=44,
    name="IncrementalAlterConfigs",
    versions=range(2),
    flexible_from=_FLEXIBLE_FROM,
    listeners=(BROKER, CONTROLLER),
    request_bytes_max=TOPIC_LISTS,  # 1,000 resources and 2,500 settings
    decode_request=_decode_request,
    encode_response=_encode_response,
    refusal=_refusal,
    encode_request=_encode_request,
    decode_response=_decode_response,
)


# -- what AlterConfigs (33) has, too: it differs in the operation alone ------------------------------------


def read_request(name: str, body: Buffer, *, flexible: bool, replaces_all: bool) -> AlterConfigs:
    """The request of key 44, or of key 33 if it ``replaces_all``. Raises CorruptData."""
    reader = Reader(body, flexible=flexible, elements_max=LOOKED_UP_ELEMENTS_MAX)

    def decode(reader: Reader) -> AlterConfigs:
        resources = tuple([_read_resource(reader, replaces_all) for _ in range(reader.count())])
        validate_only = reader.int8() != 0
        reader.skip_tags()
        return AlterConfigs(resources, validate_only, replaces_all)

    return read(name, reader, decode)


def _read_resource(reader: Reader, replaces_all: bool) -> ResourceChanges:
    resource_type, name = reader.int8(), reader.string()
    changes = []
    for _ in range(reader.count()):
        key = reader.string()
        operation = 0 if replaces_all else reader.int8()
        changes.append(ConfigChange(key, reader.nullable_string(), operation))
        reader.skip_tags()
    reader.skip_tags()
    return ResourceChanges(resource_type, name, tuple(changes))


def write_request(request: AlterConfigs, *, flexible: bool) -> bytes:
    """Inverse of ``read_request``."""
    writer = Writer(flexible=flexible)
    writer.count(len(request.resources))
    for resource in request.resources:
        writer.int8(resource.resource_type)
        writer.string(resource.name)
        writer.count(len(resource.changes))
        for change in resource.changes:
            writer.string(change.name)
            if not request.replaces_all:
                writer.int8(change.operation)
            writer.string(change.value)
            writer.no_tags()
        writer.no_tags()
    writer.int8(request.validate_only)
    writer.no_tags()
    return writer.message()


def write_response(answer: AlterConfigsAnswer, throttle_ms: int, *, flexible: bool) -> bytes:
    """The response of both keys."""
    writer = Writer(flexible=flexible)
    writer.int32(throttle_ms)
    writer.count(len(answer.resources))
    for each in answer.resources:
        writer.int16(each.error_code)
        writer.string(each.error_message)
        writer.int8(each.resource_type)
        writer.string(each.name)
        writer.no_tags()
    writer.no_tags()
    return writer.message()


def read_response(name: str, body: Buffer, *, flexible: bool) -> AlterConfigsAnswer:
    """Inverse of ``write_response``. Raises CorruptData, NotController."""
    reader = Reader(body, flexible=flexible, elements_max=ANSWER_ELEMENTS_MAX)
    answer = read(name, reader, _read_answer)
    raise_if_elsewhere(each.error_code for each in answer.resources)
    return answer


def _read_answer(reader: Reader) -> AlterConfigsAnswer:
    reader.int32()
    rows = []
    for _ in range(reader.count()):
        code, message = code_of(reader.int16()), reader.nullable_string()
        rows.append(ConfigsAltered(reader.int8(), reader.string(), code, message))
        reader.skip_tags()
    reader.skip_tags()
    reader.finish()
    return AlterConfigsAnswer(tuple(rows))


def refused(request: AlterConfigs | None, error: ApiError) -> AlterConfigsAnswer:
    """The error for each resource of the request."""
    resources = request.resources if request is not None else ()
    message = message_of(error)
    return AlterConfigsAnswer(
        tuple(ConfigsAltered(each.resource_type, each.name, error.code, message) for each in resources)
    )
