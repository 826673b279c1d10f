"""No phase without an exit: each obstacle in each phase is named, and each way that status prints works.

A world is a bench in some phase, with brokers that took blocks themselves and through us; then an obstacle is
put in the way. Every command is tried, dry and in earnest; then each printed way is taken as an operator
takes it, on a world of its own, to the end of the upgrade: no id is given out twice on any of them.
"""

import contextlib
import re
from collections.abc import Callable
from functools import partial
from itertools import pairwise

import pytest

from fencepost.bridge.live_port import fence_content
from fencepost.bridge.upgrade_ways import COMMAND
from fencepost.bridge.zookeeper_port import Fence, Unnamed
from fencepost.controller.errors import ApiError, InvalidRequest
from fencepost.controller.migration_phase import NEXT_COMMAND, Intent, Phase
from fencepost.quorum.crash_points import CONTROLLER_POINTS
from fencepost.records.types import PRODUCER_ID_MAX
from tests.bridge.migration_bench import Bench, Crash, stopped
from tests.together import table
from tests.zookeeper.kafka_rule import KafkaExhausted, kafkas_content
from tests.zookeeper.model import take_directly

WORDS_ALONE = (
    "",
    "back: stop these controllers; nothing in ZooKeeper is to be undone",
    "if brokers are to go on with it",
)
HIGHEST_BY_HAND = 50_000  # where an operator who has to guess lets ids go on
Obstruct = Callable[["World"], None]


class World:
    """A bench, every block that anyone was given, and the operator."""

    def __init__(self, standing: str) -> None:
        self.bench = Bench()
        self.blocks: list[tuple[int, int]] = []
        self.brokers_run = True
        for _ in range(5):
            self.take()
        phase, _, point = standing.partition(" after ")
        if point == WRITTEN_AGAIN:
            self._to(Phase.QUORUM)
            self.overwrite(self.bench.znode.content)
        elif point:
            self._to_crash(point)
        else:
            self._to(Phase[phase.upper()])
        assert self.bench.row.phase.label == phase

    def _to(self, phase: Phase) -> None:
        """With blocks between the steps."""
        while self.bench.row.phase is not phase:
            self.bench.run(NEXT_COMMAND[self.bench.row.phase])
            self.take()

    def _to_crash(self, point: str) -> None:
        """The leader dies there; another one leads."""
        way: Callable[[], object] = partial(self._to, Phase.FINALIZED)
        if point.startswith("rollback:"):
            self._to(Phase.QUORUM)
            way = partial(self.bench.run, "rollback")
        self.bench.crash_at = point
        with pytest.raises(Crash):
            way()
        self.bench.lead()

    def take(self) -> None:
        """A broker takes a block itself, another asks for one; either may be refused."""
        if self.brokers_run and self.bench.znode.exists:
            with contextlib.suppress(KafkaExhausted, ValueError):
                self.blocks.append(take_directly(self.bench.znode))
        for told in self.bench.allocate(1):
            if told.startswith("["):
                first = int(told[1:].split(",", maxsplit=1)[0])
                self.blocks.append((first, first + 999))

    def overwrite(self, content: bytes | None) -> None:
        """By another program, whatever is there."""
        self.bench.znode.content = content
        self.bench.znode.version += 1

    @property
    def last(self) -> int:
        """The highest id that anyone has."""
        return max(last for _, last in self.blocks)

    def follow(self, way: str) -> None:
        """Do what it says. Raises ApiError if a command of it is refused."""
        repair, *commands = way.split(", then: ")
        if not commands and repair.startswith(COMMAND):
            repair, commands = "", [repair]
        self._repair(repair)
        for command in commands:
            self._type(command.removeprefix(f"{COMMAND} "))

    def _repair(self, repair: str) -> None:
        bench = self.bench
        if "start ZooKeeper's servers" in repair:
            bench.port.down = ""
        elif "let this login read" in repair:
            bench.port.may_read = bench.port.may_write = True
        elif "take zookeeper.connect from every controller" in repair:
            self.brokers_run = False
            bench.lead(configured=False)
        elif "end Kafka's migration to KRaft" in repair:
            bench.port.migrates = False
        elif "correct zookeeper.connect" in repair:
            bench.lead()
        elif "stopped for good" in repair or "stop its servers" in repair:
            self.brokers_run = False
            bench.port.down = "stopped"
        elif "stop the brokers" in repair:
            self.brokers_run = False
        elif found := re.search(r"shell: (set|create) /latest_producer_id_block '(.*)'", repair):
            assert bench.znode.exists is (found[1] == "set"), repair
            self._set(found[2].encode())
        elif found := re.search(r"shell \((set|create) /latest_producer_id_block\)", repair):
            assert bench.znode.exists is (found[1] == "set"), repair
            self._set(kafkas_content(7, HIGHEST_BY_HAND - 999, HIGHEST_BY_HAND))
        elif "in the cluster that fenced it" in repair:
            self._set(kafkas_content(-1, self.last - 999, self.last))
        else:
            assert repair in WORDS_ALONE, repair

    def _set(self, content: bytes) -> None:
        """In ZooKeeper's shell: created, or set."""
        znode = self.bench.znode
        znode.version = znode.version + 1 if znode.exists else 0
        znode.exists, znode.content = True, content

    def _type(self, command: str) -> None:
        name = command.split(maxsplit=1)[0]
        if "--from files" in command:
            self.bench.run("import", stopped=stopped(self.last))
        else:
            self.bench.run(name, zookeeper_is_stopped="--zookeeper-is-stopped" in command)

    def to_the_end(self) -> None:
        """Forward from wherever it is."""
        while self.bench.row.phase is not Phase.FINALIZED:
            self.take()
            self.bench.run(NEXT_COMMAND[self.bench.row.phase])
        self.take()


def down(world: World) -> None:
    world.bench.port.down = "no route"


def read_only(world: World) -> None:
    world.bench.port.may_write = False


def no_access(world: World) -> None:
    world.bench.port.may_read = world.bench.port.may_write = False


def wrong_chroot(world: World) -> None:
    world.bench.port.name = Unnamed(
        "unnamed@there", "there is no /cluster/id below /kafk; there is one below /kafka"
    )


def another_cluster(world: World) -> None:
    world.bench.port.name = "another"


def not_configured(world: World) -> None:
    world.bench.lead(configured=False)


def gone(world: World) -> None:
    world.bench.znode.exists = False


def wiped(world: World) -> None:
    """Brokers that stay would begin at 0 again, whatever we do."""
    world.brokers_run = False
    world.overwrite(None)


def garbage(world: World) -> None:
    world.overwrite(b"?")


def exhausted(world: World) -> None:
    world.overwrite(kafkas_content(7, PRODUCER_ID_MAX - 999, PRODUCER_ID_MAX))


def fenced_by_others(world: World) -> None:
    world.overwrite(fence_content(Fence("other", Intent(world.last, world.bench.znode.version))))


def kafka_migrates(world: World) -> None:
    world.bench.port.migrates = True


def unfenced(world: World) -> None:
    """Somebody put the block back over our fence; the brokers stand still, or ids are given out twice."""
    world.brokers_run = False
    world.overwrite(kafkas_content(7, world.last - 999, world.last))


WRITTEN_AGAIN = "the proof of a rollback"  # which died before its stop record
STANDINGS = (
    "waiting",
    "waiting after bridge:znode-ready",
    "bridge after bridge:phase-applied",
    "bridge after import:block-read",
    "bridge after rollback:phase-applied",
    "imported after import:floor-applied",
    "imported after fence:block-read",
    "fencing after fence:intent-applied",
    "fencing after fence:fence-written",
    "quorum after fence:switch-applied",
    f"quorum after {WRITTEN_AGAIN}",
    "rolling-back after rollback:stop-applied",
    "rolling-back after rollback:block-written",
)
OBSTACLES = (
    down, read_only, no_access, wrong_chroot, another_cluster, not_configured, gone, wiped, garbage,
    exhausted, fenced_by_others, kafka_migrates,
)  # fmt: skip
CASES = [
    *((standing, obstruct) for standing in STANDINGS for obstruct in OBSTACLES),
    *((standing, unfenced) for standing in STANDINGS if standing.startswith("quorum")),
]


def is_obstructed(standing: str, obstruct: Obstruct) -> bool:
    """Whether it is in the way of the next command."""
    if obstruct is another_cluster:
        return not standing.startswith("waiting")  # where nothing says yet which one is meant
    if obstruct is kafka_migrates:  # behind the fence it finds the ids exhausted
        return standing.startswith(("waiting", "bridge", "imported")) or "intent-applied" in standing
    if obstruct is not read_only:
        return True
    if standing in ("fencing after fence:fence-written", "rolling-back after rollback:block-written"):
        return False  # the switch is all that is left; ZooKeeper goes on above all ids
    return not standing.startswith("quorum")  # whose next step does not write


OBSTRUCTED = [case for case in CASES if is_obstructed(*case)]
COMMANDS = ("bridge", "import", "fence", "finalize", "rollback")


def obstructed(standing: str, obstruct: Obstruct) -> World:
    world = World(standing)
    obstruct(world)
    return world


def refusal(world: World, command: str, *, dry_run: bool) -> str:
    """Empty: it was done."""
    try:
        world.bench.run(command, dry_run=dry_run)
    except ApiError as refused:
        return str(refused)
    return ""


@pytest.mark.row("beyond.2")
@table(("standing", "obstruct"), OBSTRUCTED)
def test_an_obstacle_is_named_and_the_way_on_is_not_open(standing: str, obstruct: Obstruct) -> None:
    """Commands go back at most, where nothing in ZooKeeper is to be undone; a dry run says the same."""
    status = obstructed(standing, obstruct).bench.run("status")
    assert status.blocking, "it is not named"
    if obstruct is not read_only or not standing.startswith("bridge"):  # an import writes nothing
        assert refusal(obstructed(standing, obstruct), status.next_command, dry_run=False), "it is open"
    for command in COMMANDS:
        world = obstructed(standing, obstruct)
        before = world.bench.row.phase
        dry = refusal(obstructed(standing, obstruct), command, dry_run=True)
        earnest = refusal(world, command, dry_run=False)
        assert bool(dry) is bool(earnest), (command, dry, earnest)
        if obstruct is not read_only:
            assert dry == earnest, command
        if earnest and before is not Phase.QUORUM:
            stopped_by_it = {Phase.ROLLING_BACK} if command == "rollback" else set()
            assert world.bench.row.phase in {before, *stopped_by_it}, command
        if earnest and before is Phase.QUORUM and obstruct is not fenced_by_others:
            assert world.bench.row.phase is before, f"{command} stopped the quorum"


@pytest.mark.row("beyond.2")
@table(("standing", "obstruct"), OBSTRUCTED)
def test_each_way_that_status_prints_leads_out_and_gives_no_id_twice(
    standing: str, obstruct: Obstruct
) -> None:
    ways = obstructed(standing, obstruct).bench.run("status").ways
    assert ways, "a phase without an exit"
    for way in ways:
        if way.startswith("if this Kafka cluster never gave out"):
            continue  # it did
        if obstruct is gone and way.startswith("correct zookeeper.connect"):
            continue  # it is right
        world = obstructed(standing, obstruct)
        world.follow(way)
        world.brokers_run = world.bench.port.down == ""
        is_back = world.bench.row.phase in (Phase.WAITING, Phase.BRIDGE)
        if not (is_back and world.bench.run("status").blocking):  # else it was only left alone
            world.to_the_end()
        ordered = sorted(world.blocks)
        assert [pair for pair in pairwise(ordered) if pair[1][0] <= pair[0][1]] == [], way


@pytest.mark.row("beyond.2")
@table("way", [0, 1], ids=["it-is-stopped", "brokers-go-on-with-it"])
def test_a_zookeeper_that_was_said_to_be_stopped_and_answers(way: int) -> None:
    world = World("imported after import:floor-applied")
    world.brokers_run = False
    world.bench.run("import", stopped=stopped(world.last))
    world.take()
    status = world.bench.run("status")
    assert "it answers" in status.blocking[0]
    for words in (False, True):
        with pytest.raises(InvalidRequest, match="the fence is gone"):
            world.bench.run("finalize", zookeeper_is_stopped=words)
    world.follow(status.ways[way])
    world.brokers_run = way == 1
    world.take()
    assert world.bench.run("status").blocking == ()
    world.to_the_end()
    ordered = sorted(world.blocks)
    assert [pair for pair in pairwise(ordered) if pair[1][0] <= pair[0][1]] == []


def test_each_crash_point_of_the_controller_is_a_standing() -> None:
    """Those of a block's way, and of the very end, leave the phase as it was."""
    points = {standing.partition(" after ")[2] for standing in STANDINGS}
    assert {each for each in CONTROLLER_POINTS if not each.startswith(("allocate:", "finalize:"))} <= points


@table(("standing", "obstruct"), [case for case in CASES if not is_obstructed(*case)])
def test_what_is_not_in_the_way_is_not_named(standing: str, obstruct: Obstruct) -> None:
    world = obstructed(standing, obstruct)
    assert world.bench.run("status").blocking == ()
    assert refusal(world, NEXT_COMMAND[world.bench.row.phase], dry_run=False) == ""


@table("standing", STANDINGS)
def test_where_nothing_is_in_the_way_each_way_works(standing: str) -> None:
    status = World(standing).bench.run("status")
    assert status.blocking == ()
    assert status.ways[0] == f"{COMMAND} {status.next_command}"
    for way in status.ways:
        world = World(standing)
        world.follow(way)
        world.to_the_end()
        ordered = sorted(world.blocks)
        assert [pair for pair in pairwise(ordered) if pair[1][0] <= pair[0][1]] == [], way
