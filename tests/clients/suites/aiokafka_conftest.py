"""What stands in the place of aiokafka's tests/conftest.py: a cluster that is there already, and no Docker.

Copied beside the library's tests by aiokafka.py; BOOTSTRAP says which cluster, KAFKA_VERSION what the tests
take it for. The names of fixtures and attributes are those that the tests use.
"""

import asyncio
import gc
import os
from collections.abc import Iterator
from typing import Any

import pytest


@pytest.fixture(scope="class")
def loop() -> Iterator[asyncio.AbstractEventLoop]:
    """As the library's own: one for the tests of a class."""
    made = asyncio.new_event_loop()
    asyncio.set_event_loop(made)
    yield made
    if not made.is_closed():
        made.call_soon(made.stop)
        made.run_forever()
        made.close()
    gc.collect()
    asyncio.set_event_loop(None)


@pytest.fixture(autouse=True)
def collect_garbage() -> Iterator[None]:
    """As the library's own: what a test leaves unclosed is reported with that test."""
    yield
    gc.collect()


@pytest.fixture(scope="class")
def setup_test_class_serverless(request: Any, loop: asyncio.AbstractEventLoop) -> None:
    """Of tests without a broker."""
    request.cls.loop = loop


@pytest.fixture(scope="class")
def setup_test_class(request: Any, loop: asyncio.AbstractEventLoop) -> None:
    """The library knows its broker by one address: the first node's."""
    first = os.environ["BOOTSTRAP"].split(",")[0]
    host, port = first.rsplit(":", 1)
    request.cls.loop = loop
    request.cls.kafka_host, request.cls.kafka_port = host, int(port)
    request.cls.hosts = [first]
    request.cls.kafka_version = os.environ["KAFKA_VERSION"]
