"""The one Spark session of a process, as every command of the audit needs it.

Never       is anything overridden that spark-submit or PYSPARK_SUBMIT_ARGS have set; what
            spark-defaults.conf has set gives way to an explicit ``master`` or ``memory`` only, as it does
            to spark-submit's flags.
Loopback    with a local master the driver listens on 127.0.0.1 only. The UI is off: where it is switched
            on, Spark binds it to SPARK_LOCAL_IP, or else to every address.
Small       the JVM of a local master that nothing else has settings for compiles quickly and collects with
            one thread: an audit is over before C2's code pays for its compilation, and the workers need the
            cores. Its heap is no larger than its tasks need, and gives back what they have left: without
            that it grows to its limit before its first full collection.
Workers     run this interpreter unless PYSPARK_PYTHON names another: Spark's default is the ``python3`` of
            PATH, which has no pyarrow. They find fencepost as this process does: installed, or through the
            PYTHONPATH that both inherit. Their folder is not searched for modules.
"""

import os
import sys
from collections.abc import Mapping
from typing import Final

from pyspark import SparkConf, SparkContext
from pyspark.sql import SparkSession

from fencepost.audit.source import java
from fencepost.audit.source.connect import settings_of
from fencepost.audit.source.remote import use, used
from fencepost.audit.source.uris import hadoop_properties

_SETTINGS: Final = {
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    "spark.sql.execution.arrow.pyspark.fallback.enabled": "false",
    "spark.ui.enabled": "false",
    "spark.executorEnv.PYTHONSAFEPATH": "1",
}
_CONNECT: Final = {"spark.sql.session.timeZone": "UTC"}
_LOCAL: Final = {
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
}

_QUICK: Final = (
    "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -XX:MetaspaceSize=128m"
    " -Xms128m -XX:MaxNewSize=64m -XX:MinHeapFreeRatio=20 -XX:MaxHeapFreeRatio=30 -XX:-ShrinkHeapInSteps"
    " -XX:+IgnoreUnrecognizedVMOptions -XX:TrimNativeHeapInterval=5000"  # Java 17.0.9, 21.0.1 and later
)
_SMALL: Final = {
    "spark.cleaner.periodicGC.interval": "30s",  # a full collection, after which the heap shrinks
    "spark.sql.execution.arrow.maxRecordsPerBatch": "4000",  # a worker and the JVM hold a few of them each
    "spark.python.daemon.module": "fencepost.audit.jobs.workers",
    "spark.unsafe.sorter.spill.read.ahead.enabled": "false",  # 3 MB for each file of a sort, instead of 1
    "spark.python.worker.reuse": "false",  # forked in no time, it would keep what the largest task left
}
HEAP_MB_MIN: Final = 512
HEAP_MB_MAX: Final = 1_024  # Spark's own default
HEAP_MB_PER_CORE: Final = 128  # a task's sort buffers, pages of Parquet and of a shuffle
SORT_MB_PER_CORE: Final = 32  # of these the first: a task sorts what is more on disk
_RESERVED_MB: Final = 300  # of a heap, by Spark itself
_FRACTION_MAX: Final = 0.6  # Spark's own default

_LOG4J: Final = """\
# Written by fencepost audit: warnings to stderr, and silence about what is so on every laptop.
rootLogger.level = warn
rootLogger.appenderRef.stderr.ref = stderr
appender.stderr.type = Console
appender.stderr.name = stderr
appender.stderr.target = SYSTEM_ERR
appender.stderr.layout.type = PatternLayout
appender.stderr.layout.pattern = %d{HH:mm:ss} %p %c{1}: %m%n%ex{5}
logger.native.name = org.apache.hadoop.util.NativeCodeLoader
logger.native.level = error
logger.hostname.name = org.apache.spark.util.Utils
logger.hostname.level = error
logger.plan.name = org.apache.spark.util.SparkStringUtils
logger.plan.level = error
"""


def session(
    app: str,
    *,
    master: str | None = None,
    memory: str | None = None,
    settings: Mapping[str, str] | None = None,
) -> SparkSession:
    """The running session, or a new one named ``app``: until its ``stop()`` or the end of this process.

    master    e.g. "local[2]"; None: what spark-submit or the environment say, else every core here.
    memory    of the driver's JVM, e.g. "2g"; None: the same, else ``heap``. Of no effect once a JVM runs.
    settings  further ``spark.*`` properties, where nothing else has set them.
    Raises    java.NoJava; PySparkRuntimeError if the JVM does not start (its own words are on stderr).

    ``sc://...`` as master, or SPARK_REMOTE, is a session of Spark Connect: no JVM is started here.
    """
    remote_url = master if master and master.startswith("sc://") else os.environ.get("SPARK_REMOTE")
    if remote_url:
        connected = SparkSession.builder.remote(remote_url).appName(app).getOrCreate()
        for key, value in {**_CONNECT, **(settings or {})}.items():
            connected.conf.set(key, value)
        use({**hadoop_properties(settings_of(connected)), **used()})
        return connected
    if SparkContext._active_spark_context is None:
        _launch({"spark.master": master, "spark.driver.memory": memory})
    conf = SparkConf()  # what the JVM was started with
    properties = {f"spark.hadoop.{key}": value for key, value in used().items()}
    for key, value in {**_SETTINGS, **properties, **(settings or {}), "spark.app.name": app}.items():
        conf.setIfMissing(key, value)
    if conf.get("spark.app.name") == "pyspark-shell":
        conf.setAppName(app)  # the name that PySpark itself gives to a JVM it starts
    if conf.get("spark.master", "local").startswith("local"):
        for key, value in (_LOCAL | _small(conf)).items():
            conf.setIfMissing(key, value)
    started = SparkSession.builder.config(conf=conf).getOrCreate()
    use(hadoop_properties(settings_of(started)))
    return started


def _launch(chosen: Mapping[str, str | None]) -> None:
    """Start the JVM, with what it must know from its first line on; spark-submit's own stays as it is."""
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    conf = SparkConf(loadDefaults=False)
    if "PYSPARK_GATEWAY_PORT" not in os.environ and SparkContext._gateway is None:
        os.environ["JAVA_HOME"] = str(java.wrapped_home())
        for key, value in chosen.items():
            if value is not None:
                conf.set(key, value)
        if not {"SPARK_CONF_DIR", "SPARK_HOME"} & os.environ.keys():  # else there may be defaults to respect
            conf.set("spark.ui.showConsoleProgress", "false")  # a Python shell's JVM would show one
            log4j = java.keep("log4j2.properties", _LOG4J, 0o644)
            is_local = (chosen["spark.master"] or "local").startswith("local")
            options = f"-Dlog4j2.configurationFile={log4j.as_uri()}"
            if is_local and "PYSPARK_SUBMIT_ARGS" not in os.environ:
                options = f"{options} {_QUICK}"
                conf.setIfMissing("spark.driver.memory", heap(len(os.sched_getaffinity(0))))
            conf.set("spark.driver.extraJavaOptions", options)
    SparkContext._ensure_initialized(conf=conf)


def _small(conf: SparkConf) -> dict[str, str]:
    """What goes with a small JVM; nothing, if another was started."""
    cores = len(os.sched_getaffinity(0))
    if _QUICK not in (conf.get("spark.driver.extraJavaOptions") or ""):
        return {}
    if conf.get("spark.driver.memory") != heap(cores):
        return _SMALL
    return {**_SMALL, "spark.memory.fraction": sort_fraction(cores)}


def heap(cores: int) -> str:
    """Of a JVM whose tasks run on so many cores, as Spark writes it."""
    return f"{_heap_mb(cores)}m"


def sort_fraction(cores: int) -> str:
    """The part of that heap, without what Spark reserves of it, that its tasks sort in."""
    return f"{min(cores * SORT_MB_PER_CORE / (_heap_mb(cores) - _RESERVED_MB), _FRACTION_MAX):.2f}"


def _heap_mb(cores: int) -> int:
    return min(max(cores * HEAP_MB_PER_CORE, HEAP_MB_MIN), HEAP_MB_MAX)
