"""Mutants of the list of brokers: a client drops those that are not in it."""

from typing import Final

from tests.mutants.mutant import Mutant

TOPIC_REQUESTS: Final = "tests/broker/test_topic_requests.py::"

BROKER_LISTS: Final = (
    Mutant(
        "brokers-listed-too-soon",
        "a broker that starts does not name itself as the only one of its cluster",
        "broker/first_picture.py",
        "            if self._cache.has_picture:\n",
        "            if self._cache is not None:\n",
        (
            TOPIC_REQUESTS + "test_no_list_of_brokers_is_given_before_the_controller_has_given_one[metadata]",
            TOPIC_REQUESTS
            + "test_no_list_of_brokers_is_given_before_the_controller_has_given_one[describe-cluster]",
        ),
    ),
    Mutant(
        "brokers-awaited-for-ever",
        "a client leaves a broker that no controller gives the list of brokers",
        "broker/first_picture.py",
        "            async with asyncio.timeout(FIRST_PICTURE_S_MAX):\n",
        "            async with asyncio.timeout(None):\n",
        (TOPIC_REQUESTS + "test_a_client_is_sent_away_if_no_controller_lists_the_brokers[metadata]",),
    ),
    Mutant(
        "metadata-refused-without-brokers",
        "Metadata names the brokers, however many requests wait for the controller",
        "broker/topic_requests.py",
        "        if len(self._waiting) >= FORWARDED_MAX:\n            reply(",
        "        if False:\n            reply(",
        (
            TOPIC_REQUESTS
            + "test_metadata_names_the_brokers_however_many_requests_wait_for_the_controller[12]",
        ),
    ),
)
