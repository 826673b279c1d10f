"""ACLs on the active controller: DescribeAcls, CreateAcls, DeleteAcls, and what brokers follow.

In force    a change is answered once its record is applied and every unfenced broker has said that it decides
            by it: at the latest when a silent broker is fenced. After CONFIRMED_S_MAX the answer is
            REQUEST_TIMED_OUT: a broker that is alive does not follow, so the change holds elsewhere alone.
Authorizer  without one, keys 29 to 31 answer SECURITY_DISABLED, as in Kafka.
Source      Kafka AclApis, AclControlManager.
"""

from collections.abc import Callable, Iterable
from typing import Final, NamedTuple
from uuid import UUID

from structlog.typing import FilteringBoundLogger

from fencepost.controller.acl_book import AclBook
from fencepost.controller.acl_errors import SecurityDisabled
from fencepost.controller.acl_types import (
    AclFilter,
    CreateAcls,
    CreateAclsAnswer,
    DeleteAcls,
    DeleteAclsAnswer,
    DescribeAclsAnswer,
)
from fencepost.controller.acls import (
    changes_since,
    decide_create,
    decide_delete,
    page,
    require_known,
    state,
)
from fencepost.controller.brokers import BROKERS
from fencepost.controller.decision import Decision
from fencepost.controller.errors import (
    ApiError,
    InvalidRequest,
    NotController,
    RequestTimedOut,
)
from fencepost.controller.view import View
from fencepost.quorum.port import Submit
from fencepost.records.types import BrokerId
from fencepost.wire.dispatch import Context, Reply, Service, Then, served
from fencepost.wire.k29_describe_acls import DESCRIBE_ACLS
from fencepost.wire.k30_create_acls import CREATE_ACLS
from fencepost.wire.k31_delete_acls import DELETE_ACLS
from fencepost.wire.k20029_follow_acls import FOLLOW_ACLS, FollowAcls, FollowedAcls

PAGE_ROWS: Final = 1_000  # ACLs of a page, and changes of an answer: some 10 ms to read and encode
PARKED_MS_MAX: Final = 1_000  # of a broker's request while nothing changes
CONFIRMED_S_MAX: Final = 30
WAITING_MAX: Final = 1_000  # changes that wait to be in force; one more is refused
DELETED_MAX: Final = 10_000  # ids that one filter hands to a decision, which refuses as many


class _Parked(NamedTuple):
    known: int
    since_ms: int
    reply: Reply[FollowedAcls]


class _Waiting(NamedTuple):
    change: int
    since_ms: int
    confirmed: Callable[[ApiError | None], None]


class AclServer:
    """Endpoints of one node. ``book`` follows the node's image where there is an authorizer."""

    def __init__(
        self,
        image: Callable[[], View],
        submit: Submit,
        now_ms: Callable[[], int],
        log: FilteringBoundLogger,
        *,
        has_authorizer: bool,
    ) -> None:
        self.book = AclBook()
        self._image = image
        self._submit = submit
        self._now_ms = now_ms
        self._log = log
        self._has_authorizer = has_authorizer
        self._begin()

    def _begin(self) -> None:
        self._parked: dict[int, _Parked] = {}  # by broker
        self._waiting: list[_Waiting] = []
        self._confirmed: dict[int, tuple[int, int]] = {}  # (epoch, change) by broker

    @property
    def service(self) -> Service:
        """API key to (codec, endpoint)."""
        return dict(
            (
                served(DESCRIBE_ACLS, self.describe),
                served(CREATE_ACLS, self.create),
                served(DELETE_ACLS, self.delete),
                served(FOLLOW_ACLS, self.follow),
            )
        )

    # -- a service of the driver --------------------------------------------------------------------

    def activated(self, now_ms: int) -> None:
        """A new leadership: what brokers have confirmed is not known yet."""
        self._begin()

    def deposed(self) -> None:
        """What waits is another node's to answer."""
        parked, waiting = self._parked, self._waiting
        self._begin()
        for each in parked.values():
            each.reply(NotController("this node is not the active controller any more"))
        for change in waiting:
            change.confirmed(RequestTimedOut("the change is written; another node leads now"))

    def maintain(self, now_ms: int) -> None:
        """Nothing of it is as urgent as that."""

    def sweep(self, now_ms: int) -> None:
        """Answer what is parked for long, and changes for which a broker need not be waited for any more."""
        self._flush(now_ms)
        self._confirm(now_ms)

    # -- endpoints ----------------------------------------------------------------------------------

    def describe(self, request: AclFilter, context: Context, reply: Reply[DescribeAclsAnswer]) -> None:
        """API key 29: a linearizable read."""
        self._require_authorizer()
        require_known(request)

        def answer(outcome: ApiError | None, throttle_ms: int) -> None:
            if isinstance(outcome, ApiError):
                reply(outcome, throttle_ms)
                return
            reply(DescribeAclsAnswer(tuple(acl for _, acl in self.followed().matching(request))))

        self._submit(_nothing, Then(answer, reply), closing=reply)

    def create(self, request: CreateAcls, context: Context, reply: Reply[CreateAclsAnswer]) -> None:
        """API key 30."""
        self._require_authorizer()
        self._require_room()

        def answer(outcome: CreateAclsAnswer | ApiError, throttle_ms: int) -> None:
            self._answer_in_force(outcome, reply)

        self._submit(lambda view, now_ms: decide_create(view, request), Then(answer, reply), closing=reply)

    def delete(self, request: DeleteAcls, context: Context, reply: Reply[DeleteAclsAnswer]) -> None:
        """API key 31: what matches when the request comes is removed."""
        self._require_authorizer()
        self._require_room()
        matches = [self._matching(each) for each in request.filters]

        def answer(outcome: DeleteAclsAnswer | ApiError, throttle_ms: int) -> None:
            self._answer_in_force(outcome, reply)

        self._submit(lambda view, now_ms: decide_delete(view, matches), Then(answer, reply), closing=reply)

    def follow(self, request: FollowAcls, context: Context, reply: Reply[FollowedAcls]) -> None:
        """API key 20029: the ACLs as of now, or what changed; parked while nothing does."""
        self._require_authorizer()

        def answer(outcome: ApiError | None, throttle_ms: int) -> None:
            if isinstance(outcome, ApiError):
                reply(outcome, throttle_ms)
            else:
                self._follow(request, reply)

        self._submit(_nothing, Then(answer, reply), closing=reply)

    # -- what is behind them ------------------------------------------------------------------------

    def _follow(self, request: FollowAcls, reply: Reply[FollowedAcls]) -> None:
        view = self._image()
        if request.known < 0:
            reply(_page(view, request))
            return
        self._confirmed[request.broker_id] = (request.broker_epoch, request.known)
        now_ms = self._now_ms()
        self._confirm(now_ms)
        before = self._parked.pop(request.broker_id, None)
        if before is not None:
            before.reply(FollowedAcls(before.known))
        if request.known == state(view).changes and self._is_waited_on(view, request.broker_id):
            self._parked[request.broker_id] = _Parked(request.known, now_ms, reply)
        else:
            reply(_news(view, request.known))

    def _is_waited_on(self, view: View, broker_id: int) -> bool:
        """A broker that is not unfenced yet is answered at once: it waits to serve."""
        broker = view.get(BROKERS, BrokerId(broker_id)) if broker_id >= 0 else None
        return broker is not None and not broker.fenced

    def _flush(self, now_ms: int) -> None:
        view = self._image()
        last = state(view).changes
        for broker_id, each in list(self._parked.items()):
            if each.known != last or now_ms - each.since_ms >= PARKED_MS_MAX:
                del self._parked[broker_id]
                each.reply(_news(view, each.known))

    def _answer_in_force(
        self,
        outcome: CreateAclsAnswer | DeleteAclsAnswer | ApiError,
        reply: Reply[CreateAclsAnswer] | Reply[DeleteAclsAnswer],
    ) -> None:
        if isinstance(outcome, ApiError):
            reply(outcome)
            return

        def confirmed(failure: ApiError | None) -> None:
            reply(outcome if failure is None else failure)  # type: ignore[arg-type]  # of one API

        now_ms = self._now_ms()
        self._waiting.append(_Waiting(state(self._image()).changes, now_ms, confirmed))
        self._flush(now_ms)
        self._confirm(now_ms)

    def _confirm(self, now_ms: int) -> None:
        if not self._waiting:
            return
        behind = list(self._behind())
        waiting, self._waiting = self._waiting, []
        for each in waiting:
            late = [broker_id for broker_id, change in behind if change < each.change]
            if not late:
                each.confirmed(None)
            elif now_ms - each.since_ms < CONFIRMED_S_MAX * 1000:
                self._waiting.append(each)
            else:
                self._log.warning("acls_unconfirmed", brokers=late, change=each.change)
                each.confirmed(
                    RequestTimedOut(f"written, but brokers {late} do not say that they decide by it")
                )

    def _behind(self) -> Iterable[tuple[int, int]]:
        """The unfenced brokers, and up to which change each is known to decide."""
        for broker_id, broker in self._image().items(BROKERS):
            if not broker.fenced:
                epoch, change = self._confirmed.get(broker_id, (-1, -1))
                yield broker_id, change if epoch == broker.epoch else -1

    def _matching(self, wanted: AclFilter) -> tuple[UUID, ...] | ApiError:
        try:
            require_known(wanted)
        except InvalidRequest as error:
            return error
        return tuple(acl_id for acl_id, _ in self.followed().matching(wanted)[:DELETED_MAX])

    def followed(self) -> AclBook:
        """The ACLs as of the node's image."""
        self.book.follow(self._image())
        return self.book

    def _require_authorizer(self) -> None:
        if not self._has_authorizer:
            raise SecurityDisabled("No Authorizer is configured: set authorizer.class.name on every node")

    def _require_room(self) -> None:
        if len(self._waiting) >= WAITING_MAX:
            raise RequestTimedOut(f"{WAITING_MAX} changes of ACLs wait for brokers; nothing was written")


def _nothing(view: View, now_ms: int) -> Decision[None]:
    return Decision((), None)


def _page(view: View, request: FollowAcls) -> FollowedAcls | ApiError:
    try:
        rows, has_more = page(view, request.after, PAGE_ROWS)
    except InvalidRequest as error:
        return error
    return FollowedAcls(state(view).changes, tuple(rows), has_more)


def _news(view: View, known: int) -> FollowedAcls:
    last = state(view).changes
    found = changes_since(view, known)
    if found is None:
        return FollowedAcls(last, is_lost=True)
    part = tuple(found[:PAGE_ROWS])
    return FollowedAcls(known + len(part), part)
