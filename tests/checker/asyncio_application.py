"""The application of application.py with ``fencepost.client``: the same loop, events and points.

Protocol   V2 where the cluster's ``transaction.version`` is 2 as a transaction begins, else V1: a run that
           changes it has both, in one process after the other and in one process.
Group      aware (KIP-447): the producer has no name, and is initialized with each assignment of the consumer.
"""

import asyncio
import json
import sys
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Final

from fencepost.client import (
    AbortableError,
    ClientError,
    CommitFailed,
    Consumer,
    ConsumerRecord,
    GroupMetadata,
    NotReachable,
    Producer,
    RequestTimedOut,
    TopicPartition,
)
from tests.checker.application_process import ApplicationProcess
from tests.checker.evidence import Outcome
from tests.checker.history import History
from tests.checker.library_log import Requests
from tests.checker.outputs import outputs
from tests.checker.reading import read_to_end
from tests.checker.settings import (
    CALL_SECONDS,
    CALLS_MAX,
    GROUP_AWARE,
    OUTPUT,
    READ_SECONDS_MAX,
    TRANSACTION_TIMEOUT_MS,
    Part,
    until_terminated,
)

POLL_MS: Final = 250


class Ended(Exception):
    """This process cannot go on; another one takes its place."""


class Application(ApplicationProcess):
    """One process's state. ``is_over``: it is to leave."""

    def __init__(self, part: Part, history: History, *, is_over: Callable[[], bool]) -> None:
        super().__init__(part, history, Requests())
        self._is_over = is_over
        self._is_group_aware = part.client == GROUP_AWARE
        self._initialized_for: GroupMetadata | None = None
        self._batch: list[ConsumerRecord] = []
        self._producer = Producer(
            part.bootstrap,
            transactional_id=None if self._is_group_aware else part.transactional_id,
            group_aware=self._is_group_aware,
            transaction_timeout_ms=TRANSACTION_TIMEOUT_MS,
            linger_ms=1,
            max_block_ms=round(CALL_SECONDS * 1000),
        )
        self._consumer = Consumer(
            part.bootstrap,
            group_id=part.group,
            group_instance_id=part.instance_id,
            isolation_level="read_committed",
            auto_offset_reset="none",
            session_timeout_ms=part.session_ms,
            heartbeat_interval_ms=500,
            max_poll_interval_ms=max(10_000, part.session_ms),
            assignors=(part.strategy,),
        )

    async def run(self) -> None:
        """To the end. Raises Ended, ClientError."""
        async with self._consumer, self._producer:
            self._history.write("application_started", **self._named())
            if self._part.group is None:
                await self._assign()
            else:
                self._consumer.subscribe(sorted({topic for topic, _ in self._part.partitions}), self)
            while not self._is_over():
                self._batch = await self._consumer.poll(timeout_ms=POLL_MS, max_records=self._part.batch_max)
                if self._is_group_aware and not await self._is_initialized():
                    continue
                if self._batch:
                    await self._transact()
        self._history.write("application_left", **self._named())

    # -- one transaction -----------------------------------------------------------------------------------

    async def _transact(self) -> None:
        self._number += 1
        named = {**self._named(), "number": self._number}
        generation = -1 if self._part.group is None else self._consumer.group_metadata().generation
        sources = [(each.topic, each.partition, each.offset, int(each.value or b"")) for each in self._batch]
        self._history.write("transaction_began", **named, generation=generation, sources=sources)
        committing = False
        outcome = Outcome.ABORTED
        try:
            self._point()
            await self._produce(generation, sources)
            self._point()
            await self._send_offsets()
            self._point()
            if self._random.random() < self._part.abort_rate:
                self._history.write("transaction_aborting", **named)
                await self._call(self._producer.abort_transaction)
            else:
                self._history.write("transaction_committing", **named)
                committing = True
                self._point()
                await self._call(self._producer.commit_transaction)
                outcome = Outcome.COMMITTED
                self._point()
        except ClientError as failed:
            outcome = await self._failed(failed, committing, named)
        self._history.write("transaction_ended", **named, outcome=outcome)
        if outcome is not Outcome.COMMITTED:
            self._rewind()

    async def _is_initialized(self) -> bool:
        """For what the consumer has in this generation. If not, what was read is read again once it is."""
        assignment = self._consumer.group_assignment()
        if not self._producer.needs_assignment and self._initialized_for == assignment.member:
            return True
        if not assignment.partitions:
            return False
        try:
            with self._watch.call("init_transactions", self._number):
                await self._producer.init_transactions(group=assignment)
            for partition, offset in (await self._consumer.committed(assignment.partitions)).items():
                self._consumer.seek(partition, offset.offset)
        except CommitFailed as failed:
            self._history.write("initialization_refused", **self._named(), error=repr(failed))
            return False
        self._initialized_for = assignment.member
        return False

    async def _produce(self, generation: int, sources: list[tuple[str, int, int, int]]) -> None:
        self._producer.begin_transaction()
        for place, value in outputs(self._part, self._number, generation, sources):
            await self._producer.send(OUTPUT, value, partition=place)

    async def _send_offsets(self) -> None:
        if self._part.group is None:
            return
        ends = {TopicPartition(each.topic, each.partition): each.offset + 1 for each in self._batch}
        with self._watch.call("send_offsets_to_transaction", self._number):
            await self._producer.send_offsets_to_transaction(ends, self._consumer.group_metadata())

    async def _failed(self, error: ClientError, committing: bool, named: dict[str, Any]) -> Outcome:
        """Abort it. Raises Ended if the producer cannot go on."""
        self._history.write("transaction_failed", **named, committing=committing, error=repr(error))
        if isinstance(error, AbortableError):
            if not self._producer.needs_assignment:
                await self._call(self._producer.abort_transaction)
            return Outcome.REFUSED if isinstance(error, CommitFailed) else Outcome.ABORTED
        if not committing:
            self._history.write("transaction_ended", **named, outcome=Outcome.REFUSED)
        raise Ended(repr(error))

    async def _call(self, call: Callable[[], Awaitable[None]]) -> None:
        """Again while its outcome is not known. Raises ClientError."""
        name = getattr(call, "__name__", "")
        for left in range(CALLS_MAX, 0, -1):
            try:
                with self._watch.call(name, self._number):
                    await call()
            except (RequestTimedOut, NotReachable) as failed:
                named = {"call": name, "number": self._number, "error": repr(failed)}
                self._history.write("call_failed", **self._named(), **named)
                if left == 1:
                    raise
            else:
                return

    def _rewind(self) -> None:
        firsts: dict[TopicPartition, int] = {}
        for each in self._batch:
            firsts.setdefault(TopicPartition(each.topic, each.partition), each.offset)
        assigned = set(self._consumer.assignment())
        for partition, offset in firsts.items():
            if partition in assigned:
                self._consumer.seek(partition, offset)

    # -- positions ----------------------------------------------------------------------------------------

    async def _assign(self) -> None:
        """Behind the last output of each partition. InitProducerId has ended what was open."""
        ends = {(each[0], each[1]): 0 for each in self._part.partitions}
        outputs = range(self._part.output_partitions)
        rows = await asyncio.to_thread(
            lambda: [*read_to_end(self._part.bootstrap, OUTPUT, outputs, READ_SECONDS_MAX)]
        )
        for _, _, value in rows:
            topic, partition, offset, _ = json.loads(value)["source"]
            if (topic, partition) in ends:
                ends[topic, partition] = max(ends[topic, partition], offset + 1)
        self._consumer.assign([TopicPartition(*each) for each in ends])
        for each, offset in ends.items():
            self._consumer.seek(TopicPartition(*each), offset)

    async def on_assigned(self, partitions: Sequence[TopicPartition]) -> None:
        """Implements RebalanceListener."""
        generation = self._consumer.group_metadata().generation
        self._history.write(
            "partitions_assigned", **self._named(), generation=generation, partitions=_named(partitions)
        )

    async def on_revoked(self, partitions: Sequence[TopicPartition]) -> None:
        """Implements RebalanceListener."""
        self._history.write("partitions_revoked", **self._named(), partitions=_named(partitions))

    async def on_lost(self, partitions: Sequence[TopicPartition]) -> None:
        """Implements RebalanceListener."""
        await self.on_revoked(partitions)


def _named(partitions: Sequence[TopicPartition]) -> list[tuple[str, int]]:
    return [(each.topic, each.partition) for each in partitions]


def main() -> None:
    """Exit status: 0 it was to leave, 1 it could not go on."""
    part = Part.of_command_line()
    history = History(part.path, part.name)
    over = until_terminated()
    try:
        asyncio.run(Application(part, history, is_over=over.is_set).run())
    except (Ended, ClientError) as failed:
        history.write("application_failed", application=part.name, group=part.group, error=repr(failed))
        sys.exit(1)


if __name__ == "__main__":
    main()
