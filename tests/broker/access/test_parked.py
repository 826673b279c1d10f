"""Requests that come before the broker's ACLs: decided when they are here, and never left without an end."""

import pytest

from fencepost.controller.errors import CoordinatorLoadInProgress
from fencepost.controller.topics import CreateTopics, NewTopic
from fencepost.wire.k03_metadata import Metadata, MetadataAnswer, TopicMetadata
from tests.broker.access.doors import ROOT, Asked, allow
from tests.broker.access.test_parts import OP, T, ask, created, fetch, fetched, partition


@pytest.mark.parametrize("is_known", [True, False])
@pytest.mark.parametrize("key", [1, 3, 19])  # decided at once where it is sure; shown in the answer; audited
def test_a_request_that_comes_before_the_acls_is_decided_when_they_are_here(key: int, is_known: bool) -> None:
    """Or refused with what clients retry, where they do not come."""
    request, response = {
        1: (fetch(partition("orders")), fetched),
        3: (Metadata(None), MetadataAnswer(cluster_id="c", topics=(TopicMetadata(name="orders"),))),
        19: (CreateTopics((NewTopic("orders"),)), created),
    }[key]
    acls = [allow(each, T, "orders") for each in (OP.READ, OP.DESCRIBE, OP.CREATE)]
    asked = ask(acls, key, request, response, is_known=False)
    assert (asked.given, asked.outcome, len(asked.parked)) == ([], None, 1)
    asked.is_known = is_known
    asked.parked.pop()()
    assert isinstance(asked.outcome, CoordinatorLoadInProgress) == (not is_known)
    assert is_known == (asked.given != []) or key == 3  # all topics: what is shown is decided with the answer
    root = ask(acls, key, request, response, is_known=False, principal=ROOT)
    assert len(root.given) == 1
    assert root.parked == []


def test_a_parked_request_that_fails_leaves_no_client_without_an_end(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(_request: Metadata) -> MetadataAnswer:
        raise KeyError("a bug")

    closed: list[str] = []
    monkeypatch.setattr(Asked, "close", lambda _self, reason: closed.append(reason))
    asked = ask([allow(OP.DESCRIBE, T, "orders")], 3, Metadata(None), fails, is_known=False)
    asked.is_known = True
    with pytest.raises(KeyError):  # the loop's handler has it
        asked.parked.pop()()
    assert (len(closed), asked.outcome) == (1, None)
