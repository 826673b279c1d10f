"""Every API, for tests that hold for all of them: those of the registry, wire/registry.py."""

from typing import Any

from kio.index import load_request_schema, load_response_schema
from kio.serial import entity_reader

from fencepost.wire.dispatch import PRIVATE_KEY_MIN, Api
from fencepost.wire.k20024_announce_partitions import ANNOUNCE_PARTITIONS
from fencepost.wire.listener import OWN_KEYS
from fencepost.wire.registry import APIS

EVERY_API: tuple[Api[Any, Any], ...] = tuple(APIS.values())
KAFKA_APIS = tuple(api for api in EVERY_API if api.key < PRIVATE_KEY_MIN)  # kio has a schema of these
PRIVATE_APIS = tuple(api for api in EVERY_API if api.key >= PRIVATE_KEY_MIN)
OWN_APIS = tuple(api for api in EVERY_API if api.key in OWN_KEYS)
SERVICE_APIS = tuple(api for api in EVERY_API if api.key not in OWN_KEYS)
NEVER_ANSWERED = frozenset((ANNOUNCE_PARTITIONS.key,))


def kios_request(key: int, version: int, body: bytes) -> tuple[Any, int]:
    """What kio reads in the body, and how many bytes of it."""
    return entity_reader(load_request_schema(key, version))(body, 0)


def kios_response(key: int, version: int, body: bytes) -> tuple[Any, int]:
    """What kio reads in the body, and how many bytes of it."""
    return entity_reader(load_response_schema(key, version))(body, 0)
