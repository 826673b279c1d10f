"""FindCoordinator of many keys, written by hand: kio reads the same."""

from fencepost.controller.errors import ErrorCode
from fencepost.wire.k10_find_coordinator import FIND_COORDINATOR, Coordinator, FindCoordinatorAnswer
from tests.together import table
from tests.wire.every_api import kios_response

FOUND = FindCoordinatorAnswer(
    (
        Coordinator("a", 1, "host", 9092),
        Coordinator("b", error_code=ErrorCode.INVALID_REQUEST, error_message="why"),
        Coordinator("c", 1, "host", 9092),
        Coordinator("d", 2, "host", 9092),
    )
)


@table("version", [4, 5, 6], ids="v{}".format)
def test_it_comes_back_and_kio_reads_it(version: int) -> None:
    response = FIND_COORDINATOR.encode_response(version, FOUND, 7)
    assert FIND_COORDINATOR.decode_response(version, response) == FOUND
    theirs, end = kios_response(10, version, response)
    assert [(each.key, int(each.node_id)) for each in theirs.coordinators] == [
        ("a", 1), ("b", -1), ("c", 1), ("d", 2)
    ]  # fmt: skip
    assert end == len(response)
