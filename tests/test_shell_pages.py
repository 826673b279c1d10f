"""Pages against what is printed: what differs from run to run is left out."""

import pytest

from tests.harness.shell_pages import is_what


@pytest.mark.parametrize("cluster", ["HmsWuUJkTAqKNJ_ZgbTizA", "-3sWuUJkTAqKNJ_ZgbTiz-"])
def test_an_id_with_or_without_a_digit_is_no_difference(cluster: str) -> None:
    assert is_what("Cluster RA5h6Kp8Q12-bKig8u-KSA: 3 nodes.\n", f"Cluster {cluster}: 3 nodes.\n")


def test_another_word_is_a_difference() -> None:
    assert not is_what("Cluster RA5h6Kp8Q12-bKig8u-KSA: ready.\n", "Cluster HmsWuUJkTAqKNJ_ZgbTizA: dead.\n")
