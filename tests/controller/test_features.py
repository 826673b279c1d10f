"""Features: what a new cluster's first leader writes, once, and what replay makes of levels."""

import pytest

from fencepost.controller import features
from fencepost.controller.errors import UnsupportedVersion
from fencepost.controller.features import FEATURES, METADATA_VERSION, METADATA_VERSION_LEVEL
from tests.controller.worlds import image, level
from tests.together import table


def test_a_new_cluster_gets_its_metadata_version_once() -> None:
    view = image()
    (record,) = features.bootstrap_records(view)
    assert (record.name, record.feature_level) == (METADATA_VERSION, METADATA_VERSION_LEVEL)
    assert features.bootstrap_records(image(record)) == ()


def test_level_zero_removes_a_feature() -> None:
    view = image(level("a", 3), level("b", 4), level("a", 0), level("never-there", 0))
    assert [(name, row.level) for name, row in view.items(FEATURES)] == [("b", 4)]


SUPPORTED = [
    pytest.param({}, True, id="names-none"),
    pytest.param({"a": (3, 3)}, True, id="exactly"),
    pytest.param({"a": (0, 3)}, True, id="at-its-top"),
    pytest.param({"a": (3, 9)}, True, id="at-its-bottom"),
    pytest.param({"a": (0, 2)}, False, id="below"),
    pytest.param({"a": (4, 9)}, False, id="above"),
    pytest.param({"other": (0, 0)}, True, id="names-another"),
]


@table(("supported", "holds"), SUPPORTED)
def test_require_supported(supported: dict[str, tuple[int, int]], holds: bool) -> None:
    view = image(level("a", 3))
    if holds:
        features.require_supported(view, supported)
    else:
        with pytest.raises(UnsupportedVersion, match="feature a is at level 3"):
            features.require_supported(view, supported)
