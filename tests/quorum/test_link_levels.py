"""Sockets between voters and log levels: what each learns of the other, and who is refused by name."""

from tests.ports import free_port
from tests.quorum.test_links import ONE, TWO, Node, run, running, until


def two(*, reads: tuple[int, int]) -> tuple[Node, Node]:
    ports = dict(zip((ONE, TWO), (free_port(), free_port()), strict=True))
    return Node(ONE, ports, reads=reads[0]), Node(TWO, ports, reads=reads[1])


def test_each_learns_what_the_other_reads() -> None:
    async def story() -> None:
        one, other = two(reads=(3, 5))
        async with running(one, other):
            await until(lambda: one.has("connected 2")() and other.has("connected 1")())
        assert (one.levels, other.levels) == ({TWO: {5}}, {ONE: {3}})

    run(story)


def test_a_node_below_the_level_of_the_cluster_is_refused_on_both_sides() -> None:
    async def story() -> None:
        one, other = two(reads=(3, 1))
        one.log_level = 2
        says = "node 2 reads log levels up to 1, this cluster is at 2: upgrade node 2"
        async with running(one, other):
            await until(lambda: says in one.refusals)
            await until(lambda: f"node 1 refuses this node: {says}" in other.refusals)
        assert not one.reported
        assert not one.met

    run(story)


def test_a_node_that_reads_more_is_taken() -> None:
    async def story() -> None:
        one, other = two(reads=(2, 2**15 - 1))
        one.log_level = other.log_level = 2
        async with running(one, other):
            await until(lambda: one.has("connected 2")() and other.has("connected 1")())

    run(story)


def test_a_raise_ends_the_connections_of_who_cannot_read_it() -> None:
    """Of a node that does not vote, say: it had no say in the raise."""

    async def story() -> None:
        one, other = two(reads=(3, 1))
        async with running(one, other):
            await until(lambda: one.has("connected 2")() and other.has("connected 1")())
            one.links.require_level(1)
            assert not one.has("lost 2")()
            one.log_level = 2
            one.links.require_level(2)
            await until(one.has("disconnected 2", "lost 2"))
            await until(other.has("disconnected 1", "lost 1"))
            await until(lambda: "upgrade node 2" in other.refusals)
            one.reported.clear()
            one.log_level = 1
            await until(one.has("connected 2"))

    run(story)
