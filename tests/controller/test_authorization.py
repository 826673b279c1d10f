"""Who may do what: deny by default where there are ACLs, everything where there are none (row 730.4)."""

import pytest

from fencepost.controller.authorization import ACLS_MAX, ANONYMOUS, Acls, AclSyntaxError, Operation
from fencepost.controller.errors import ClusterAuthorizationFailed, ErrorCode
from tests.together import table

TEXT = """
# brokers
User:alice CLUSTER_ACTION
User:bob   DESCRIBE   # reads only
User:carol ALTER
"""

ALLOWED = [
    pytest.param("User:alice", Operation.CLUSTER_ACTION, True, id="as-written"),
    pytest.param("User:alice", Operation.ALTER, False, id="another-operation"),
    pytest.param("User:alice", Operation.DESCRIBE, True, id="cluster-action-implies-describe"),
    pytest.param("User:carol", Operation.DESCRIBE, True, id="alter-implies-describe"),
    pytest.param("User:carol", Operation.CLUSTER_ACTION, False, id="alter-implies-nothing-else"),
    pytest.param("User:bob", Operation.DESCRIBE, True, id="after-a-comment"),
    pytest.param("User:bob", Operation.CLUSTER_ACTION, False, id="describe-implies-nothing"),
    pytest.param("User:Alice", Operation.CLUSTER_ACTION, False, id="names-have-case"),
    pytest.param("User:eve", Operation.DESCRIBE, False, id="a-stranger"),
    pytest.param(ANONYMOUS, Operation.DESCRIBE, False, id="nobody-in-particular"),
    pytest.param("User:root", Operation.ALTER, True, id="a-super-user"),
]


@table(("principal", "operation", "allowed"), ALLOWED)
def test_require(principal: str, operation: Operation, allowed: bool) -> None:
    acls = Acls.parse(TEXT, super_users=["User:root"])
    if allowed:
        acls.require(principal, operation)
    else:
        with pytest.raises(ClusterAuthorizationFailed):
            acls.require(principal, operation)


def test_without_acls_everything_is_allowed() -> None:
    for operation in Operation:
        Acls().require(ANONYMOUS, operation)


def test_an_empty_file_denies_everything() -> None:
    with pytest.raises(ClusterAuthorizationFailed):
        Acls.parse("").require("User:alice", Operation.CLUSTER_ACTION)


def test_a_refusal_says_principal_operation_and_what_to_write_where() -> None:
    """Row 730.8: this is the text that a broker exits with."""
    with pytest.raises(ClusterAuthorizationFailed) as refused:
        Acls.parse("").require("User:alice", Operation.CLUSTER_ACTION)
    assert refused.value.code is ErrorCode(31)
    for word in ("User:alice", "CLUSTER_ACTION", "authorizer.acls.file", "super.users"):
        assert word in str(refused.value)


@table(
    ("text", "line"),
    [
        pytest.param("User:alice", "line 1", id="no-operation"),
        pytest.param("User:alice CLUSTER_ACTION now", "line 1", id="a-word-too-many"),
        pytest.param("\nalice CLUSTER_ACTION", "line 2", id="no-principal-type"),
        pytest.param("User:alice cluster_action", "line 1", id="an-unknown-operation"),
        pytest.param("User:a ALTER\n" * (ACLS_MAX + 1), f"at most {ACLS_MAX}", id="a-line-too-many"),
    ],
)
def test_a_line_that_cannot_be_read_is_named(text: str, line: str) -> None:
    with pytest.raises(AclSyntaxError, match=line):
        Acls.parse(text)


def test_as_many_lines_as_may_be() -> None:
    assert Acls.parse("User:a ALTER\n" * ACLS_MAX).allowed == frozenset({("User:a", Operation.ALTER)})
