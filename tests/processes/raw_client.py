"""A blocking Kafka client of kio's schemas alone: none of the product's own bytes are in it."""

import importlib
import io
import socket
import struct
import uuid
from datetime import timedelta
from typing import Any

from kio.schema.allocate_producer_ids.v0.request import AllocateProducerIdsRequest
from kio.schema.broker_registration.v4.request import BrokerRegistrationRequest, Listener
from kio.schema.init_producer_id.v5.request import InitProducerIdRequest
from kio.schema.sasl_authenticate.v2.request import SaslAuthenticateRequest
from kio.schema.sasl_handshake.v1.request import SaslHandshakeRequest
from kio.schema.types import BrokerId
from kio.serial import entity_reader, entity_writer
from kio.static.primitive import i16, i32Timedelta, i64, u16

from tests.harness.nodes import wait_for

SECONDS_MAX = 30.0
LOADING = 14  # the broker has no block at the moment: ask again
CLIENT_ID = b"raw"


class RawClient:
    """One connection; close it. ``sasl``: (user, password) for PLAIN."""

    def __init__(self, address: tuple[str, int], sasl: tuple[str, str] | None = None) -> None:
        self.socket = socket.create_connection(address, timeout=SECONDS_MAX)
        self._correlation_id = 0
        self._bytes = self.socket.makefile("rb")
        if sasl is not None:
            user, password = sasl
            assert not int(self.call(SaslHandshakeRequest(mechanism="PLAIN")).error_code)
            token = f"\0{user}\0{password}".encode()
            assert not int(self.call(SaslAuthenticateRequest(auth_bytes=token)).error_code)

    def __enter__(self) -> "RawClient":
        return self

    def __exit__(self, *_: object) -> None:
        self._bytes.close()
        self.socket.close()

    def call(self, request: Any) -> Any:
        """Send a request of kio's and read its answer."""
        self.send(request)
        return self.receive(request)

    def send(self, request: Any) -> None:
        """Write a request; its answer comes with ``receive``."""
        self.socket.sendall(self.frame(request))

    def frame(self, request: Any) -> bytes:
        """A request with its header and length. It may be sent to the same API again and again."""
        self._correlation_id += 1
        header = struct.pack(
            ">hhih", request.__api_key__, request.__version__, self._correlation_id, len(CLIENT_ID)
        )
        tags = b"\0" if request.__flexible__ else b""
        with io.BytesIO() as buffer:
            entity_writer(type(request))(buffer, request)
            content = header + CLIENT_ID + tags + buffer.getvalue()
        return struct.pack(">i", len(content)) + content

    def receive_bytes(self) -> bytes:
        """The next response, its header first."""
        (size,) = struct.unpack(">i", self._exactly(4))
        return self._exactly(size)

    def receive(self, request: Any) -> Any:
        """The answer to the oldest request that was sent and not received; ``request`` gives its type."""
        content = self.receive_bytes()
        response = _response_type(request)
        header, position = entity_reader(response.__header_schema__)(content, 0)
        assert header.correlation_id <= self._correlation_id
        answer, read = entity_reader(response)(content, position)
        left = len(content) - position - read
        assert left == 0, f"{left} bytes are left over"
        return answer

    def _exactly(self, size: int) -> bytes:
        content = self._bytes.read(size)
        if len(content) < size:
            raise ConnectionResetError("closed by the other side")
        return content


def register(client: RawClient, cluster_id: str, broker_id: int) -> int:
    """Register a broker that nobody can reach; its epoch."""
    request = BrokerRegistrationRequest(
        broker_id=BrokerId(broker_id),
        cluster_id=cluster_id,
        incarnation_id=uuid.uuid4(),
        listeners=(Listener(name="NONE", host="127.0.0.1", port=u16(1), security_protocol=i16(0)),),
        features=(),
        rack=None,
        log_dirs=(uuid.UUID(int=broker_id + 1),),
    )
    answer = client.call(request)
    assert int(answer.error_code) == 0, answer
    return int(answer.broker_epoch)


def allocation(broker_id: int, broker_epoch: int) -> AllocateProducerIdsRequest:
    """AllocateProducerIds, API key 67."""
    return AllocateProducerIdsRequest(broker_id=BrokerId(broker_id), broker_epoch=i64(broker_epoch))


def producer_id(address: tuple[str, int]) -> int:
    """What an idempotent producer gets from a broker, once it has a block."""
    request = InitProducerIdRequest(
        transactional_id=None,
        transaction_timeout=i32Timedelta.parse(timedelta()),
        producer_id=i64(-1),  # type: ignore[arg-type]
        producer_epoch=i16(-1),
    )

    def ask() -> list[int]:
        try:
            with RawClient(address) as client:
                answer = client.call(request)
        except ConnectionRefusedError:
            return []  # it does not listen yet
        assert int(answer.error_code) in (0, LOADING), answer
        return [] if int(answer.error_code) else [int(answer.producer_id)]

    (found,) = wait_for(f"the broker at {address} has a block", ask)
    return found


def _response_type(request: Any) -> Any:
    """The response of the same API and version, as kio lays its modules out."""
    module = importlib.import_module(type(request).__module__.replace(".request", ".response"))
    return getattr(module, type(request).__name__.removesuffix("Request") + "Response")
