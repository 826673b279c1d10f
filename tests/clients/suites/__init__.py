"""Client libraries' own tests, unchanged, on a cluster of ours.

Each suite fetches one library's tests by that language's package tool into .clients (ignored by git), once,
and yields what ended how, one test after the other. A test that is not run is there too, with the reason.
"""

from collections.abc import Mapping
from typing import Final

from tests.clients.suites import aiokafka, franz_go, kafka_python, librdkafka
from tests.clients.suites.suite import Suite

SUITES: Final[Mapping[str, Suite]] = {
    "franz-go": franz_go.SUITE,
    "librdkafka": librdkafka.SUITE,
    "kafka-python": kafka_python.SUITE,
    "aiokafka": aiokafka.SUITE,
}
