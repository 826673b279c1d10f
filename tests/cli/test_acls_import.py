"""What an ACL file's lines become, and that nothing of them is lost."""

import pytest

from fencepost.cli.acls_import import acls_of
from fencepost.controller.acl_book import AclBook, authorize
from fencepost.controller.acl_types import CLUSTER_NAME, Operation, ResourceType
from fencepost.controller.authorization import Acls
from fencepost.controller.authorization import Operation as FileOperation

FILE = "\n".join(f"User:{each.lower()} {each}" for each in FileOperation)


def book(text: str, *, allow_data: bool) -> AclBook:
    made = AclBook()
    acls = list(acls_of(Acls.parse(text).allowed or frozenset(), allow_data=allow_data))
    made.load(((acl.acl_id, acl) for acl in acls), len(acls))
    return made


def may(made: AclBook, who: str, operation: Operation, of: ResourceType, name: str) -> bool:
    return authorize(made, frozenset(), False, f"User:{who}", "127.0.0.1", operation, (of, name))


@pytest.mark.parametrize("operation", FileOperation)
def test_each_line_allows_what_it_did(operation: FileOperation) -> None:
    made, who = book(FILE, allow_data=False), operation.lower()
    if operation is FileOperation.TWO_PHASE_COMMIT:
        assert may(made, who, Operation.TWO_PHASE_COMMIT, ResourceType.TRANSACTIONAL_ID, "any")
        return
    assert may(made, who, Operation[operation.name], ResourceType.CLUSTER, CLUSTER_NAME)
    if operation in (FileOperation.DESCRIBE, FileOperation.ALTER):
        assert may(made, who, Operation.DESCRIBE, ResourceType.CLUSTER, CLUSTER_NAME)
        assert may(made, who, Operation.DESCRIBE_CONFIGS, ResourceType.TOPIC, "any")
        assert may(made, who, Operation.DESCRIBE, ResourceType.TRANSACTIONAL_ID, "any")


DATA = (ResourceType.TOPIC, ResourceType.GROUP, ResourceType.TRANSACTIONAL_ID)


@pytest.mark.parametrize("allow_data", [False, True])
def test_data_stays_open_only_if_that_is_wanted(allow_data: bool) -> None:
    made = book(FILE, allow_data=allow_data)
    for of in DATA:
        assert may(made, "stranger", Operation.WRITE, of, "any") is allow_data
    assert may(made, "stranger", Operation.IDEMPOTENT_WRITE, ResourceType.CLUSTER, CLUSTER_NAME) is allow_data
    assert not may(made, "stranger", Operation.ALTER, ResourceType.CLUSTER, CLUSTER_NAME)
