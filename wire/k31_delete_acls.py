"""DeleteAcls, API key 31, versions 1-3: remove the ACLs that match filters.

1   pattern_type      2   flexible      3   resources of type USER
Each filter has its own error; none of the ACLs that it matched has one.
"""

from typing import Any, Final

from fencepost.controller.acl_types import Acl, AclsDeleted, DeleteAcls, DeleteAclsAnswer
from fencepost.controller.errors import ApiError
from fencepost.wire.dispatch import BROKER, CONTROLLER, Api
from fencepost.wire.errors import message_of, raise_if_elsewhere
from fencepost.wire.k29_describe_acls import filter_of, message_from
from fencepost.wire.request_limits import TOPIC_LISTS
from fencepost.wire.schema import ANSWER_ELEMENTS_MAX, Buffer, Message

FILTERS_MAX: Final = 1_000  # of one request: each is compared with every ACL

_REQUEST: Final = Message(31, "request", elements_max=FILTERS_MAX)
_RESPONSE: Final = Message(31, "response", elements_max=ANSWER_ELEMENTS_MAX)


def _decode_request(version: int, body: Buffer) -> DeleteAcls:
    return DeleteAcls(tuple(filter_of(each) for each in _REQUEST.decode(version, body)["filters"]))


def _encode_request(version: int, request: DeleteAcls) -> bytes:
    return _REQUEST.encode(version, {"filters": tuple(message_from(each) for each in request.filters)})


def _encode_response(version: int, answer: DeleteAclsAnswer, throttle_ms: int) -> bytes:
    results = tuple(
        {
            "error_code": each.error_code,
            "error_message": each.error_message,
            "matching_acls": tuple(_matching(acl) for acl in each.acls),
        }
        for each in answer.results
    )
    return _RESPONSE.encode(version, {"throttle_time_ms": throttle_ms, "filter_results": results})


def _matching(acl: Acl) -> dict[str, Any]:
    return {
        "error_code": 0,
        "error_message": None,
        "resource_type": acl.resource_type,
        "resource_name": acl.name,
        "pattern_type": acl.pattern_type,
        "principal": acl.principal,
        "host": acl.host,
        "operation": acl.operation,
        "permission_type": acl.permission,
    }


def _refusal(version: int, request: DeleteAcls | None, error: ApiError, throttle_ms: int) -> bytes:
    count = 1 if request is None else len(request.filters)
    result = AclsDeleted((), error.code, message_of(error))
    return _encode_response(version, DeleteAclsAnswer((result,) * count), throttle_ms)


def _decode_response(version: int, body: Buffer) -> DeleteAclsAnswer:
    rows = _RESPONSE.decode(version, body)["filter_results"]
    raise_if_elsewhere(each["error_code"] for each in rows)
    return DeleteAclsAnswer(
        tuple(
            AclsDeleted(
                tuple(
                    Acl(
                        acl["resource_type"],
                        acl["pattern_type"],
                        acl["resource_name"],
                        acl["principal"],
                        acl["host"],
                        acl["operation"],
                        acl["permission_type"],
                    )
                    for acl in each["matching_acls"]
                ),
                each["error_code"],
                each["error_message"],
            )
            for each in rows
        )
    )


DELETE_ACLS: Final[Api[DeleteAcls, DeleteAclsAnswer]] = Api(
    key=31,
    name="DeleteAcls",
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
