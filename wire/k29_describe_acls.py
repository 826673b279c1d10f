"""DescribeAcls, API key 29, versions 1-3: the ACLs that match a filter.

1   pattern_type      2   flexible      3   resources of type USER
ACLs of one resource stand together.
"""

from typing import Any, Final

from fencepost.controller.acl_types import Acl, AclFilter, DescribeAclsAnswer
from fencepost.controller.errors import ApiError
from fencepost.wire.cursor import Writer, grouped
from fencepost.wire.dispatch import BROKER, CONTROLLER, Api
from fencepost.wire.errors import message_of, raise_for
from fencepost.wire.request_limits import SMALL
from fencepost.wire.schema import ANSWER_ELEMENTS_MAX, Buffer, Message
from fencepost.wire.steps import Steps, completed

ROWS_AT_ONCE_MAX: Final = 1_000
"""ACLs that are written in one step of the loop, besides those of the resource that passes it."""

_FLEXIBLE_FROM: Final = 2
_REQUEST: Final = Message(29, "request")
_RESPONSE: Final = Message(29, "response", elements_max=ANSWER_ELEMENTS_MAX)


def _decode_request(version: int, body: Buffer) -> AclFilter:
    return filter_of(_REQUEST.decode(version, body))


def filter_of(message: dict[str, Any]) -> AclFilter:
    """The filter that a request, or one of its elements, is."""
    return AclFilter(
        message["resource_type_filter"],
        message["resource_name_filter"],
        message["pattern_type_filter"],
        message["principal_filter"],
        message["host_filter"],
        message["operation"],
        message["permission_type"],
    )


def message_from(wanted: AclFilter) -> dict[str, Any]:
    """Inverse of ``filter_of``."""
    return {
        "resource_type_filter": wanted.resource_type,
        "resource_name_filter": wanted.name,
        "pattern_type_filter": wanted.pattern_type,
        "principal_filter": wanted.principal,
        "host_filter": wanted.host,
        "operation": wanted.operation,
        "permission_type": wanted.permission,
    }


def _encode_request(version: int, request: AclFilter) -> bytes:
    return _REQUEST.encode(version, message_from(request))


def _encode_response(version: int, answer: DescribeAclsAnswer, throttle_ms: int) -> bytes:
    return b"".join(completed(_encode_steps(version, answer, throttle_ms)))


def _encode_steps(version: int, answer: DescribeAclsAnswer, throttle_ms: int) -> Steps[list[bytes]]:
    return _steps(version, answer, throttle_ms, 0, None)


def _refusal(version: int, request: AclFilter | None, error: ApiError, throttle_ms: int) -> bytes:
    steps = _steps(version, DescribeAclsAnswer(()), throttle_ms, error.code, message_of(error))
    return b"".join(completed(steps))


def _steps(
    version: int, answer: DescribeAclsAnswer, throttle_ms: int, code: int, text: str | None
) -> Steps[list[bytes]]:
    """By hand: there may be 200,000 of them."""
    steps: list[bytes] = []
    writer = Writer(flexible=version >= _FLEXIBLE_FROM)
    writer.int32(throttle_ms)
    writer.int16(code)
    writer.string(text)
    resources = grouped(answer.acls, lambda acl: (acl.resource_type, acl.name, acl.pattern_type))
    writer.count(len(resources))
    rows = 0
    for (resource_type, name, pattern_type), acls in resources.items():
        writer.int8(resource_type)
        writer.string(name)
        writer.int8(pattern_type)
        writer.count(len(acls))
        for acl in acls:
            writer.string(acl.principal)
            writer.string(acl.host)
            writer.int8(acl.operation)
            writer.int8(acl.permission)
            writer.no_tags()
            rows += 1
            if rows >= ROWS_AT_ONCE_MAX:
                rows = 0
                steps.append(writer.message())
                writer.parts.clear()
                yield
        writer.no_tags()
    writer.no_tags()
    return [*steps, writer.message()]


def _decode_response(version: int, body: Buffer) -> DescribeAclsAnswer:
    message = _RESPONSE.decode(version, body)
    raise_for(message["error_code"], message["error_message"])
    return DescribeAclsAnswer(
        tuple(
            Acl(
                each["resource_type"],
                each["pattern_type"],
                each["resource_name"],
                acl["principal"],
                acl["host"],
                acl["operation"],
                acl["permission_type"],
            )
            for each in message["resources"]
            for acl in each["acls"]
        )
    )


DESCRIBE_ACLS: Final[Api[AclFilter, DescribeAclsAnswer]] = Api(
    key=29,
    name="DescribeAcls",
    versions=range(1, 4),
    flexible_from=_FLEXIBLE_FROM,
    listeners=(BROKER, CONTROLLER),
    request_bytes_max=2 * SMALL,  # a name, a principal and a host
    decode_request=_decode_request,
    encode_response=_encode_response,
    refusal=_refusal,
    encode_request=_encode_request,
    decode_response=_decode_response,
    encode_steps=_encode_steps,
)
