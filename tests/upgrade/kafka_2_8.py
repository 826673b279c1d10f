"""What preflight sees of a Kafka 2.8 broker: its registration in ZooKeeper, and its inter-broker protocol.

A listener that answers DescribeConfigs, and an ephemeral znode as Kafka 2.8 writes it. How such a broker
takes its blocks is tests/zookeeper/rival.py's.
"""

import asyncio
import contextlib
import json
import threading
from collections.abc import Iterator, Mapping
from typing import Any

import structlog
from structlog.testing import LogCapture

from fencepost.controller.topics import TopicConfig
from fencepost.wire.dispatch import Context, Reply
from fencepost.wire.k32_describe_configs import (
    DESCRIBE_CONFIGS,
    ConfigsDescribed,
    DescribeConfigs,
    DescribeConfigsAnswer,
)
from fencepost.wire.listener import Listener


@contextlib.contextmanager
def registered(
    client: Any, protocols: Mapping[int, tuple[int, str | None]], chroot: str = ""
) -> Iterator[None]:
    """Brokers by id: (port, protocol version); None is a broker that registered and does not answer."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, name="kafka-2.8")
    thread.start()
    listeners: list[Listener] = []
    try:
        for broker_id, (port, protocol) in protocols.items():
            if protocol is not None:
                listener = _listener(protocol)
                asyncio.run_coroutine_threadsafe(listener.start("127.0.0.1", port), loop).result(10)
                listeners.append(listener)
            client.create(
                f"{chroot}/brokers/ids/{broker_id}", _registration(port), ephemeral=True, makepath=True
            )
        yield
    finally:
        for listener in listeners:
            asyncio.run_coroutine_threadsafe(listener.stop(), loop).result(10)
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()


def _listener(protocol: str) -> Listener:
    def describe(request: DescribeConfigs, _context: Context, reply: Reply[Any]) -> None:
        (asked,) = request.resources
        assert asked.keys == ("inter.broker.protocol.version",)
        told = TopicConfig(asked.keys[0], protocol, 4, read_only=True)
        reply(DescribeConfigsAnswer((ConfigsDescribed(asked.resource_type, asked.name, (told,)),)))

    return Listener(
        {DESCRIBE_CONFIGS.key: (DESCRIBE_CONFIGS, describe)},
        name="PLAINTEXT",
        log=structlog.wrap_logger(None, processors=[LogCapture()]),
    )


def _registration(port: int) -> bytes:
    document = {
        "features": {},
        "listener_security_protocol_map": {"PLAINTEXT": "PLAINTEXT"},
        "endpoints": [f"PLAINTEXT://127.0.0.1:{port}"],
        "jmx_port": -1,
        "port": port,
        "host": "127.0.0.1",
        "version": 5,
        "timestamp": "1699999999999",
    }
    return json.dumps(document, separators=(",", ":")).encode()
