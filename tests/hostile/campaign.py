"""A campaign of hostile frames against real nodes, what must hold after it, and the load that runs then.

Holds   the same processes run; no log has a traceback, a critical event or a failed request; logs grow by
        less than LOG_BYTES_MAX each, memory by less than MEMORY_KIB_MAX; then transactional producers commit
        and abort, and what a read_committed consumer sees of it is whole.
"""

import time
from collections import Counter
from collections.abc import Callable
from random import Random
from typing import Final

from fencepost.bench.demo import SETTINGS
from fencepost.bench.demo_transactions import Writers, check
from fencepost.client.transactional_producer import Outcome
from fencepost.cluster.state import leader_id
from fencepost.cluster.target import brokers_of
from fencepost.settings.credentials import read_credentials
from fencepost.settings.node_identity import read_identity
from tests.harness.nodes import NO_QUOTA, Nodes, wait_for
from tests.hostile.messages import Known, Messages
from tests.hostile.sender import STRANGERS_AT_ONCE, Tally, kafka_connections, send
from tests.hostile.strangers import raft_connections
from tests.hostile.voters import Voter, send_as

ROUND_FRAMES: Final = 20_000
RAFT_SHARE: Final = 20  # one frame in so many
VOTERS_SHARE: Final = 200  # one frame more in so many: each takes the place of a voter's own connection
LOG_BYTES_MAX: Final = 2 * 1024 * 1024
MEMORY_KIB_MAX: Final = 64 * 1024
TRANSACTIONS: Final = 60
TOPICS: Final = ("orders", "payments")
NODE_SETTINGS: Final = (NO_QUOTA, *(each for each in SETTINGS if not each.startswith("producer.id")))
NEVER: Final = ("exception_not_caught", "request_failed", "answer_failed", "decision_failed")

Say = Callable[[str], None]


def campaign(nodes: Nodes, frames: int, seed: int, say: Say, login: bytes = b"") -> Tally:
    """So many frames on the clients', the controllers' and Raft's listeners. How connections ended.

    ``login``: with which half of the clients' and controllers' connections begin, where SASL is wanted.
    """
    rng = Random(seed)
    pids = [nodes.pid(node_id) for node_id in nodes.node_ids]
    marks = {node_id: nodes.log_size(node_id) for node_id in nodes.node_ids}
    kib_before = {node_id: nodes.rss_anon_kib(node_id) for node_id in nodes.node_ids}
    for topic in TOPICS:
        nodes.run("topics", "create", "--topic", topic, "--partitions", "3")
    known = Known(
        (
            *TOPICS,
            "transfers",
            "refunds",
            nodes.cluster.cluster_id,
            "CONTROLLER",
            "PLAINTEXT",
            "retention.ms",
        ),
        (0, 1, 2, 3, 5, 1000, 1001, 2000, 32_766),
    )
    messages = Messages(rng, known)
    tally = Tally(Counter(), Counter())
    voters: Counter[str] = Counter()
    began, sent = time.monotonic(), 0
    while sent < frames:
        count = min(ROUND_FRAMES, frames - sent)
        for_raft = count // RAFT_SHARE
        for purpose in ("client", "controller"):
            addresses = [nodes.address(node_id, purpose) for node_id in nodes.node_ids]
            tally.add(send(addresses, kafka_connections(rng, messages, (count - for_raft) // 2, login), rng))
        addresses = [nodes.address(node_id, "raft") for node_id in nodes.node_ids]
        strangers = raft_connections(rng, nodes.cluster.cluster_id, for_raft)
        tally.add(send(addresses, strangers, rng, STRANGERS_AT_ONCE))
        voters += voters_run(nodes, rng, count // VOTERS_SHARE)
        sent += count
        rate = sent / (time.monotonic() - began)
        endings = f"connections {dict(tally.endings)}, as voters {dict(voters)}"
        say(f"{sent} frames, {rate:.0f} per second, {endings}")
        assert [nodes.node(node_id).pid() for node_id in nodes.node_ids] == pids, "a node ended"
    assert not voters["stays open"], "a damaged frame did not close its connection"
    for node_id, mark in marks.items():
        grown = nodes.log_size(node_id) - mark
        grown_kib = nodes.rss_anon_kib(node_id) - kib_before[node_id]
        say(f"node {node_id}: log grew by {grown} bytes, memory by {grown_kib} KiB")
        assert grown_kib < MEMORY_KIB_MAX, f"node {node_id}: {grown_kib} KiB of memory"
        assert grown < LOG_BYTES_MAX, f"node {node_id}: {grown} bytes of log"
    say(f"replies by API key: {dict(sorted(tally.answered.items()))}")
    assert_clean(nodes)
    return tally


def voters_run(nodes: Nodes, rng: Random, frames: int) -> Counter[str]:
    """Damaged frames of a peer that holds the cluster's secret, as one voter after the other."""
    endings: Counter[str] = Counter()
    secret = read_credentials(nodes.node(nodes.node_ids[0]).config, nodes.cluster.cluster_id).secret.secret
    for node_id in nodes.node_ids:
        directory_id = read_identity(nodes.home(node_id)).directory_id
        address = nodes.address(node_id, "controller")
        voter = Voter(nodes.cluster.cluster_id, secret, node_id, directory_id, address)
        others = [nodes.address(other, "raft") for other in nodes.node_ids if other != node_id]
        endings += send_as(voter, others, rng, frames // len(nodes.node_ids))
    return endings


def assert_clean(nodes: Nodes) -> None:
    """No log has a line that only a bug of ours writes."""
    bad = nodes.complaints() + [
        f"node {node_id}: {event}"
        for node_id in nodes.node_ids
        for event in nodes.events(node_id)
        if event["event"] in NEVER or "Traceback" in str(event)
    ]
    assert not bad, f"{len(bad)} lines:\n" + "\n".join(line[:3000] for line in bad[:10])


def transactions_run(nodes: Nodes, say: Say) -> None:
    """The demo's producers commit and abort on these nodes, and are read back."""
    wait_for("a node leads", lambda: leader_id(nodes.cluster))
    with Writers(brokers_of(nodes.cluster)) as writers:
        wait_for("transactions end", lambda: writers.count()[Outcome.COMMITTED] >= TRANSACTIONS)
        writers.stop()
    verdict = check(writers.target, writers.outcomes)
    say(f"transactions after it: {dict(verdict.ended)}, faults {list(verdict.faults)}")
    assert not verdict.faults
    assert verdict.seen[Outcome.COMMITTED] == verdict.ended[Outcome.COMMITTED] >= TRANSACTIONS
