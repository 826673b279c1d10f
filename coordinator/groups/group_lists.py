"""DescribeGroups and ListGroups: an entry proves that this node coordinates; lists are read in slices."""

from __future__ import annotations  # or each request computes those of the functions made for it

from functools import partial
from typing import Final

from fencepost.controller.decision import Decision
from fencepost.controller.errors import ApiError, ErrorCode, InvalidRequest
from fencepost.controller.groups import describe, tables
from fencepost.controller.groups.describe import (
    DescribedGroup,
    DescribeGroups,
    DescribeGroupsAnswer,
    Filters,
    ListedGroup,
    ListGroups,
    ListGroupsAnswer,
)
from fencepost.controller.view import View
from fencepost.coordinator.groups.group_operations import CallLater, GroupOperations
from fencepost.quorum.port import Outcome, Submit
from fencepost.wire.dispatch import Reply

DESCRIBED_MAX: Final = 1_000  # groups of one request
MEMBERS_MAX: Final = 10_000  # members of one answer; the groups beyond are refused with 14
LIST_ROWS_MAX: Final = 500  # read at once


class GroupLists:
    """See the module."""

    def __init__(self, operations: GroupOperations, submit: Submit, call_later: CallLater) -> None:
        self._operations = operations
        self._submit = submit
        self._call_later = call_later

    def describe(self, request: DescribeGroups, reply: Reply[DescribeGroupsAnswer]) -> None:
        """Raises InvalidRequest for too many groups."""
        if len(request.group_ids) > DESCRIBED_MAX:
            raise InvalidRequest(f"{len(request.group_ids)} groups; at most {DESCRIBED_MAX}")
        preparing = frozenset(filter(self._operations.is_preparing, request.group_ids))

        def decide(view: View, _now_ms: int) -> Decision[DescribeGroupsAnswer]:
            return Decision((), _described(view, request, preparing))

        self._submit(decide, self._operations.errors.before(reply), closing=reply)

    def list_groups(self, request: ListGroups, reply: Reply[ListGroupsAnswer]) -> None:
        """What the image has when the entry is applied, and later where it is read later."""

        def proven(outcome: Outcome[None], _throttle_ms: int) -> None:
            if isinstance(outcome, ApiError):
                reply(self._operations.errors.translate(outcome), 0)
            else:
                _List(self._operations, self._call_later, Filters(request), reply).read(None)

        self._submit(lambda _view, _now_ms: Decision((), None), proven, closing=reply)


class _List:
    """One list that is read: groups that have had members, then those with offsets alone."""

    __slots__ = ("_call_later", "_filters", "_is_simple", "_operations", "_reply", "_rows")

    def __init__(
        self,
        operations: GroupOperations,
        call_later: CallLater,
        filters: Filters,
        reply: Reply[ListGroupsAnswer],
    ) -> None:
        self._operations = operations
        self._call_later = call_later
        self._filters = filters
        self._reply = reply
        self._rows: list[ListedGroup] = []
        self._is_simple = False

    def read(self, after: str | None) -> None:
        """A slice; then the next one, or the answer."""
        view = self._operations.image()
        if self._is_simple:
            found, after = describe.list_simple_slice(view, after, LIST_ROWS_MAX)
        else:
            found, after = describe.list_slice(view, after, LIST_ROWS_MAX, self._operations.is_preparing)
        self._rows += [each for each in found if self._filters.select(each)]
        if after is not None or not self._is_simple:
            self._is_simple = self._is_simple or after is None
            self._call_later(0.0, partial(self.read, after))
            return
        self._reply(ListGroupsAnswer(tuple(self._rows)), 0)


def _described(view: View, request: DescribeGroups, preparing: frozenset[str]) -> DescribeGroupsAnswer:
    rows, members = [], 0
    for group_id in request.group_ids:
        members += len(tables.member_ids(view, group_id)) if tables.is_key(group_id) else 0
        if members > MEMBERS_MAX:
            full = f"the answer has {MEMBERS_MAX} members: describe fewer groups at a time"
            rows.append(DescribedGroup(group_id, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, full))
            continue
        rows.append(describe.describe_group(view, group_id, is_preparing=group_id in preparing))
    return DescribeGroupsAnswer(tuple(rows))
