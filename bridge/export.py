"""A tree of znodes as one JSON file, to be carried from where ZooKeeper is to where the upgrade is done.

Format      one object, UTF-8:

            ``format``    "fencepost-znodes"
            ``version``   1
            ``source``    where it was read: a connect string, or directories
            ``chroot``    the znode under which Kafka keeps its own, "" if at the top; paths go on from it
            ``taken_ms``  when it was read, milliseconds since 1970
            ``zxid``      the last transaction in it, as a decimal string (int64)
            ``znodes``    by path, each: ``data`` null or a string, ``encoding`` "utf-8" or "base64" (of
                          ``data``), ``version`` int32, ``modified_zxid`` and ``created_zxid`` decimal
                          strings, ``ephemeral`` true or false

Strict      each field is required, none other is allowed, no key stands twice, a path is one that ZooKeeper
            takes. What a znode's data says is for ``znodes`` and ``kafka_znodes`` to judge.
Inverse     ``read_export(write_export(e)) == e``.
"""

import base64
import binascii
import json
import os
import re
from pathlib import Path
from typing import Final, NamedTuple

from fencepost.bridge.data_tree import Znode, Znodes
from fencepost.bridge.strict_json import INT32_MAX, INT64_MAX, Fields, Misshaped, parse_object

FORMAT: Final = "fencepost-znodes"
FORMAT_VERSION: Final = 1
EXPORT_BYTES_MAX: Final = 512 * 1024 * 1024
_TEXT: Final = "utf-8"
_BINARY: Final = "base64"
_UNPRINTABLE: Final = re.compile(r"[\0-\x1f\x7f-\x9f\ud800-\uf8ff\ufff0-\uffff]")  # ZooKeeper PathUtils


class Export(NamedTuple):
    """The znodes of a Kafka cluster, by their paths below ``chroot``."""

    source: str
    chroot: str
    taken_ms: int
    zxid: int
    znodes: Znodes


def write_export(path: Path, export: Export) -> None:
    """Write the file whole or not at all. Raises OSError."""
    document = {
        "format": FORMAT,
        "version": FORMAT_VERSION,
        "source": export.source,
        "chroot": export.chroot,
        "taken_ms": export.taken_ms,
        "zxid": str(export.zxid),
        "znodes": {name: _written(export.znodes[name]) for name in sorted(export.znodes)},
    }
    part = path.with_name(f"{path.name}.part")
    with part.open("w", encoding="utf-8") as stream:
        json.dump(document, stream, indent=1, ensure_ascii=False)
        stream.write("\n")
        stream.flush()
        os.fsync(stream.fileno())
    part.replace(path)


def read_export(path: Path) -> Export:
    """Raises Misshaped with the file's name, where in it, what was expected and what was found; OSError."""
    with path.open("rb") as stream:
        content = stream.read(EXPORT_BYTES_MAX + 1)
    if len(content) > EXPORT_BYTES_MAX:
        raise Misshaped(str(path), f"at most {EXPORT_BYTES_MAX} bytes", "more")
    fields = parse_object(str(path), content)
    for name, expected in (("format", FORMAT), ("version", FORMAT_VERSION)):
        value = fields.text(name) if isinstance(expected, str) else fields.integer(name)
        if value != expected:
            raise fields.refused(name, json.dumps(expected), value)
    export = Export(
        source=fields.text("source"),
        chroot=fields.text("chroot"),
        taken_ms=fields.integer("taken_ms", 0, INT64_MAX),
        zxid=fields.decimal("zxid"),
        znodes=_znodes(fields.fields("znodes")),
    )
    if export.chroot and not is_path(export.chroot):
        raise fields.refused("chroot", 'a path, or ""', export.chroot)
    fields.end()
    return export


def is_path(path: str) -> bool:
    """Whether ZooKeeper takes it for the path of a znode."""
    if path == "/":
        return True
    parts = path.split("/")
    return parts[0] == "" and not _UNPRINTABLE.search(path) and not {"", ".", ".."} & set(parts[1:])


def _written(znode: Znode) -> dict[str, object]:
    text, encoding = _encoded(znode.data)
    return {
        "data": text,
        "encoding": encoding,
        "version": znode.version,
        "modified_zxid": str(znode.modified_zxid),
        "created_zxid": str(znode.created_zxid),
        "ephemeral": znode.is_ephemeral,
    }


def _encoded(data: bytes | None) -> tuple[str | None, str]:
    if data is None:
        return None, _TEXT
    try:
        return data.decode(), _TEXT
    except UnicodeDecodeError:
        return base64.b64encode(data).decode(), _BINARY


def _znodes(fields: Fields) -> Znodes:
    found = {}
    for path in fields.names():
        znode = fields.fields(path)
        if not is_path(path):
            raise znode.refused("", "a znode's path", path)
        found[path] = Znode(
            data=_decoded(znode),
            version=znode.integer("version", -1, INT32_MAX),
            modified_zxid=znode.decimal("modified_zxid"),
            created_zxid=znode.decimal("created_zxid"),
            is_ephemeral=znode.boolean("ephemeral"),
        )
        znode.end()
    return found


def _decoded(znode: Fields) -> bytes | None:
    encoding = znode.text("encoding")
    if encoding not in (_TEXT, _BINARY):
        raise znode.refused("encoding", f"{_TEXT} or {_BINARY}", encoding)
    text = znode.optional_text("data")
    if text is None or encoding == _TEXT:
        return None if text is None else text.encode()
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError) as error:
        raise znode.refused("data", "base64", text) from error
