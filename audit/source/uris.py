"""Hadoop's URIs and properties as fsspec calls them: ``file:/``, ``s3a://``, ``hdfs://``, ``abfss://``,
``gs://``.

Properties  are Hadoop's, as Spark takes them: ``spark.hadoop.fs.s3a.endpoint``. What is not named here is not
            looked at; what is not set is left to the library, which reads its cloud's usual variables and
            files.
Paths       without a scheme, and ``file:`` ones, are this machine's. ``file://HOST/x`` is a file of another
            machine: a name in tables that many machines filled (``named``), and nothing that can be opened
            here; unless that is how this machine is called (``name_this_machine``). Nothing in a path stands
            for something else: to Hadoop's Path ``file:/a%20b`` is a file called ``a%20b``.
Source      Hadoop core-default.xml, hadoop-aws, hadoop-azure and the GCS connector's own pages; s3fs, adlfs,
            gcsfs.
"""

import re
from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple
from urllib.parse import quote, unquote

Properties = Mapping[str, str]
"""Hadoop's, without the ``spark.hadoop.`` before them."""

_PREFIX: Final = "spark.hadoop."
_SCHEME: Final = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):/(?=/|[^/])")
_HERE: Final = frozenset({"", "localhost"})
_names: set[str] = set()
_AZURE: Final = ".dfs.core.windows.net"
_ANONYMOUS: Final = "AnonymousAWSCredentialsProvider"


class Location(NamedTuple):
    """Where a path is: a file system of fsspec's, its options, and what it calls the path."""

    protocol: str
    package: str  # what pip calls the library
    options: dict[str, Any]
    path: str


def hadoop_properties(settings: Mapping[str, str]) -> dict[str, str]:
    """Of Spark's settings those that are Hadoop's, by Hadoop's names."""
    return {
        key.removeprefix(_PREFIX): value
        for key, value in settings.items()
        if key.startswith((_PREFIX + "fs.", _PREFIX + "google."))
    }


def scheme_of(path: str) -> str:
    """The scheme of a URI, in small letters; "" of a path."""
    matched = _SCHEME.match(path)
    return matched[1].lower() if matched else ""


def local_path(path: str) -> str | None:
    """What this machine calls ``path``; None if it is elsewhere. Raises OSError: a file of another
    machine.
    """
    scheme = scheme_of(path)
    if scheme == "":
        return path
    if scheme != "file":
        return None
    rest = path[len("file:") :]
    if not rest.startswith("//"):
        return rest
    host, _, inner = rest[2:].partition("/")
    if host.lower() not in _HERE and unquote(host) not in _names:
        raise OSError(f"{path} is a file of the machine {host}")
    return f"/{inner}"


def name_this_machine(machine: str) -> None:
    """From now on ``file://MACHINE/...`` is a file of this machine for this process; "" changes nothing."""
    if machine:
        _names.add(machine)


def named(path: str, machine: str) -> str:
    """``path`` of this machine as others shall call it: behind ``file://MACHINE`` as it is, so that names of
    files may be added to it; the path alone, if it names no machine.
    """
    return f"file://{quote(machine)}{path}" if machine else path


def located(uri: str, properties: Properties) -> Location:
    """Where a URI that is not this machine's leads. Raises OSError for a scheme that is not known here."""
    scheme = scheme_of(uri)
    translate = _SCHEMES.get(scheme)
    if translate is None:
        known = ", ".join(f"{each}://" for each in ("s3a", "hdfs", "abfss", "gs"))
        raise OSError(f"{uri}: {scheme}: is no scheme that is known here; known are file:/, {known}")
    authority, _, inner = uri.partition("://")[2].partition("/")
    if not authority and scheme != "hdfs":
        raise OSError(f"{uri}: {scheme}:// wants a name after it: {scheme}://NAME/path")
    return translate(authority, inner.rstrip("/"), properties)


def _s3(bucket: str, inner: str, properties: Properties) -> Location:
    def said(name: str) -> str | None:
        return properties.get(f"fs.s3a.bucket.{bucket}.{name}", properties.get(f"fs.s3a.{name}"))

    options: dict[str, Any] = {}
    client: dict[str, str] = {}
    endpoint = said("endpoint")
    if endpoint:
        secure = (said("connection.ssl.enabled") or "true").lower() != "false"
        client["endpoint_url"] = endpoint if "://" in endpoint else f"http{'s' * secure}://{endpoint}"
    region = said("endpoint.region")
    if region:
        client["region_name"] = region
    if client:
        options["client_kwargs"] = client
    for name, option in (("access.key", "key"), ("secret.key", "secret"), ("session.token", "token")):
        value = said(name)
        if value:
            options[option] = value
    if _ANONYMOUS in (said("aws.credentials.provider") or ""):
        options["anon"] = True
    if (said("path.style.access") or "false").lower() == "true":
        options["config_kwargs"] = {"s3": {"addressing_style": "path"}}
    return Location("s3", "s3fs", options, f"{bucket}/{inner}" if inner else bucket)


def _hdfs(authority: str, inner: str, properties: Properties) -> Location:
    if not authority:
        authority = properties.get("fs.defaultFS", "").partition("://")[2].rstrip("/")
    host, _, port = authority.partition(":")
    # "default": what Hadoop's own configuration on this machine says
    options: dict[str, Any] = {"host": host or "default", "port": int(port) if port.isdecimal() else 0}
    return Location("hdfs", "pyarrow", options, f"/{inner}")


def _azure(authority: str, inner: str, properties: Properties) -> Location:
    container, _, host = authority.rpartition("@")
    if not container:
        raise OSError(f"abfss://{authority}: expected abfss://CONTAINER@ACCOUNT{_AZURE}/path")
    account = host.partition(".")[0]

    def said(name: str) -> str | None:
        return properties.get(f"{name}.{host}", properties.get(name))

    options: dict[str, Any] = {"account_name": account}
    if not host.endswith(_AZURE):
        options["account_host"] = host
    key, signature = said("fs.azure.account.key"), said("fs.azure.sas.fixed.token")
    client, secret = said("fs.azure.account.oauth2.client.id"), said("fs.azure.account.oauth2.client.secret")
    if key:
        options["account_key"] = key
    elif signature:
        options["sas_token"] = signature
    elif client and secret:
        endpoint = said("fs.azure.account.oauth2.client.endpoint") or ""
        tenant = endpoint.partition("://")[2].split("/")
        options |= {
            "client_id": client,
            "client_secret": secret,
            "tenant_id": tenant[1] if len(tenant) > 1 else "",
        }
    else:
        options["anon"] = False  # what the machine itself is allowed to
    return Location("abfs", "adlfs", options, f"{container}/{inner}" if inner else container)


def _google(bucket: str, inner: str, properties: Properties) -> Location:
    options: dict[str, Any] = {}
    for name in ("fs.gs.auth.service.account.json.keyfile", "google.cloud.auth.service.account.json.keyfile"):
        if properties.get(name):
            options["token"] = properties[name]
    if properties.get("fs.gs.auth.type", "").upper() == "UNAUTHENTICATED":
        options["token"] = "anon"  # noqa: S105 - gcsfs's word for none
    if properties.get("fs.gs.project.id"):
        options["project"] = properties["fs.gs.project.id"]
    if properties.get("fs.gs.storage.root.url"):
        options["endpoint_url"] = properties["fs.gs.storage.root.url"].rstrip("/")
    return Location("gcs", "gcsfs", options, f"{bucket}/{inner}" if inner else bucket)


_SCHEMES: Final[dict[str, Callable[[str, str, Properties], Location]]] = {
    "s3a": _s3,
    "s3": _s3,
    "hdfs": _hdfs,
    "abfss": _azure,
    "abfs": _azure,
    "gs": _google,
}
