"""What is broken on purpose where tests/rights hold ours against Apache Kafka's answers."""

from typing import Final

from tests.mutants.mutant import Mutant

NEEDS: Final = "broker/access/needs.py"
TOPICS: Final = "broker/access/topics.py"
SAME: Final = ("tests/rights/test_rights.py::test_ours_are_the_same",)
UNGUARDED: Final = "tests/broker/access/test_unguarded.py::"
TRAIL: Final = "tests/broker/access/test_trail.py::test_what_changes_the_cluster_is_written_before_it_is_done"
SHOWN: Final = "test_a_broker_shows_what_was_requested"

PRIVATE: Final = ("tests/rights/test_private_keys.py::test_each_principal_may_what_the_page_says",)
CLUSTER_REQUEST: Final = (
    "tests/broker/test_broker.py::test_describe_cluster_shows_fenced_brokers_only_to_those_who_ask"
)

RIGHTS_MUTANTS: Final = (
    Mutant(
        "rights-super-users-without-operations",
        "a super user that requests which operations are authorized gets all",
        NEEDS,
        "    if api.key not in ADMINISTRATIVE and api.key not in SHOWN:\n",
        "    if api.key not in ADMINISTRATIVE:\n",
        SAME,
    ),
    Mutant(
        "rights-super-users-without-trail",
        "what a super user changes is in the audit trail",
        NEEDS,
        "    if api.key not in ADMINISTRATIVE and api.key not in SHOWN:\n",
        "    if api.key not in SHOWN:\n",
        (TRAIL,),
    ),
    Mutant(
        "rights-upgrade-by-describe",
        "the upgrade's commands need ALTER, its status DESCRIBE",
        "broker/access/cluster.py",
        'Operation.DESCRIBE if request.command == "status" else Operation.ALTER',
        "Operation.DESCRIBE",
        PRIVATE,
    ),
    Mutant(
        "rights-log-level-by-describe",
        "a log level is raised by ALTER",
        "broker/access/cluster.py",
        "Operation.DESCRIBE if request.log_level is None else Operation.ALTER",
        "Operation.DESCRIBE",
        PRIVATE,
    ),
    Mutant(
        "rights-leader-named-by-alter",
        "a controller that is behind in ACLs names the leader to a broker",
        NEEDS,
        "    60: Row(cluster.describe_cluster, ()),\n",
        "    60: _cluster(_OP.ALTER),\n",
        ("tests/broker/access/test_parts.py::test_a_controller_that_has_no_acls_yet_says_who_leads",),
    ),
    Mutant(
        "rights-operations-of-an-open-broker",
        "without an authorizer all operations are authorized",
        "broker/main.py",
        "return open_to_all(service) if self._data.acls.allowed is None else service",
        "return service",
        (f"{UNGUARDED}{SHOWN}[open]",),
    ),
    Mutant(
        "rights-operations-under-a-file",
        "what an ACL file says is not shown as authorized operations",
        "broker/main.py",
        "return open_to_all(service) if self._data.acls.allowed is None else service",
        "return open_to_all(service)",
        (f"{UNGUARDED}{SHOWN}[a-file-says-who-may]",),
    ),
    Mutant(
        "rights-operations-of-an-open-controller",
        "without an authorizer controllers say that all operations are authorized, too",
        "node/coordinators.py",
        "        return open_to_all(every) if self._has_no_acls else every\n",
        "        return every\n",
        ("tests/node/test_served_keys.py::test_each_listener_serves_the_keys_that_are_registered_for_it",),
    ),
    Mutant(
        "rights-operations-of-an-error",
        "a group that is answered with an error has no authorized operations",
        "wire/k15_describe_groups.py",
        "group.authorized_operations if code == ErrorCode.NONE else NO_OPERATIONS",
        "group.authorized_operations",
        (UNGUARDED + "test_a_group_that_is_an_error_has_none",),
    ),
    Mutant(
        "rights-operations-of-no-topic",
        "a topic that is requested by an unknown id has no authorized operations",
        "broker/access/unguarded.py",
        "        each if each.name is None else msgspec",
        "        each if False else msgspec",
        (UNGUARDED + "test_a_topic_that_is_requested_by_an_unknown_id_has_none",),
    ),
    Mutant(
        "rights-members-by-describe",
        "a group's members need READ on it, as at Kafka",
        NEEDS,
        "_MEMBER: Final = Row(groups.needs(_OP.READ)",
        "_MEMBER: Final = Row(groups.needs(_OP.DESCRIBE)",
        SAME,
    ),
    Mutant(
        "rights-registration-by-alter",
        "a broker registers by CLUSTER_ACTION, as at Kafka's controllers",
        NEEDS,
        "    62: _cluster(_OP.CLUSTER_ACTION),\n",
        "    62: _cluster(_OP.ALTER),\n",
        SAME,
    ),
    Mutant(
        "rights-quotas-by-describe",
        "quotas are described by DESCRIBE_CONFIGS, as at Kafka",
        NEEDS,
        "    48: _cluster(_OP.DESCRIBE_CONFIGS),\n",
        "    48: _cluster(_OP.DESCRIBE),\n",
        SAME,
    ),
    Mutant(
        "rights-name-that-no-topic-can-have",
        "what may not be created is refused as at Kafka, whatever its name",
        TOPICS,
        "_NOT_THERE: Final = (UNKNOWN, ErrorCode.INVALID_TOPIC_EXCEPTION)\n",
        "_NOT_THERE: Final = (UNKNOWN,)\n",
        SAME,
    ),
    Mutant(
        "rights-markers-by-alter-alone",
        "markers are written by CLUSTER_ACTION or ALTER, as at Kafka",
        NEEDS,
        "    27: _cluster(_OP.CLUSTER_ACTION, _OP.ALTER),\n",
        "    27: _cluster(_OP.ALTER),\n",
        SAME,
    ),
    Mutant(
        "cluster-endpoint-mismatched",
        "a broker answers a request about controllers with MISMATCHED_ENDPOINT_TYPE, as Kafka's",
        "broker/server.py",
        "        if request.endpoint_type != BROKERS:\n",
        "        if False:\n",
        (CLUSTER_REQUEST,),
    ),
    Mutant(
        "cluster-endpoint-unknown",
        "a request about what is neither brokers nor controllers is refused by that name",
        "wire/k60_describe_cluster.py",
        "    if request.endpoint_type not in (BROKERS, CONTROLLERS):\n",
        "    if False:\n",
        (CLUSTER_REQUEST,),
    ),
    Mutant(
        "cluster-endpoint-unknown-to-controllers",
        "a controller refuses a request about what is neither brokers nor controllers",
        "node/quorum_server.py",
        "        require_known_type(request)\n",
        "",
        ("tests/node/test_served_keys.py::test_each_listener_serves_the_keys_that_are_registered_for_it",),
    ),
    Mutant(
        "sure-of-what-is-unknown",
        "where no ACL decides, the guard decides",
        "broker/access/door.py",
        "operation, of, name) is True\n",
        "operation, of, name) is not False\n",
        (
            "tests/broker/access/test_needs.py::test_without_an_acl_it_is_refused_and_the_endpoint_is_not_called",
        ),
    ),
    Mutant(
        "sure-without-acls",
        "a broker that has no ACLs is sure of nothing",
        "broker/access/door.py",
        "        if book is None:\n            return False\n        return book.rem",
        "        if book is None:\n            return True\n        return book.rem",
        ("tests/broker/access/test_parts.py::test_without_acls_super_users_alone_are_served",),
    ),
    Mutant(
        "sure-of-the-first-topic",
        "each topic of a Produce is looked up",
        "broker/access/data.py",
        "        if each.topic != last:\n",
        "        if last is None:\n",
        ("tests/broker/access/test_parts.py::test_produce_appends_to_what_is_allowed",),
    ),
    Mutant(
        "sure-of-a-produce-id",
        "the transactional id of a Produce is looked up",
        "broker/access/data.py",
        "door.is_remembered(context, _WRITE, _ID, transactional_id):\n",
        "True:\n",
        ("tests/broker/access/test_parts.py::test_produce_of_a_transaction_needs_its_id",),
    ),
    Mutant(
        "sure-of-added-topics",
        "each topic that is added to a transaction is looked up",
        "broker/access/transactions.py",
        "            if not door.is_remembered(context, _WRITE, _TOPIC, topic.topic):\n",
        "            if False:\n",
        ("tests/broker/access/test_needs.py::test_what_is_enough_is_enough_and_each_part_of_it_is_needed",),
    ),
    Mutant(
        "sure-of-added-ids",
        "each transactional id that partitions are added to is looked up",
        "broker/access/transactions.py",
        "        if not may_write(door, each, context):\n",
        "        if False:\n",
        ("tests/broker/access/test_needs.py::test_what_is_enough_is_enough_and_each_part_of_it_is_needed",),
    ),
    Mutant(
        "sure-of-brokers-questions",
        "a batched AddPartitionsToTxn needs CLUSTER_ACTION",
        "broker/access/transactions.py",
        "    if request.batched:\n        return False\n",
        "",
        ("tests/broker/access/test_group_parts.py::test_partitions_are_added_all_or_none",),
    ),
)
