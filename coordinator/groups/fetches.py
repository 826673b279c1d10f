"""One OffsetFetch: many groups and partitions, or all that a group has, read a few at a time.

Each part rides on an entry of its own or shares one: what it says was true when a leader applied that entry.
Two parts may be of different moments, as two requests would be; a partition is read in one.
"""

from __future__ import annotations  # or each request computes those of the functions made for it

from collections.abc import Iterator
from functools import partial
from typing import Final

from msgspec.structs import replace

from fencepost.controller import levels
from fencepost.controller.decision import Decision
from fencepost.controller.errors import ApiError
from fencepost.controller.groups.offset_messages import (
    FetchedGroup,
    FetchedOffset,
    FetchOffsets,
    FetchOffsetsAnswer,
    GroupQuery,
)
from fencepost.controller.groups.offsets import OffsetRules, Page, Place, fetch, fetch_page
from fencepost.controller.view import View
from fencepost.quorum.port import Outcome, Reply, Submit
from fencepost.wire.dispatch import Closing

READ_MAX: Final = 500  # offsets read by one decision: some 10 ms


class Fetch:
    """See the module. ``reply`` takes the answer, or the first error of a part."""

    def __init__(
        self,
        request: FetchOffsets,
        rules: OffsetRules,
        submit: Submit,
        reply: Reply[FetchOffsetsAnswer],
        *,
        closing: Closing,
    ) -> None:
        self._request = request
        self._rules = rules
        self._submit = submit
        self._reply = reply
        self._closing = closing
        self._rows: list[list[FetchedOffset]] = [[] for _ in request.groups]
        self._parts = _parts(request.groups)
        self._left = 0
        self._failure: ApiError | None = None

    def begin(self) -> None:
        """Submit what names its partitions at once, and the first page of each other group."""
        everything = [number for number, each in enumerate(self._request.groups) if each.partitions is None]
        parts = list(self._parts)
        self._left = len(parts) + len(everything)
        if not self._left:
            self._left = 1
            parts = [()]
        for part in parts:
            self._submit(partial(self._decide_part, part), self._took_part, closing=self._closing)
        for number in everything:
            self._read_page(number, None)

    # -- named partitions -----------------------------------------------------------------------------

    def _decide_part(
        self, part: tuple[tuple[int, GroupQuery], ...], view: View, now_ms: int
    ) -> Decision[tuple[tuple[int, FetchedGroup], ...]]:
        levels.require_group_log(view)
        request = self._request
        return Decision(
            (),
            tuple(
                [
                    (
                        number,
                        fetch(
                            view,
                            query,
                            self._rules,
                            require_stable=request.require_stable,
                            waits=request.waits,
                        ),
                    )
                    for number, query in part
                ]
            ),
        )

    def _took_part(self, outcome: Outcome[tuple[tuple[int, FetchedGroup], ...]], throttle_ms: int) -> None:
        if isinstance(outcome, ApiError):
            self._failure = self._failure or outcome
        else:
            for number, group in outcome:
                self._rows[number] += group.offsets
        self._ended(throttle_ms)

    # -- all of a group -------------------------------------------------------------------------------

    def _read_page(self, number: int, after: Place | None) -> None:
        self._submit(
            partial(self._decide_page, number, after), partial(self._took_page, number), closing=self._closing
        )

    def _decide_page(self, number: int, after: Place | None, view: View, now_ms: int) -> Decision[Page]:
        levels.require_group_log(view)
        request = self._request
        page = fetch_page(
            view,
            request.groups[number],
            self._rules,
            after,
            READ_MAX,
            require_stable=request.require_stable,
            waits=request.waits,
        )
        return Decision((), page)

    def _took_page(self, number: int, outcome: Outcome[Page], throttle_ms: int) -> None:
        if isinstance(outcome, ApiError):
            self._failure = self._failure or outcome
        else:
            self._rows[number] += outcome.group.offsets
            if outcome.after is not None:
                self._read_page(number, outcome.after)
                return
        self._ended(throttle_ms)

    def _ended(self, throttle_ms: int) -> None:
        self._left -= 1
        if self._left:
            return
        if self._failure is not None:
            self._reply(self._failure, throttle_ms)
            return
        groups = [
            FetchedGroup(query.group_id, tuple(rows))
            for query, rows in zip(self._request.groups, self._rows, strict=True)
        ]
        self._reply(FetchOffsetsAnswer(tuple(groups)), throttle_ms)


def _parts(groups: tuple[GroupQuery, ...]) -> Iterator[tuple[tuple[int, GroupQuery], ...]]:
    """The named partitions of the groups, READ_MAX at a time; a group counts as one, too."""
    part: list[tuple[int, GroupQuery]] = []
    weight = 0
    for number, query in enumerate(groups):
        wanted = tuple(dict.fromkeys(query.partitions)) if query.partitions is not None else ()
        for first in range(0, len(wanted), READ_MAX):
            some = wanted[first : first + READ_MAX]
            if part and weight + len(some) > READ_MAX:
                yield tuple(part)
                part, weight = [], 0
            part.append((number, replace(query, partitions=some)))
            weight += len(some)
    if part:
        yield tuple(part)
