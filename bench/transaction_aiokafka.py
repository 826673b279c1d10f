"""The producer of aiokafka that loads a cluster as ours does. The library comes with the extra ``test``."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from fencepost.bench.transaction_records import LoadFailed


class AiokafkaProducer:
    """See TaskProducer. Any failure ends the load: it is not known which of them it can go on after."""

    def __init__(self, bootstrap: str, transactional_id: str) -> None:
        self._settings = {"bootstrap_servers": bootstrap, "transactional_id": transactional_id}
        self._producer: Any = None

    async def start(self) -> None:
        """See TaskProducer."""
        try:
            from aiokafka import AIOKafkaProducer
        except ImportError:
            raise LoadFailed("aiokafka is not installed: pip install 'fencepost[test]'") from None
        self._producer = AIOKafkaProducer(**self._settings)
        with _failures():
            await self._producer.start()

    async def write(self, topic: str, values: Sequence[bytes], partition: int) -> bool:
        """See TaskProducer."""
        producer = self._producer
        with _failures():
            await producer.begin_transaction()
            for value in values:
                await producer.send(topic, value, partition=partition)
            await producer.commit_transaction()
        return True

    async def abort(self, topic: str, values: Sequence[bytes], partition: int) -> None:
        """See TaskProducer."""
        producer = self._producer
        with _failures():
            await producer.begin_transaction()
            for value in values:
                await producer.send(topic, value, partition=partition)
            await producer.flush()
            await producer.abort_transaction()

    async def close(self) -> None:
        """See TaskProducer."""
        if self._producer is not None:
            await self._producer.stop()


@contextmanager
def _failures() -> Iterator[None]:
    from aiokafka.errors import KafkaError

    try:
        yield
    except KafkaError as error:
        raise LoadFailed(f"aiokafka: {error}") from error
