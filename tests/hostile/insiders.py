"""``python -m tests.hostile.insiders``: principals without rights, and with every right but one.

Attack      random requests of all keys, about what the principal may not do, on the broker's and the
            controller's dispatch of a node in this process (insider_node.py).
Judged      by effects alone, and by what each takes (EFFECTS, LEARNED), never by the table of needs: what is
            different in a set afterwards, and what marks an answer has that its request did not have.
Absent      what a principal without rights requests is requested again with names of nothing: the answer is
            the same, so it does not say what is there. Ids of topics aside: one that is there has 29.
Reach       the last principal lacks nothing of its set, and an operator may alter and describe the cluster:
            what their requests never bring about proves nothing. 100,000 requests are a quarter of an hour.
Rounds      of ROUND requests, each to a new node. A file keeps what they found, for a campaign that goes on.
"""

import asyncio
import json
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random
from typing import Any, Final, NamedTuple

import click

from fencepost.controller.acl_types import Operation
from fencepost.controller.errors import ApiError
from fencepost.controller.group_errors import MemberIdRequired
from fencepost.wire.dispatch import BROKER, CONTROLLER, Api, Context, ListenerKind
from fencepost.wire.listener import OWN_KEYS
from tests.hostile.insider_node import ANSWER_S, insider_node
from tests.hostile.insider_requests import Requests
from tests.hostile.insider_world import KEPT, USER, G, Names, Right, State, T, World, X
from tests.hostile.insider_world import OPERATOR as OPERATORS_NAME

OP = Operation
NONE: Final = -1  # the principal without rights
OPERATOR: Final = -2  # the one with rights on the cluster alone
OF_CLUSTER: Final = (29, 30, 31, 50, 51)  # keys of what the operator requests
STRANGER: Final = "User:stranger"
BATCH: Final = 100  # requests of one principal, under way together
QUIET_S: Final = 0.05  # after a batch, for what may be parked
PARKED: Final = frozenset((1, 9, 11, 14, 22, 20024, 20029))  # keys whose answer may take long, or never come
OPERATORS_SHARE: Final = 0.04  # of the batches
SAID_EVERY: Final = 1_000
ROUND: Final = 5_000  # requests to one node
ROUNDS_MAX: Final = 1_000
OFFSETS: Final = "__consumer_offsets"
ABSENT: Final = "secreu"
"""In the place of the names' word: as long, and sorted as it is among others, for some keys page by name."""
LISTENERS: Final[dict[ListenerKind, str]] = {BROKER: "PLAINTEXT", CONTROLLER: "CONTROLLER"}

EFFECTS: Final[dict[str, tuple[Right, ...]]] = {
    "written": (Right(OP.WRITE, T),),
    "deleted": (Right(OP.DELETE, T),),
    "trimmed": (Right(OP.DELETE, T),),
    "grown": (Right(OP.ALTER, T),),
    "set": (Right(OP.ALTER_CONFIGS, T),),
    "created": (Right(OP.CREATE, T),),
    "joined or left": (Right(OP.READ, G),),
    "committed": (Right(OP.READ, G), Right(OP.READ, T)),
    "forgotten": (Right(OP.DELETE, G),),
    "ended": (Right(OP.WRITE, X),),
    "added": (Right(OP.WRITE, X), Right(OP.WRITE, T)),
    "offsets added": (Right(OP.WRITE, X), Right(OP.READ, G)),
    "endless": (Right(OP.WRITE, X), Right(OP.TWO_PHASE_COMMIT, X)),
}
"""What may become of a set, and which rights it takes, all of them."""

LEARNED: Final[dict[str, tuple[Right, ...]]] = {
    "record": (Right(OP.READ, T),),
    "topic": (Right(OP.DESCRIBE, T),),
    "setting": (Right(OP.DESCRIBE_CONFIGS, T),),
    "group": (Right(OP.DESCRIBE, G),),
    "host": (Right(OP.DESCRIBE, G),),
    "client_id": (Right(OP.DESCRIBE, G), Right(OP.READ, G)),
    "transactional_id": (Right(OP.DESCRIBE, X),),
}
"""The marks of a set, and which rights show them, one of them. A member's id begins with its client id."""

ALSO: Final = {("topic", 20): Right(OP.DELETE, T)}
"""The API key that shows a mark to another right, too: a topic deleted by its id is named, as by Kafka 4.1.1.

tests/rights/kafka-4.1.1.json: broker 20 DeleteTopics 0, of all rights on resources but DESCRIBE on TOPIC.
"""

OF_THE_CLUSTER: Final = ("ruled", "user", "acl")
"""What the operator alone may do and see: ACLs and users change, and are shown."""


class Insiders:
    """A campaign. ``broken``: what should not have happened, said so that it can be looked for."""

    def __init__(self, world: World, seed: int) -> None:
        self.world = world
        self.rng = Random(seed)
        self.requests = Requests(self.rng, world)
        self.broken: list[str] = []
        self.reached: Counter[str] = Counter()
        self.answered: Counter[int] = Counter()
        self.sent = 0
        self._parked: set[asyncio.Task[None]] = set()

    async def run(self, count: int, say: Callable[[str], None]) -> None:
        """Send that many requests."""
        await self.world.build()
        sets = len(self.world.names)
        while self.sent < count:
            by = self.rng.choice((NONE, self.rng.randrange(sets), sets - 1, sets - 1))
            if self.rng.random() < OPERATORS_SHARE:
                by = OPERATOR
            known = len(self.broken)
            await self._batch(by)
            for line in self.broken[known:]:
                say(line[:2_000])
            if self.sent % SAID_EVERY == 0:
                say(f"{self.sent} requests, {len(self.broken)} broken")
        for task in self._parked:
            task.cancel()

    async def _batch(self, by: int) -> None:
        """One principal's, half of them about its own set; then all of that is looked at."""
        about = [by if by >= 0 and self.rng.random() < 0.7 else self._any() for _ in range(BATCH)]
        waiting = {task for n in about if (task := self._send(by, n)) is not None} | self._parked
        self.sent += len(about)
        at_once = {task for task in waiting if int(task.get_name()) not in PARKED}
        if at_once:
            _, late = await asyncio.wait(at_once, timeout=ANSWER_S)
            self.broken += [f"API key {task.get_name()} is not answered" for task in late]
            for task in late:
                task.cancel()
        await asyncio.sleep(QUIET_S)
        self._parked = {task for task in waiting if not task.done()}
        for task in waiting - self._parked:
            if not task.cancelled():
                task.result()
        if await self.world.look_at_cluster() != self.world.cluster:
            self._judge_cluster(by, "ruled")
            await self.world.renew_cluster()
        looked_at = sorted({*about, *([by] if by >= 0 else [])})
        states = await asyncio.gather(*map(self.world.look, looked_at))
        for n, now in zip(looked_at, states, strict=True):
            before = self.world.states[n]
            if now != before:
                for effect in await self._effects(n, before, now):
                    changed = f"{effect}: {before}, now {now}"
                    self._judge(by, n, changed, EFFECTS[effect], all, effect)
            if n == by:
                await self.world.regroup(
                    n
                )  # or what has joined would be expelled later, when others are judged
            elif now == before:
                continue
            await self.world.renew(n)

    def _any(self) -> int:
        return self.rng.randrange(len(self.world.names))

    def _send(self, by: int, n: int) -> "asyncio.Task[None] | None":
        kind: ListenerKind = BROKER if self.rng.random() < 0.8 else CONTROLLER
        service = self.world.node.services[kind]
        if by == OPERATOR:
            api = service[self.rng.choice(OF_CLUSTER)][0]
            sent = self._exchange(by, kind, api, *self.requests.about_the_cluster(api))
            return asyncio.get_running_loop().create_task(sent, name=str(api.key))
        api = service[self.requests.key_of(n, [key for key in service if key not in OWN_KEYS])][0]
        made = self.requests.about(n, api)
        if made is None:
            return None
        version, request = made
        sent = self._exchange(by, kind, api, version, request)
        return asyncio.get_running_loop().create_task(sent, name=str(api.key))

    async def _exchange(
        self, by: int, kind: ListenerKind, api: Api[Any, Any], version: int, request: Any
    ) -> None:
        sent = api.encode_request(version, request)
        answer = await self._answer(by, kind, api, version, request)
        self.answered[api.key] += 1
        for what, mark in (("user", _bytes(USER)), ("acl", _bytes(KEPT))):
            if mark in answer and mark not in sent:
                self._judge_cluster(by, what)
        for n, names in enumerate(self.world.names):
            for what, rights in LEARNED.items():
                mark = _bytes(getattr(names, what))
                if mark in answer and mark not in sent:
                    also = (ALSO[what, api.key],) if (what, api.key) in ALSO else ()
                    learned = f"{what} by {api.name} v{version} of {request}"
                    self._judge(by, n, learned, (*rights, *also), any, what)
        if by == NONE and names_in(sent):
            absent = api.decode_request(version, memoryview(_absent(sent)))
            other = await self._answer(by, kind, api, version, absent)
            if other != _absent(answer):
                self.broken.append(
                    f"{api.name} v{version} says what is there: {request}: {answer!r}, {other!r}"
                )

    async def _answer(
        self, by: int, kind: ListenerKind, api: Api[Any, Any], version: int, request: Any
    ) -> bytes:
        principal = {NONE: STRANGER, OPERATOR: OPERATORS_NAME}.get(by) or self.world.names[by].principal
        context = Context(principal, LISTENERS[kind], "insider", "10.1.1.1:1")
        outcome = await self.world.node.send(kind, api.key, request, context).came
        if isinstance(outcome, MemberIdRequired):
            self.world.pending.setdefault(request.group_id, []).append(outcome.member_id)
        if isinstance(outcome, ApiError):
            return api.refusal(version, request, outcome, 0)
        if isinstance(outcome, Exception):
            return repr(outcome).encode()
        return api.encode_response(version, outcome, 0)

    async def _effects(self, n: int, before: State, now: State) -> list[str]:
        added = set(now.written_to) - set(before.written_to)
        same = now.topic_id is not None and now.topic_id == before.topic_id
        found = {
            "written": same and await self.world.has_new_records(n, before, now),
            "deleted": before.topic_id is not None and not same,
            "trimmed": same and now.first != before.first,
            "grown": same and now.partitions != before.partitions,
            "set": same and now.setting != before.setting,
            "created": now.has_fresh and not before.has_fresh,
            "joined or left": now.members != before.members,
            "committed": now.offset not in (before.offset, -1) or now.idle not in (before.idle, -1),
            "forgotten": same and (before.offset >= 0 > now.offset or before.idle >= 0 > now.idle),
            "ended": now.transaction != before.transaction,
            "added": any(topic != OFFSETS for topic, _ in added),
            "offsets added": any(topic == OFFSETS for topic, _ in added),
            "endless": now.timeout_ms > 2**30 > before.timeout_ms,
        }
        return [effect for effect, happened in found.items() if happened]

    def _judge_cluster(self, by: int, what: str) -> None:
        if by == OPERATOR:
            self.reached[what] += 1
        else:
            self.broken.append(f"the cluster, by {by}: {what}")

    def _judge(
        self, by: int, n: int, what: str, rights: tuple[Right, ...], needs: Any, name: str = ""
    ) -> None:
        """``needs``: all of the rights, or any of them."""
        if by == OPERATOR:
            return  # it asks about no set, and may see all of their names
        missing = self.world.missing[by]
        if by == n and needs(right != missing for right in rights):
            if missing is None:
                self.reached[name or what] += 1
            return
        lacks = "without rights" if by != n or missing is None else f"that lacks {missing.operation.name}"
        self.broken.append(f"set {n}, by {by} {lacks}: {what}")


def names_in(sent: bytes) -> bool:
    """It names something of a set, and not by an id."""
    return _bytes(Names(0).word) in sent


def _absent(raw: bytes) -> bytes:
    return raw.replace(_bytes(Names(0).word), _bytes(ABSENT))


def _bytes(text: str | bytes) -> bytes:
    return text if isinstance(text, bytes) else text.encode()


def unreached(insiders: Insiders) -> Iterator[str]:
    """What never came about although the last principal may do it."""
    return (each for each in (*EFFECTS, *LEARNED, *OF_THE_CLUSTER) if not insiders.reached[each])


async def campaign(count: int, seed: int, say: Callable[[str], None] = lambda _line: None) -> Insiders:
    """Build the world, and attack it."""
    with tempfile.TemporaryDirectory(prefix="fencepost-insiders-") as folder:
        async with insider_node(Path(folder)) as node:
            insiders = Insiders(World(node), seed)
            await insiders.run(count, say)
            return insiders


class Round(NamedTuple):
    """What a part of a campaign found: a node of its own, and a seed of its own."""

    sent: int
    answered: int
    reached: dict[str, int]
    broken: list[str]


def rounds(count: int, seed: int, kept: Path | None, say: Callable[[str], None]) -> list[Round]:
    """The rounds of a campaign; those that ``kept`` has are not run again."""
    lines = kept.read_text("utf-8").splitlines() if kept is not None and kept.exists() else []
    found = [Round(**each) for each in map(json.loads, lines)]
    while (sent := sum(each.sent for each in found)) < count:
        number = len(found)
        say(f"round {number} of seed {seed}, after {sent} requests")
        insiders = asyncio.run(campaign(min(ROUND, count - sent), seed * ROUNDS_MAX + number, say))
        answered = sum(insiders.answered.values())
        found.append(Round(insiders.sent, answered, dict(insiders.reached), insiders.broken))
        if kept is not None:
            with kept.open("a", encoding="utf-8") as file:
                file.write(json.dumps(found[-1]._asdict()) + "\n")
    return found


@click.command()
@click.option("--requests", type=click.IntRange(1, ROUND * ROUNDS_MAX), default=100_000, show_default=True)
@click.option("--seed", type=int, default=1, show_default=True)
@click.option("--kept", type=click.Path(dir_okay=False, path_type=Path), help="A file; goes on from there.")
def main(requests: int, seed: int, kept: Path | None) -> None:
    """Send REQUESTS, made from SEED. Exit status 0: nothing was learned or done without a right."""
    found = rounds(requests, seed, kept, click.echo)
    reached: Counter[str] = Counter()
    for each in found:
        reached.update(each.reached)
    sent, answered = sum(each.sent for each in found), sum(each.answered for each in found)
    broken = [line for each in found for line in each.broken]
    click.echo(f"{sent} requests in {len(found)} rounds, {answered} answered; {reached}")
    missed = [each for each in (*EFFECTS, *LEARNED, *OF_THE_CLUSTER) if not reached[each]]
    if broken or missed:
        raise click.ClickException(f"{len(broken)} broken; never reached: {missed}")
    click.echo("held")


if __name__ == "__main__":
    main()
