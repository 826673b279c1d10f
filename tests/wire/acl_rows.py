"""Rows of DescribeAcls, CreateAcls and DeleteAcls."""

from typing import Any

from fencepost.controller import acl_types as acls
from fencepost.wire import k29_describe_acls as k29
from fencepost.wire import k30_create_acls as k30
from fencepost.wire import k31_delete_acls as k31
from tests.wire.row import Row, everything

READS = acls.Acl(2, 3, "orders", "User:alice", "*", 3, 3)
WRITES = acls.Acl(2, 3, "orders", "User:alice", "127.0.0.1", 4, 2)
PAYS = acls.Acl(3, 4, "pay-", "User:bob", "*", 2, 3)
BY_ALICE = acls.AclFilter(resource_type=2, name="orders", principal="User:alice")


def _filter(version: int, entity: Any) -> acls.AclFilter:
    return acls.AclFilter(
        entity.resource_type_filter,
        entity.resource_name_filter,
        entity.pattern_type_filter,
        entity.principal_filter,
        entity.host_filter,
        entity.operation,
        entity.permission_type,
    )


def _acl(resource: Any, each: Any, pattern_type: int) -> acls.Acl:
    return acls.Acl(
        resource.resource_type,
        pattern_type,
        resource.resource_name,
        each.principal,
        each.host,
        each.operation,
        each.permission_type,
    )


ACL_ROWS = [
    Row(
        k29.DESCRIBE_ACLS,
        BY_ALICE,
        acls.DescribeAclsAnswer((READS, WRITES, PAYS)),
        everything,
        everything,
        _filter,
        lambda version, entity: acls.DescribeAclsAnswer(
            tuple(_acl(each, acl, each.pattern_type) for each in entity.resources for acl in each.acls)
        ),
    ),
    Row(
        k30.CREATE_ACLS,
        acls.CreateAcls((READS, PAYS)),
        acls.CreateAclsAnswer((acls.AclResult(), acls.AclResult(42, "no"))),
        everything,
        everything,
        lambda version, entity: acls.CreateAcls(
            tuple(_acl(each, each, each.resource_pattern_type) for each in entity.creations)
        ),
        lambda version, entity: acls.CreateAclsAnswer(
            tuple(acls.AclResult(each.error_code.value, each.error_message) for each in entity.results)
        ),
    ),
    Row(
        k31.DELETE_ACLS,
        acls.DeleteAcls((BY_ALICE, acls.AclFilter())),
        acls.DeleteAclsAnswer((acls.AclsDeleted((READS, WRITES)), acls.AclsDeleted((), 42, "no"))),
        everything,
        everything,
        lambda version, entity: acls.DeleteAcls(tuple(_filter(version, each) for each in entity.filters)),
        lambda version, entity: acls.DeleteAclsAnswer(
            tuple(
                acls.AclsDeleted(
                    tuple(_acl(acl, acl, acl.pattern_type) for acl in each.matching_acls),
                    each.error_code.value,
                    each.error_message,
                )
                for each in entity.filter_results
            )
        ),
    ),
]
