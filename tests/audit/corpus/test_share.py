"""Of a healthy cluster that was stopped the audit decides all but a hundredth."""

import pytest

from tests.audit.conftest import Recorded
from tests.audit.corpus import recording
from tests.audit.corpus.share import SHARE_MAX, share_of

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("name", [each for each in recording.names() if each.endswith("-stopped")])
def test_of_what_the_coordinators_still_tell_a_hundredth_is_unknown_at_most(
    name: str, recorded: Recorded
) -> None:
    share = share_of(recorded(name))
    assert share.judged > 100
    assert share.unknown_share <= SHARE_MAX, share
