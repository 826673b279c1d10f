"""Operators who make topics, read them and delete them, each one name, while everything else goes on.

Deleted is by id, so that what becomes of a request without an answer changes nothing of what must hold: a
topic whose creation was acknowledged is there until a deletion of its id was sent; one whose deletion was
acknowledged is never there again.
"""

import random
import uuid
from collections.abc import Mapping
from typing import Final

from fencepost.controller.errors import ErrorCode
from fencepost.controller.topics import (
    CreateTopics,
    CreateTopicsAnswer,
    DeleteTopics,
    DeleteTopicsAnswer,
    NewTopic,
    Topic,
    find,
    find_by_id,
)
from fencepost.records.types import NodeId
from tests.simulation.agenda import Agenda
from tests.simulation.clients import CONTEXT
from tests.simulation.invariants import require
from tests.simulation.ledger import Ledger
from tests.simulation.operators import Operator
from tests.simulation.process import Process
from tests.wire.answering import Answering

PARTITIONS_MAX: Final = 3


class TopicOperator(Operator):
    """See the module."""

    def __init__(
        self,
        name: str,
        agenda: Agenda,
        rng: random.Random,
        ledger: Ledger,
        processes: Mapping[NodeId, Process],
    ) -> None:
        self._name = name
        self._topic_id: uuid.UUID | None = None  # made or found, and no deletion of it was sent
        self._is_there = False  # a topic has the name, which one is not known
        self._gone: set[uuid.UUID] = set()  # whose deletion was acknowledged
        super().__init__(agenda, rng, ledger, processes)

    def _act(self) -> None:
        rng, topic_id = self._rng, self._topic_id
        if topic_id is None:
            if self._is_there:
                self._find()
            elif self._gone and rng.random() < 0.3:
                self._look_for_one_that_is_gone(rng.choice(sorted(self._gone)))
            else:
                self._create()
        elif rng.random() < 0.3:
            self._delete(topic_id)
        else:
            self._look_at(topic_id)

    # -- requests ---------------------------------------------------------------------------------

    def _create(self) -> None:
        request = CreateTopics((NewTopic(self._name, self._rng.randint(1, PARTITIONS_MAX), 1),))

        def done(answer: CreateTopicsAnswer) -> None:
            (topic,) = answer.topics
            if topic.error_code == ErrorCode.NONE:
                self._ledger.count("topics made")
                self._topic_id = topic.topic_id
            elif topic.error_code == ErrorCode.TOPIC_ALREADY_EXISTS:
                self._is_there = True

        self._send(
            lambda node, reply: node.controller.topics.create(request, CONTEXT, Answering(reply)), done
        )

    def _find(self) -> None:
        """A creation without an answer was done: which topic is it?"""

        def done(topic: Topic | None) -> None:
            self._is_there = False
            self._topic_id = None if topic is None else topic.topic_id

        self._read(lambda view: find(view, self._name), done)

    def _delete(self, topic_id: uuid.UUID) -> None:
        request = DeleteTopics(ids=(topic_id,))
        self._topic_id = None

        def done(answer: DeleteTopicsAnswer) -> None:
            if answer.topics[0].error_code == ErrorCode.NONE:
                self._ledger.count("topics deleted")
                self._gone.add(topic_id)

        self._send(
            lambda node, reply: node.controller.topics.delete(request, CONTEXT, Answering(reply)), done
        )

    def _look_at(self, topic_id: uuid.UUID) -> None:
        def done(topic: Topic | None) -> None:
            if self._ledger.changed:
                return  # perhaps the leader's row: see mixed.py
            is_there = topic is not None and topic.topic_id == topic_id
            require(is_there, "I2: an acknowledged topic is gone", name=self._name, id=topic_id)
            self._ledger.count("topics read")

        self._read(lambda view: find_by_id(view, topic_id), done)

    def _look_for_one_that_is_gone(self, topic_id: uuid.UUID) -> None:
        def done(topic: Topic | None) -> None:
            require(topic is None, "I2: a deleted topic is there again", name=self._name, id=topic_id)

        self._read(lambda view: find_by_id(view, topic_id), done)
