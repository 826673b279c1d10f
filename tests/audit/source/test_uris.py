"""Hadoop's URIs and properties as Python's libraries want them; and what is said where that cannot be."""

import sys
from typing import Any

import fsspec.core  # noqa: F401 - the registry is in sys.modules then
import pytest

from fencepost.audit.source import remote as remotes
from fencepost.audit.source.remote import remote
from fencepost.audit.source.uris import (
    Location,
    hadoop_properties,
    local_path,
    located,
    name_this_machine,
    named,
    scheme_of,
)
from tests.together import table

KEY = "fs.azure.account.key.acc.dfs.core.windows.net"
CLIENT = {
    "fs.azure.account.oauth2.client.id": "app",
    "fs.azure.account.oauth2.client.secret": "s",
    "fs.azure.account.oauth2.client.endpoint": "https://login.microsoftonline.com/TENANT/oauth2/token",
}

LOCATIONS = [
    pytest.param("s3a://bucket/a/b", {}, Location("s3", "s3fs", {}, "bucket/a/b"), id="s3a"),
    pytest.param("s3a://bucket", {}, Location("s3", "s3fs", {}, "bucket"), id="s3a-a-bucket"),
    pytest.param("s3://bucket/a/", {}, Location("s3", "s3fs", {}, "bucket/a"), id="s3"),
    pytest.param(
        "s3a://b/a",
        {
            "fs.s3a.endpoint": "http://127.0.0.1:9000",
            "fs.s3a.access.key": "k",
            "fs.s3a.secret.key": "s",
            "fs.s3a.session.token": "t",
            "fs.s3a.path.style.access": "true",
            "fs.s3a.endpoint.region": "eu-west-1",
        },
        Location(
            "s3",
            "s3fs",
            {
                "client_kwargs": {"endpoint_url": "http://127.0.0.1:9000", "region_name": "eu-west-1"},
                "key": "k",
                "secret": "s",
                "token": "t",
                "config_kwargs": {"s3": {"addressing_style": "path"}},
            },
            "b/a",
        ),
        id="s3a-all-its-properties",
    ),
    pytest.param(
        "s3a://b/a",
        {"fs.s3a.endpoint": "minio:9000"},
        Location("s3", "s3fs", {"client_kwargs": {"endpoint_url": "https://minio:9000"}}, "b/a"),
        id="s3a-an-endpoint-without-scheme",
    ),
    pytest.param(
        "s3a://b/a",
        {"fs.s3a.endpoint": "minio:9000", "fs.s3a.connection.ssl.enabled": "false"},
        Location("s3", "s3fs", {"client_kwargs": {"endpoint_url": "http://minio:9000"}}, "b/a"),
        id="s3a-without-TLS",
    ),
    pytest.param(
        "s3a://b/a",
        {"fs.s3a.access.key": "k", "fs.s3a.bucket.b.access.key": "mine"},
        Location("s3", "s3fs", {"key": "mine"}, "b/a"),
        id="s3a-a-bucket-of-its-own-settings",
    ),
    pytest.param(
        "s3a://b/a",
        {"fs.s3a.aws.credentials.provider": "org.x.AnonymousAWSCredentialsProvider"},
        Location("s3", "s3fs", {"anon": True}, "b/a"),
        id="s3a-anonymous",
    ),
    pytest.param(
        "hdfs://name:8020/a/b",
        {},
        Location("hdfs", "pyarrow", {"host": "name", "port": 8020}, "/a/b"),
        id="hdfs",
    ),
    pytest.param(
        "hdfs:///a",
        {"fs.defaultFS": "hdfs://cluster"},
        Location("hdfs", "pyarrow", {"host": "cluster", "port": 0}, "/a"),
        id="hdfs-the-default",
    ),
    pytest.param(
        "hdfs:///a",
        {},
        Location("hdfs", "pyarrow", {"host": "default", "port": 0}, "/a"),
        id="hdfs-as-this-machine-says",
    ),
    pytest.param(
        "abfss://box@acc.dfs.core.windows.net/a",
        {KEY: "k"},
        Location("abfs", "adlfs", {"account_name": "acc", "account_key": "k"}, "box/a"),
        id="abfss-key",
    ),
    pytest.param(
        "abfss://box@acc.dfs.core.windows.net/a",
        CLIENT,
        Location(
            "abfs",
            "adlfs",
            {"account_name": "acc", "client_id": "app", "client_secret": "s", "tenant_id": "TENANT"},
            "box/a",
        ),
        id="abfss-an-application",
    ),
    pytest.param(
        "abfss://box@acc.dfs.core.windows.net",
        {},
        Location("abfs", "adlfs", {"account_name": "acc", "anon": False}, "box"),
        id="abfss-the-machine's",
    ),
    pytest.param(
        "gs://bucket/a",
        {"fs.gs.project.id": "p", "fs.gs.auth.service.account.json.keyfile": "/k.json"},
        Location("gcs", "gcsfs", {"token": "/k.json", "project": "p"}, "bucket/a"),
        id="gs",
    ),
    pytest.param(
        "gs://bucket/a",
        {"fs.gs.auth.type": "unauthenticated", "fs.gs.storage.root.url": "http://h:1/"},
        Location("gcs", "gcsfs", {"token": "anon", "endpoint_url": "http://h:1"}, "bucket/a"),
        id="gs-an-emulator",
    ),
]


@table(("uri", "properties", "expected"), LOCATIONS)
def test_location(uri: str, properties: dict[str, str], expected: Location) -> None:
    assert located(uri, properties) == expected


@table(
    ("uri", "reason"),
    [
        pytest.param(
            "dbfs:/x", "dbfs: is no scheme that is known here; known are file:/, s3a://", id="unknown"
        ),
        pytest.param("s3a:///x", "s3a:// wants a name after it", id="no-bucket"),
        pytest.param(
            "abfss://acc.dfs.core.windows.net/x", "expected abfss://CONTAINER@ACCOUNT", id="no-container"
        ),
    ],
)
def test_what_is_no_location(uri: str, reason: str) -> None:
    with pytest.raises(OSError, match=reason):
        located(uri, {})


@table(
    ("path", "expected"),
    [
        pytest.param("/a b/c", "/a b/c", id="a-path"),
        pytest.param("a/c:/d", "a/c:/d", id="a-relative-path-with-a-colon"),
        pytest.param("file:/a%20b", "/a%20b", id="one-slash"),
        pytest.param("file:///a b%41", "/a b%41", id="three-slashes"),
        pytest.param("file://localhost/a", "/a", id="localhost"),
        pytest.param("FILE:/a", "/a", id="in-capitals"),
        pytest.param("s3a://b/a", None, id="elsewhere"),
    ],
)
def test_what_is_here(path: str, expected: str | None) -> None:
    assert local_path(path) == expected


def test_a_machine_has_a_name_for_itself() -> None:
    path = named("/var/lib/kafka", "broker one.example")
    assert path == "file://broker%20one.example/var/lib/kafka"
    with pytest.raises(OSError, match=r"is a file of the machine broker%20one\.example"):
        local_path(path)
    name_this_machine("broker one.example")
    assert local_path(path) == "/var/lib/kafka"
    for each in ("/var/100%/p%20q", "/a b#c?d"):
        assert local_path(f"{named(each, 'broker one.example')}/x%41y-0") == f"{each}/x%41y-0"
    assert named("/x", "") == "/x"
    assert scheme_of(path) == "file"


def test_of_sparks_settings_hadoops_are_taken() -> None:
    settings = {"spark.hadoop.fs.s3a.endpoint": "x", "spark.master": "local", "spark.hadoop.mapreduce.x": "1"}
    assert hadoop_properties(settings) == {"fs.s3a.endpoint": "x"}


@table(
    ("uri", "missing", "reason"),
    [
        pytest.param("s3a://b/x", "s3fs", "^s3a://b needs s3fs: pip install s3fs$", id="s3a"),
        pytest.param(
            "abfss://b@a.dfs.core.windows.net/x", "adlfs", "needs adlfs: pip install adlfs$", id="abfss"
        ),
        pytest.param("gs://b/x", "gcsfs", "^gs://b needs gcsfs: pip install gcsfs$", id="gs"),
        pytest.param(
            "hdfs://h:1/x", "fsspec", "^hdfs://h:1 needs pyarrow: pip install pyarrow fsspec$", id="hdfs"
        ),
    ],
)
def test_a_library_that_is_missing_is_named(
    monkeypatch: pytest.MonkeyPatch, uri: str, missing: str, reason: str
) -> None:
    remotes._file_system.cache_clear()
    monkeypatch.setitem(sys.modules, missing, None)
    known = sys.modules["fsspec.registry"]._registry  # classes that were imported before
    monkeypatch.delitem(known, located(uri, {}).protocol, raising=False)
    with pytest.raises(OSError, match=reason):
        remote(uri)


class _Broken:
    """A file system whose library fails in its own way."""

    def __init__(self, error: Exception) -> None:
        self._error = error

    def cat_file(self, *_: Any, **__: Any) -> bytes:
        raise self._error


class NoCredentialsError(Exception):
    """As botocore calls it."""


@table(
    ("error", "kind", "reason"),
    [
        pytest.param(
            NoCredentialsError("Unable to locate"),
            PermissionError,
            r"s3a://b: no credentials .*AWS_ACCESS",
            id="no-credentials",
        ),
        pytest.param(
            FileNotFoundError("The specified bucket does not exist"),
            FileNotFoundError,
            "s3a://b: The specified bucket does not exist",
            id="no-such-bucket",
        ),
        pytest.param(RuntimeError("first\nsecond"), OSError, "s3a://b: first second", id="anything"),
    ],
)
def test_a_fault_is_one_sentence(error: Exception, kind: type[Exception], reason: str) -> None:
    files = remotes.RemoteFiles(_Broken(error), "s3a://b", "s3")
    with pytest.raises(kind, match=reason) as caught:
        files.content("b/x")
    assert "\n" not in str(caught.value)
