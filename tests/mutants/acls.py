"""What is broken on purpose where ACLs decide: each check of a key left out, and each rule turned round."""

from typing import Final

from tests.mutants.mutant import Mutant
from tests.mutants.rights import RIGHTS_MUTANTS
from tests.mutants.trail import TRAIL_MUTANTS

BOOK: Final = "tests/controller/test_acl_book.py::"
NEEDS: Final = "tests/broker/access/test_needs.py::"
PARTS: Final = "tests/broker/access/test_parts.py::"
PARKED: Final = "tests/broker/access/test_parked.py::"
SERVER: Final = "tests/coordinator/test_acl_server.py::"
GROUP_PARTS: Final = "tests/broker/access/test_group_parts.py::"
EXPLAINED: Final = "tests/broker/access/test_explanations.py::"
FOLLOWER: Final = "tests/broker/test_acl_follower.py::"
PAGES: Final = "tests/broker/test_topic_pages.py::"
GUARDED: Final = "    return partial(guard, door, endpoint)\n"
KEYS: Final = (
    0, 1, 2, 3, 8, 9, 10, 11, 12, 13, 14, 15, 16, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30, 31, 32, 33,
    35, 37, 42, 43, 44, 46, 47, 48, 50, 51, 55, 57, 61, 62, 63, 64, 65, 66, 67, 74, 75,
    20021, 20024, 20027, 20029, 20043, 20051, 20055, 20057, 20065, 20066,
)  # fmt: skip
"""Every key that needs something: tests/broker/access/test_needs.py has the same list from the table."""

UNCHECKED: Final = tuple(
    Mutant(
        f"unchecked-{key}",
        f"API key {key} is served to those that its row of broker/access/needs.py allows alone",
        "broker/access/needs.py",
        GUARDED,
        f"    return endpoint if api.key == {key} else partial(guard, door, endpoint)\n",
        (NEEDS + "test_without_an_acl_it_is_refused_and_the_endpoint_is_not_called",),
    )
    for key in KEYS
)

ACL_MUTANTS: Final = (
    *UNCHECKED,
    *TRAIL_MUTANTS,
    *RIGHTS_MUTANTS,
    Mutant(
        "acl-explained-topics",
        "an explanation names no topic that may not be described",
        "broker/access/explanations.py",
        "lambda found: found[0] if sees_topic(found[1]) else HIDDEN, text)",
        "lambda found: found[0], text)",
        (EXPLAINED + "test_names_that_may_not_be_described_are_left_out",),
    ),
    Mutant(
        "acl-explained-groups",
        "an explanation names no group that may not be described",
        "broker/access/explanations.py",
        "        if sees_group(each.group_id)\n",
        "        if True\n",
        (EXPLAINED + "test_names_that_may_not_be_described_are_left_out",),
    ),
    Mutant(
        "acl-explained-reasons",
        "why a row was set aside is shown to those that may describe the cluster",
        "broker/access/explanations.py",
        "            text = text.replace(each.reason, HIDDEN)\n",
        "            pass\n",
        (EXPLAINED + "test_with_the_transactional_id_alone_no_name_is_shown",),
    ),
    Mutant(
        "acl-refusal-of-an-answer-lost",
        "a guard that refuses when the answer comes refuses the request",
        "broker/access/guard.py",
        "            except ApiError as refusal:\n                outcome = refusal\n",
        "            except KeyError as refusal:\n                outcome = refusal\n",
        (PARTS + "test_acls_that_are_in_doubt_when_a_request_is_answered_are_an_answer",),
    ),
    Mutant(
        "acl-listed-transactions",
        "a list of transactions has those that may be described",
        "controller/transactions/describe.py",
        "        return self._may_see is None or self._may_see(row.transactional_id)\n",
        "        return True\n",
        (GROUP_PARTS + "test_transactions_are_listed_by_what_may_be_described",),
    ),
    Mutant(
        "acl-deny-after-allow",
        "an ACL that denies wins over one that allows",
        "controller/acl_book.py",
        "        return not bits & _DENIES[operation] and bool(bits & _ALLOWS[operation])\n",
        "        return bool(bits & _ALLOWS[operation])\n",
        (BOOK + "test_authorize", NEEDS + "test_a_denial_wins"),
    ),
    Mutant(
        "acl-check-of-every-prefix",
        "a check costs the length of a name, however many ACLs there are",
        "controller/acl_book.py",
        "            for length in lengths:\n",
        "            for length in map(len, prefixed):\n",
        (BOOK + "test_a_check_takes_no_longer_among_100_000_acls",),
    ),
    Mutant(
        "acl-prefix-as-literal",
        "a prefixed ACL applies to what begins with its name",
        "controller/acl_book.py",
        "        if acl.pattern_type == PatternType.PREFIXED:\n            names = self._prefixed",
        "        if False:\n            names = self._prefixed",
        (BOOK + "test_authorize", NEEDS + "test_prefixes_names_hosts_and_principals"),
    ),
    Mutant(
        "acl-default-open",
        "a resource without ACLs is closed, unless the setting opens it",
        "controller/acl_book.py",
        "        return allow_if_no_acl\n",
        "        return True\n",
        (BOOK + "test_authorize", BOOK + "test_without_an_acl_for_the_resource_the_setting_counts"),
    ),
    Mutant(
        "acl-door-default-open",
        "a door answers for a resource without ACLs by the setting",
        "broker/access/door.py",
        "            found = rules.allow_if_no_acl if verdict is None else verdict\n",
        "            found = True if verdict is None else verdict\n",
        (NEEDS + "test_without_an_acl_it_is_refused_and_the_endpoint_is_not_called",),
    ),
    *(
        Mutant(
            f"acl-remembered-when-one-is-{name}",
            "what is remembered of a resource is forgotten when an ACL changes",
            "controller/acl_book.py",
            f"{head}        self._remembered.clear()\n",
            head,
            (BOOK + "test_what_is_remembered_about_a_resource_is_forgotten_when_acls_change",),
        )
        for name, head in (
            ("added", "    def _add(self, acl_id: UUID, acl: Acl) -> None:\n"),
            ("removed", "    def _remove(self, acl_id: UUID) -> None:\n"),
        )
    ),
    *(
        Mutant(
            f"acl-remembered-for-every-{what}",
            "what is remembered is of one principal, host, operation and resource",
            "controller/acl_book.py",
            "            return self._remembered[question]\n",
            f"            return {{q[:{at}] + q[{at + 1}:]: v for q, v in self._remembered.items()}}"
            f"[question[:{at}] + question[{at + 1}:]]\n",
            (BOOK + "test_what_is_remembered_is_of_one_question",),
        )
        for at, what in enumerate(("principal", "host", "operation", "type", "name"))
    ),
    Mutant(
        "acl-remembered-without-end",
        "a bounded number of verdicts is remembered",
        "controller/acl_book.py",
        "            if len(self._remembered) >= VERDICTS_MAX:\n",
        "            if False:\n",
        (BOOK + "test_a_bounded_number_of_short_names_is_remembered",),
    ),
    Mutant(
        "acl-long-names-remembered",
        "names that no topic has are not remembered",
        "controller/acl_book.py",
        "        if len(name) <= NAME_REMEMBERED_MAX:\n",
        "        if True:\n",
        (BOOK + "test_a_bounded_number_of_short_names_is_remembered",),
    ),
    Mutant(
        "acl-describe-denied-by-read",
        "what denies READ denies no DESCRIBE: only what allows implies",
        "controller/acl_book.py",
        "_DENIES: Final = {each: 1 << each | 1 << Operation.ALL for each in Operation}\n",
        "_DENIES: Final = {each: 1 << each | 1 << Operation.ALL | 1 << 3 for each in Operation}\n",
        (BOOK + "test_authorize",),
    ),
    Mutant(
        "acl-cluster-action-for-clients",
        "CLUSTER_ACTION opens what brokers forward on the controller listener alone",
        "broker/access/needs.py",
        "if row.forwarded and kind == CONTROLLER else",
        "if row.forwarded else",
        (PARTS + "test_on_the_controller_listener_brokers_forward_for_clients_that_they_checked",),
    ),
    Mutant(
        "acl-unknown-key-served",
        "a key without a row is not served",
        "broker/access/needs.py",
        "    if row is None:\n        raise",
        "    if row is None:\n        return endpoint\n    if row is None:\n        raise",
        (NEEDS + "test_a_key_without_a_row_is_not_served",),
    ),
    Mutant(
        "acl-parked-fetch-unchecked",
        "a Fetch that waited while ACLs changed is checked again",
        "broker/access/data.py",
        "        if was_unnamed or door.changes != changes:\n",
        "        if False:\n",
        (
            PARTS + "test_a_parked_fetch_is_checked_again_when_acls_change",
            PARTS + "test_a_topic_that_is_found_by_its_id_meanwhile_is_checked_before_it_is_shown",
        ),
    ),
    Mutant(
        "acl-answered-unconfirmed",
        "a change is answered when every unfenced broker decides by it",
        "coordinator/acl_server.py",
        "            if not late:\n",
        "            if True:\n",
        (SERVER + "test_a_change_is_answered_when_every_unfenced_broker_decides_by_it",),
    ),
    Mutant(
        "acl-earlier-registration-confirms",
        "what a broker confirmed in an earlier registration does not count",
        "coordinator/acl_server.py",
        "change if epoch == broker.epoch else -1\n",
        "change\n",
        (SERVER + "test_a_confirmation_of_an_earlier_registration_does_not_count",),
    ),
    Mutant(
        "acl-refused-while-they-load",
        "a request that comes before the ACLs waits for them",
        "broker/access/needs.py",
        "    guard = once_known(guard)\n",
        "",
        (PARKED + "test_a_request_that_comes_before_the_acls_is_decided_when_they_are_here",),
    ),
    Mutant(
        "acl-parked-and-failed-without-an-end",
        "a client whose parked request fails finds out",
        "broker/access/guard.py",
        '                reply.close(f"a request that waited for the ACLs failed: {error!r}")\n',
        "",
        (PARKED + "test_a_parked_request_that_fails_leaves_no_client_without_an_end",),
    ),
    Mutant(
        "acl-parked-for-ever",
        "a request waits for the ACLs for a bounded time",
        "broker/acl_follower.py",
        "        while self._parked and (is_known or self._parked[0][0] <= now_s):\n",
        "        while self._parked and is_known:\n",
        (FOLLOWER + "test_what_is_parked_waits_for_a_bounded_time",),
    ),
    Mutant(
        "acl-parked-beyond-doubt",
        "what was parked while the ACLs were in doubt goes on when the controller is cut off",
        "broker/acl_follower.py",
        "                self._settle(sent_s)\n                self._release()\n                await",
        "                self._settle(sent_s)\n                await",
        (FOLLOWER + "test_what_was_parked_in_doubt_goes_on_when_it_ends",),
    ),
    Mutant(
        "acl-standstill-unnoticed",
        "a broker that stood still decides by no ACLs of before",
        "broker/acl_follower.py",
        "        if now_s - self._turned_s > self._standstill_s:\n",
        "        if False:\n",
        (
            FOLLOWER + "test_an_answer_from_before_a_standstill_does_not_end_the_doubt",
            FOLLOWER + "test_a_request_right_after_a_standstill_is_in_doubt",
        ),
    ),
    Mutant(
        "acl-registered-anew-without-doubt",
        "a broker that registered anew decides by no ACLs of before",
        "broker/acl_follower.py",
        "                self._epoch, self._doubted_s = epoch, sent_s\n",
        "                self._epoch = epoch\n",
        (FOLLOWER + "test_one_that_registered_anew_is_in_doubt_until_it_is_answered",),
    ),
    Mutant(
        "acl-old-answer-ends-doubt",
        "an answer to a request from before the standstill does not count",
        "broker/acl_follower.py",
        "        if self._doubted_s is not None and sent_s >= self._doubted_s:\n",
        "        if self._doubted_s is not None:\n",
        (FOLLOWER + "test_an_answer_from_before_a_standstill_does_not_end_the_doubt",),
    ),
    Mutant(
        "acl-broker-ready-too-soon",
        "a broker serves by ACLs that are as new as its registration",
        "broker/acl_follower.py",
        "        return self._is_loaded and self._book.changes >= self._ready_at\n",
        "        return self._is_loaded\n",
        (FOLLOWER + "test_what_changed_between_pages_is_taken_over_before_it_is_ready",),
    ),
    Mutant(
        "page-cut-before-it-is-filtered",
        "topics that may not be seen take no room of a page, and are no cursor of it",
        "broker/access/topics.py",
        "endpoint(DescribeTopicPartitions(allowed, partitions_max=None), context, mapped(reply, shown))\n",
        "endpoint(dataclasses.replace(request, topics=allowed), context, mapped(reply, shown))\n",
        (PAGES + "test_what_may_not_be_seen_takes_no_room_and_is_no_cursor",),
    ),
    Mutant(
        "page-names-what-may-not-be-seen",
        "a list of all topics has those alone that may be described",
        "broker/access/topics.py",
        'page((each for each in answer.topics if may_see(each.name or "")), request)',
        "page(answer.topics, request)",
        (PAGES + "test_what_may_not_be_seen_takes_no_room_and_is_no_cursor",),
    ),
    Mutant(
        "page-as-long-as-wanted",
        "a page has a bound, whatever a client requests",
        "broker/topic_pages.py",
        "max(min(limit, PARTITIONS_MAX), 1)",
        "max(limit, 1)",
        (PAGES + "test_a_page_has_a_bound_whatever_is_requested",),
    ),
)
