"""What ApiVersions of a controller says of features, whatever becomes of its image."""

import pytest

from fencepost.controller.features import FEATURES, METADATA_VERSION, FeatureLevel
from fencepost.controller.view import EmptyView, Overlay
from fencepost.node.feature_server import features_of
from fencepost.snapshots.row_ranges import RowsChanged


def changed(*_: object) -> None:
    raise RowsChanged("the store's table features was changed")


def test_features_are_those_said_last_where_rows_changed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Or no client and no broker could connect until the image is another."""
    image = Overlay(EmptyView())
    said = features_of(lambda: image)
    image.put(FEATURES, METADATA_VERSION, FeatureLevel(25))
    before = said()
    assert [(each.name, each.level) for each in before.finalized] == [(METADATA_VERSION, 25)]
    monkeypatch.setattr(Overlay, "items", changed)
    assert said() == before


def test_a_node_that_never_said_its_features_says_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Overlay, "items", changed)
    with pytest.raises(RowsChanged):
        features_of(lambda: Overlay(EmptyView()))()
