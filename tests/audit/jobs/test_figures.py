"""The figures of a report: sums over logs that are known, and the arithmetic of bins."""

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from fencepost.audit.engine.protocol import Engine
    from fencepost.audit.report.figures import Figures


def figures_of(engine: "Engine", tables: str) -> "Figures":
    """Of these tables."""
    from fencepost.audit.jobs.figures import figures
    from fencepost.audit.jobs.source import relations_of

    return figures(relations_of(engine, tables, None, print))


def test_what_a_cluster_of_ours_did(engine: "Engine", fencepost_tables: str) -> None:
    shown = figures_of(engine, fencepost_tables)
    assert shown.ids is not None
    assert shown.allocation is not None
    assert shown.durations is not None
    assert shown.open_over_time is not None
    drawn = sum(sum(each.values) for each in shown.allocation.series)
    assert shown.ids.given_out == shown.ids.end == drawn == 3 * shown.ids.block_count
    counted = {each.label: sum(each.values) for each in shown.durations.histogram.series}
    assert counted == {"committed": shown.durations.committed, "aborted": shown.durations.aborted}
    assert 0 < shown.durations.p50 <= shown.durations.p90 <= shown.durations.p99 <= shown.durations.longest
    assert max(shown.open_over_time.series[0].values) >= 1
    assert [each.transactional_id for each in shown.open_now] == ["left-open"]
    assert sum(count for _, count in shown.fence_causes) == len(shown.fences)
    assert {cause for cause, _ in shown.fence_causes} == {"a new instance", "its timeout"}
    assert list(shown.fences) == sorted(shown.fences, key=lambda each: -each.at_ms)


def test_what_a_kafka_did(engine: "Engine", kafka_tables: str) -> None:
    shown = figures_of(engine, kafka_tables)
    assert shown.ids is not None
    assert shown.ids.end % 1_000 == 0
    assert shown.ids.given_out == shown.ids.end
    assert shown.durations is not None
    assert shown.durations.committed > 0
    assert shown.fences == ()  # Kafka keeps no account of them


@pytest.mark.parametrize(
    ("first_ms", "last_ms", "bins"),
    [
        pytest.param(1_000, 1_000, (1_000, 1, 1), id="one-moment"),
        pytest.param(1_003, 1_062, (1_003, 1, 60), id="as-many-as-there-may-be"),
        pytest.param(1_003, 1_063, (1_002, 2, 31), id="one-more-is-wider-bins"),
        pytest.param(61_000, 3_601_000, (60_000, 60_000, 60), id="round-widths-and-beginnings"),
        pytest.param(0, 2**60, (0, 2**60 // 60 + 1, 60), id="no-calendar-has-it"),
    ],
)
def test_bins_are_few_round_and_hold_both_ends(
    first_ms: int, last_ms: int, bins: tuple[int, int, int]
) -> None:
    from fencepost.audit.jobs.figures import bins_of

    found = bins_of(first_ms, last_ms)
    assert tuple(found) == bins
    assert found.first_ms <= first_ms <= last_ms < found.first_ms + found.width_ms * found.bin_count


def test_peaks_begin_with_what_was_open_before() -> None:
    from fencepost.audit.jobs.figures import peaks
    from fencepost.audit.report.figures import Bins

    changes = {0: (2, 1), 2: (3, -1), 3: (-1, 0)}
    assert peaks(changes, Bins(0, 1, 5)) == (2, 1, 4, 0, 0)


def test_a_histogram_goes_from_the_first_class_to_the_last() -> None:
    from fencepost.audit.jobs.figures import CLASS_ENDS_MS, histogram

    found = histogram({(True, 1): 5, (False, 3): 2})
    assert found.ends == CLASS_ENDS_MS[1:4]
    assert [each.values for each in found.series] == [(5, 0, 0), (0, 0, 2)]


def test_the_longest_durations_have_a_class() -> None:
    from fencepost.audit.jobs.figures import CLASS_ENDS_MS, histogram

    last = len(CLASS_ENDS_MS)
    assert len(histogram({(True, last - 1): 1, (True, last): 1}).ends) == 2
