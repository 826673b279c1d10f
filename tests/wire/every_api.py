"""Every API that wire knows, for tests that hold for all of them."""

from typing import Any

from kio.index import load_request_schema, load_response_schema
from kio.serial import entity_reader

from wire.dispatch import Api
from wire.k00_produce import PRODUCE
from wire.k01_fetch import FETCH
from wire.k02_list_offsets import LIST_OFFSETS
from wire.k03_metadata import METADATA
from wire.k10_find_coordinator import FIND_COORDINATOR
from wire.k17_sasl_handshake import SASL_HANDSHAKE
from wire.k18_api_versions import API_VERSIONS
from wire.k19_create_topics import CREATE_TOPICS
from wire.k20_delete_topics import DELETE_TOPICS
from wire.k22_init_producer_id import INIT_PRODUCER_ID
from wire.k23_offset_for_leader_epoch import OFFSET_FOR_LEADER_EPOCH
from wire.k24_add_partitions_to_txn import ADD_PARTITIONS_TO_TXN
from wire.k26_end_txn import END_TXN
from wire.k27_write_txn_markers import WRITE_TXN_MARKERS
from wire.k36_sasl_authenticate import SASL_AUTHENTICATE
from wire.k55_describe_quorum import DESCRIBE_QUORUM
from wire.k60_describe_cluster import DESCRIBE_CLUSTER
from wire.k61_describe_producers import DESCRIBE_PRODUCERS
from wire.k62_broker_registration import BROKER_REGISTRATION
from wire.k63_broker_heartbeat import BROKER_HEARTBEAT
from wire.k64_unregister_broker import UNREGISTER_BROKER
from wire.k65_describe_transactions import DESCRIBE_TRANSACTIONS
from wire.k66_list_transactions import LIST_TRANSACTIONS
from wire.k67_allocate_producer_ids import ALLOCATE_PRODUCER_IDS

EVERY_API: tuple[Api[Any, Any], ...] = (
    PRODUCE,
    FETCH,
    LIST_OFFSETS,
    METADATA,
    FIND_COORDINATOR,
    SASL_HANDSHAKE,
    API_VERSIONS,
    CREATE_TOPICS,
    DELETE_TOPICS,
    INIT_PRODUCER_ID,
    OFFSET_FOR_LEADER_EPOCH,
    ADD_PARTITIONS_TO_TXN,
    END_TXN,
    WRITE_TXN_MARKERS,
    SASL_AUTHENTICATE,
    DESCRIBE_QUORUM,
    DESCRIBE_CLUSTER,
    DESCRIBE_PRODUCERS,
    BROKER_REGISTRATION,
    BROKER_HEARTBEAT,
    UNREGISTER_BROKER,
    DESCRIBE_TRANSACTIONS,
    LIST_TRANSACTIONS,
    ALLOCATE_PRODUCER_IDS,
)


def kios_request(key: int, version: int, body: bytes) -> tuple[Any, int]:
    """What kio reads in the body, and how many bytes of it."""
    return entity_reader(load_request_schema(key, version))(body, 0)


def kios_response(key: int, version: int, body: bytes) -> tuple[Any, int]:
    """What kio reads in the body, and how many bytes of it."""
    return entity_reader(load_response_schema(key, version))(body, 0)
