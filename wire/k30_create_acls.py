"""CreateAcls, API key 30, versions 1-3: add ACLs.

1   pattern_type      2   flexible      3   resources of type USER
Each ACL has its own error.
"""

from typing import Final

from fencepost.controller.acl_types import Acl, AclResult, CreateAcls, CreateAclsAnswer
from fencepost.controller.errors import ApiError
from fencepost.wire.dispatch import BROKER, CONTROLLER, Api
from fencepost.wire.errors import message_of, raise_if_elsewhere
from fencepost.wire.request_limits import TOPIC_LISTS
from fencepost.wire.schema import NAMED_ELEMENTS_MAX, Buffer, Message

_REQUEST: Final = Message(30, "request", elements_max=NAMED_ELEMENTS_MAX)
_RESPONSE: Final = Message(30, "response")


def _decode_request(version: int, body: Buffer) -> CreateAcls:
    return CreateAcls(
        tuple(
            Acl(
                each["resource_type"],
                each["resource_pattern_type"],
                each["resource_name"],
                each["principal"],
                each["host"],
                each["operation"],
                each["permission_type"],
            )
            for each in _REQUEST.decode(version, body)["creations"]
        )
    )


def _encode_request(version: int, request: CreateAcls) -> bytes:
    creations = tuple(
        {
            "resource_type": acl.resource_type,
            "resource_name": acl.name,
            "resource_pattern_type": acl.pattern_type,
            "principal": acl.principal,
            "host": acl.host,
            "operation": acl.operation,
            "permission_type": acl.permission,
        }
        for acl in request.acls
    )
    return _REQUEST.encode(version, {"creations": creations})


def _encode_response(version: int, answer: CreateAclsAnswer, throttle_ms: int) -> bytes:
    results = tuple(
        {"error_code": each.error_code, "error_message": each.error_message} for each in answer.results
    )
    return _RESPONSE.encode(version, {"throttle_time_ms": throttle_ms, "results": results})


def _refusal(version: int, request: CreateAcls | None, error: ApiError, throttle_ms: int) -> bytes:
    count = 1 if request is None else len(request.acls)
    result = AclResult(error.code, message_of(error))
    return _encode_response(version, CreateAclsAnswer((result,) * count), throttle_ms)


def _decode_response(version: int, body: Buffer) -> CreateAclsAnswer:
    rows = _RESPONSE.decode(version, body)["results"]
    raise_if_elsewhere(each["error_code"] for each in rows)
    return CreateAclsAnswer(tuple(AclResult(each["error_code"], each["error_message"]) for each in rows))


CREATE_ACLS: Final[Api[CreateAcls, CreateAclsAnswer]] = Api(
    key=30,
    name="CreateAcls",
    versions=range(1, 4),
    flexible_from=2,
    listeners=(BROKER, CONTROLLER),
    request_bytes_max=TOPIC_LISTS,
    decode_request=_decode_request,
    encode_response=_encode_response,
    refusal=_refusal,
    encode_request=_encode_request,
    decode_response=_decode_response,
)
