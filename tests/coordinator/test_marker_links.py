"""The marker sender's connections, over real sockets: answers, addresses, SASL, brokers that are silent."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
import structlog

import fencepost.coordinator.marker_links
from fencepost.controller.authorization import Operation
from fencepost.controller.errors import ApiError, ClusterAuthorizationFailed, ErrorCode
from fencepost.coordinator.marker_links import AnnouncementLinks, MarkerLinks
from fencepost.records.types import BrokerId
from fencepost.wire.auth import Login, Logins
from fencepost.wire.connection import ConnectionLost, RequestTimeout
from fencepost.wire.dispatch import Context, Endpoint, Reply
from fencepost.wire.k27_write_txn_markers import (
    WRITE_TXN_MARKERS,
    TxnMarker,
    WriteTxnMarkers,
    WriteTxnMarkersAnswer,
)
from fencepost.wire.k20024_announce_partitions import ANNOUNCE_PARTITIONS, Announcement, AnnouncePartitions
from fencepost.wire.listener import Listener
from fencepost.wire.stalls import Stalls
from tests.secret import known_secret

HOST = "127.0.0.1"
REQUEST = WriteTxnMarkers((TxnMarker(7, 3, True, (("orders", (0, 1)),), 5, image_version=99),))
WRITTEN = WriteTxnMarkersAnswer(((7, (("orders", ((0, 0), (1, 0))),)),))


class Told:
    """What ``done`` was called with, and a wait for it."""

    def __init__(self) -> None:
        self.outcome: asyncio.Future[Any] = asyncio.get_running_loop().create_future()

    def __call__(self, outcome: Any) -> None:
        self.outcome.set_result(outcome)


async def broker(endpoint: Endpoint[Any, Any], port: int = 0, **options: Any) -> Listener:
    """A listener with nothing but WriteTxnMarkers."""
    listener = Listener(
        {WRITE_TXN_MARKERS.key: (WRITE_TXN_MARKERS, endpoint)},
        name="PLAINTEXT",
        log=structlog.get_logger(),
        **options,
    )
    await listener.start(HOST, port)
    return listener


def writes(heard: list[WriteTxnMarkers]) -> Endpoint[Any, Any]:
    """Answers that everything is written."""

    def endpoint(request: WriteTxnMarkers, context: Context, reply: Reply[Any]) -> None:
        heard.append(request)
        reply(WRITTEN)

    return endpoint


async def send(links: MarkerLinks, broker_id: int, port: int) -> Any:
    told = Told()
    links.send(BrokerId(broker_id), HOST, port, REQUEST, told)
    return await asyncio.wait_for(told.outcome, 20)


def run(story: Callable[[MarkerLinks], Any], sasl: Login | None = None) -> None:
    """Run a story with links that are closed at its end."""

    async def whole() -> None:
        links = MarkerLinks(sasl, known_secret(), Stalls())
        try:
            await story(links)
        finally:
            await links.stop()
            for _ in range(5):  # a connection that was just being accepted learns that it is closed
                await asyncio.sleep(0)

    asyncio.run(whole())


def test_markers_are_sent_with_their_version_and_the_answer_is_told() -> None:
    async def story(links: MarkerLinks) -> None:
        heard: list[WriteTxnMarkers] = []
        listener = await broker(writes(heard))
        assert await send(links, 1, listener.port) == WRITTEN
        assert await send(links, 1, listener.port) == WRITTEN
        assert heard == [REQUEST, REQUEST]
        await listener.stop()

    run(story)


def test_a_broker_that_moved_is_reached_at_its_new_address() -> None:
    async def story(links: MarkerLinks) -> None:
        before, after = await broker(writes([])), await broker(writes([]))
        await send(links, 1, before.port)
        await before.stop()
        assert await send(links, 1, after.port) == WRITTEN
        await after.stop()

    run(story)


def test_a_broker_that_restarted_is_connected_again() -> None:
    async def story(links: MarkerLinks) -> None:
        first = await broker(writes([]))
        port = first.port
        await send(links, 1, port)
        await first.stop()
        assert isinstance(await send(links, 1, port), ConnectionLost)
        second = await broker(writes([]), port=port)
        assert await send(links, 1, port) == WRITTEN
        await second.stop()

    run(story)


def test_silence_is_told_and_others_do_not_wait_for_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fencepost.coordinator.marker_links, "MARKERS_TIMEOUT_S", 0.2)

    async def story(links: MarkerLinks) -> None:
        silent = await broker(lambda request, context, reply: None)
        lively = await broker(writes([]))
        told = Told()
        links.send(BrokerId(1), HOST, silent.port, REQUEST, told)
        assert await send(links, 2, lively.port) == WRITTEN
        assert not told.outcome.done()
        assert isinstance(await asyncio.wait_for(told.outcome, 20), RequestTimeout)
        await silent.stop()
        await lively.stop()

    run(story)


@pytest.mark.parametrize(
    ("sasl", "told"),
    [
        pytest.param(Login("node", "secret"), {0}, id="its-own-credentials"),
        pytest.param(Login("node", "wrong"), ErrorCode.SASL_AUTHENTICATION_FAILED, id="wrong-password"),
        pytest.param(None, set(), id="none-so-no-partition-is-answered"),
    ],
)
def test_a_listener_with_sasl_is_given_the_nodes_own_credentials(sasl: Login | None, told: object) -> None:
    async def story(links: MarkerLinks) -> None:
        listener = await broker(
            writes([]), security_protocol="SASL_PLAINTEXT", logins=Logins({"node": "secret"})
        )
        outcome = await send(links, 1, listener.port)
        await listener.stop()
        assert (outcome.code if isinstance(outcome, ApiError) else codes(outcome)) == told

    run(story, sasl)


def codes(answer: WriteTxnMarkersAnswer) -> set[int]:
    """Those of all partitions."""
    return {code for _, topics in answer.markers for _, results in topics for _, code in results}


def test_a_refusal_as_a_whole_is_in_every_partitions_code() -> None:
    def refusing(request: Any, context: Context, reply: Reply[Any]) -> None:
        raise ClusterAuthorizationFailed(principal=context.principal, operation=Operation.CLUSTER_ACTION)

    async def story(links: MarkerLinks) -> None:
        listener = await broker(refusing)
        answer = await send(links, 1, listener.port)
        assert codes(answer) == {ErrorCode.CLUSTER_AUTHORIZATION_FAILED}
        await listener.stop()

    run(story)


ANNOUNCEMENT = AnnouncePartitions((Announcement(7, 3, 99, (("orders", (0, 1)),)),))


class Announced:
    """A broker that hears announcements."""

    def __init__(self) -> None:
        self.record_heartbeat: asyncio.Queue[AnnouncePartitions] = asyncio.Queue()

    def __call__(self, request: AnnouncePartitions, context: Context, reply: Reply[Any]) -> None:
        self.record_heartbeat.put_nowait(request)
        reply(None)

    async def listen(self, port: int = 0) -> Listener:
        service = {ANNOUNCE_PARTITIONS.key: (ANNOUNCE_PARTITIONS, self)}
        listener = Listener(service, name="PLAINTEXT", log=structlog.get_logger())
        await listener.start(HOST, port)
        return listener

    async def next(self, links: AnnouncementLinks, port: int) -> AnnouncePartitions:
        """Announce until it is heard: what is sent while no connection is open is lost.

        A connection that opens says first that the cluster may have changed.
        """
        while self.record_heartbeat.empty():
            links.send_nowait(BrokerId(1), HOST, port, ANNOUNCEMENT)
            await asyncio.sleep(0.001)
        assert await self.record_heartbeat.get() == AnnouncePartitions(())
        links.send_nowait(BrokerId(1), HOST, port, ANNOUNCEMENT)
        return await self.record_heartbeat.get()


def test_an_announcement_is_heard_once_a_connection_is_open_and_again_after_it_was_lost(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(fencepost.coordinator.marker_links, "REOPEN_S", 0.0)

    async def story() -> None:
        links, broker = AnnouncementLinks(None, known_secret(), Stalls()), Announced()
        try:
            listener = await broker.listen()
            port = listener.port
            assert await broker.next(links, port) == ANNOUNCEMENT
            await listener.stop()
            restarted = Announced()
            listener = await restarted.listen(port)
            assert await restarted.next(links, port) == ANNOUNCEMENT
            await listener.stop()
        finally:
            await links.stop()

    asyncio.run(story())
