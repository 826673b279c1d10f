"""One node of ours in this process, which each principal sends the requests to: see insider_node.py.

Endpoints   answer a request that they had before as they did then: the guard before them is what is looked
            at. What deletes is answered as if it were done.
"""

import asyncio
import tempfile
from functools import partial
from pathlib import Path
from typing import Any, Final

from fencepost.broker.access.needs import ROWS
from fencepost.controller.acl_types import CreateAcls
from fencepost.controller.errors import ApiError, ErrorCode
from fencepost.controller.groups.offset_messages import DeleteGroups, DeleteGroupsAnswer
from fencepost.controller.topics import DeleteTopics, DeleteTopicsAnswer, TopicDeleted
from fencepost.wire.dispatch import Context, Endpoint, ListenerKind, Reply, Service, Then
from fencepost.wire.registry import APIS
from tests.hostile.insider_node import ROOT, Answer, InsiderNode, insider_node
from tests.hostile.insider_world import World
from tests.rights.answers import Answered, Answers, Seen, as_read, seen_in
from tests.rights.page import NAMES, SUPER, states
from tests.rights.requests import of_set

ACLS_AT_ONCE: Final = 100
SILENCE_S: Final = 5.0
SUPER_USERS: Final = f"{ROOT};User:{SUPER}"
PEER: Final = "127.0.0.1:1"
LISTENERS: Final[dict[ListenerKind, str]] = {"broker": "PLAINTEXT", "controller": "CONTROLLER"}


def delete_topics(request: DeleteTopics, _context: Context, reply: Reply[Any]) -> None:
    """As if."""
    named = tuple(map(TopicDeleted, request.names))
    reply(DeleteTopicsAnswer((*named, *(TopicDeleted(NAMES.topic, each) for each in request.ids))))


def delete_groups(request: DeleteGroups, _context: Context, reply: Reply[Any]) -> None:
    """As if."""
    reply(DeleteGroupsAnswer(tuple((each, ErrorCode.NONE) for each in request.group_ids)))


AS_IF: Final[dict[int, Endpoint[Any, Any]]] = {20: delete_topics, 42: delete_groups}


def remembering(service: Service) -> Service:
    """With the same guards, before endpoints that answer a request once."""
    return {
        key: (api, _behind(guarded, AS_IF.get(key))) for key, (api, guarded) in service.items() if key in ROWS
    }


def _behind(guarded: Any, instead: Endpoint[Any, Any] | None) -> Endpoint[Any, Any]:
    door, endpoint = guarded.args
    known: dict[str, Any] = {}

    def once(request: Any, context: Context, reply: Reply[Any]) -> None:
        question = repr(request)
        if " at 0x" in question:  # it has a function of its principal's
            endpoint(request, context, reply)
            return
        if question in known:
            reply(known[question])
            return

        def kept(outcome: Any, throttle_ms: int) -> None:
            known[question] = outcome
            reply(outcome, throttle_ms)

        endpoint(request, context, Then(kept, reply))

    return partial(guarded.func, door, instead or once)


async def answers(theirs: Answers) -> Answers:
    """Ours to all requests that ``theirs`` has, in the same versions."""
    with tempfile.TemporaryDirectory(prefix="fencepost-rights-") as folder:
        async with insider_node(Path(folder), super_users=SUPER_USERS) as node:
            world = World(node)
            everyone = tuple(states())
            acls = [acl for state in everyone for acl in state.acls]
            for at in range(0, len(acls), ACLS_AT_ONCE):
                await node.root(30, CreateAcls(tuple(acls[at : at + ACLS_AT_ONCE])))
            await world.renew(0)
            node.services = {kind: remembering(service) for kind, service in node.services.items()}
            found: Answers = {}
            for request in of_set(world):
                if request.name not in theirs or request.key not in node.services[request.kind]:
                    continue
                version = theirs[request.name].version
                found[request.name] = Answered(version, {})
                for state in everyone:
                    context = Context(f"User:{state.user}", LISTENERS[request.kind], "asks", PEER)
                    found[request.name].by_state[state.name] = await _see(
                        node, request.kind, request.key, version, request.value, context
                    )
            return found


async def _see(
    node: InsiderNode, kind: ListenerKind, key: int, version: int, value: Any, context: Context
) -> Seen:
    api = APIS[key]
    try:
        request = api.decode_request(version, memoryview(api.encode_request(version, value)))
    except ApiError as error:
        return seen_in(error)
    answer: Answer = node.send(kind, key, request, context)
    try:
        async with asyncio.timeout(SILENCE_S):
            outcome = await answer.came
    except TimeoutError:
        return Seen(names=("RequestTimeout",))
    return seen_in(as_read(api, version, request, outcome))
