"""Numbers of a broker's logs: the log cleaner's, and what is offline, named after Kafka's.

Source   Kafka LogCleaner, LogCleanerManager, LogManager (OfflineLogDirectoryCount).
"""

from prometheus_client import CollectorRegistry, Counter, Gauge

from fencepost.broker.log_cleaning import CleaningCounts


class CleanerMetrics:
    """All are 0 on a node without compacted logs."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._passes = Counter(
            "fencepost_log_cleaner_passes_total", "Passes over compacted logs", registry=registry
        )
        self._read = Counter(
            "fencepost_log_cleaner_read_bytes_total", "Bytes of segments that passes read", registry=registry
        )
        self._written = Counter(
            "fencepost_log_cleaner_written_bytes_total", "Bytes that passes kept of them", registry=registry
        )
        self._gauges = {
            name: Gauge(metric, text, registry=registry)
            for name, (metric, text) in {
                "recopied_percent": (
                    "fencepost_log_cleaner_recopy_percent",
                    "Of the bytes that the last pass read, those it kept",
                ),
                "pass_s": ("fencepost_log_cleaner_clean_time_seconds", "Duration of the last pass"),
                "dirty_percent_max": (
                    "fencepost_log_cleaner_max_dirty_percent",
                    "Dirty bytes of the dirtiest compacted log",
                ),
                "overdue_s_max": (
                    "fencepost_log_cleaner_max_compaction_delay_seconds",
                    "Past max.compaction.lag.ms, at most",
                ),
                "uncleanable": (
                    "fencepost_log_cleaner_uncleanable_partitions",
                    "Logs that are left alone until the next start",
                ),
            }.items()
        }
        self._before = CleaningCounts()

    def take(self, counts: CleaningCounts) -> None:
        """See NodeMetrics.log_cleaner."""
        before, self._before = self._before, counts
        self._passes.inc(counts.passes - before.passes)
        self._read.inc(counts.bytes_read - before.bytes_read)
        self._written.inc(counts.bytes_written - before.bytes_written)
        for name, gauge in self._gauges.items():
            gauge.set(getattr(counts, name))


class OfflineMetrics:
    """What a broker cannot use, until its next start."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._directories = Gauge(
            "fencepost_log_offline_directories", "Log directories that cannot be used", registry=registry
        )
        self._partitions = Gauge(
            "fencepost_log_offline_partitions", "Partitions whose log cannot be used", registry=registry
        )

    def show(self, directories: int, partitions: int) -> None:
        """See NodeMetrics.offline."""
        self._directories.set(directories)
        self._partitions.set(partitions)
