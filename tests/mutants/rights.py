"""What is broken on purpose where tests/rights hold ours against Apache Kafka's answers."""

from typing import Final

from tests.mutants.mutant import Mutant

NEEDS: Final = "broker/access/needs.py"
TOPICS: Final = "broker/access/topics.py"
SAME: Final = ("tests/rights/test_rights.py::test_ours_are_the_same",)

RIGHTS_MUTANTS: Final = (
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
)
