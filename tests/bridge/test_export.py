"""The JSON export of a tree of znodes: what is written is read back, what is not quite it is refused."""

import json
import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fencepost.bridge.data_tree import Znode, under
from fencepost.bridge.export import Export, is_path, read_export, write_export
from fencepost.bridge.files import ServerFiles, read_server
from fencepost.bridge.strict_json import INT32_MAX, INT64_MAX, Misshaped
from fencepost.bridge.znodes import BLOCK_PATH, parse_block
from tests.together import table

REAL = Path(__file__).parent / "real_files"

zxids = st.integers(0, INT64_MAX)
znodes = st.builds(
    Znode,
    st.none() | st.binary(max_size=50) | st.text(max_size=20).map(str.encode),
    st.integers(-1, INT32_MAX),
    zxids,
    zxids,
    st.booleans(),
)
names = st.text(st.characters(codec="utf-8", exclude_categories=["Cc", "Cs", "Co"]), min_size=1, max_size=8)
paths = st.lists(names, min_size=1, max_size=3).map(lambda parts: "/" + "/".join(parts)).filter(is_path)
exports = st.builds(
    Export,
    st.text(max_size=20),
    st.just("") | paths,
    st.integers(0, INT64_MAX),
    zxids,
    st.dictionaries(paths, znodes, max_size=4),
)


@given(exports)
def test_exports_round_trip(export: Export) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "znodes.json"
        write_export(path, export)
        assert read_export(path) == export
        assert list(Path(folder).iterdir()) == [path]


@pytest.fixture
def written(tmp_path: Path) -> Path:
    tree = read_server(ServerFiles(REAL))
    path = tmp_path / "znodes.json"
    write_export(path, Export("files", "", 1_700_000_000_000, tree.zxid, tree.znodes))
    return path


def test_what_is_written_can_be_read_by_people(written: Path) -> None:
    document = json.loads(written.read_text())
    assert list(document) == ["format", "version", "source", "chroot", "taken_ms", "zxid", "znodes"]
    assert (document["format"], document["version"], document["zxid"]) == ("fencepost-znodes", 1, "22")
    assert document["znodes"][BLOCK_PATH] == {
        "data": '{"version":1,"broker":0,"block_start":"6000","block_end":"6999"}',
        "encoding": "utf-8",
        "version": 7,
        "modified_zxid": "22",
        "created_zxid": "2",
        "ephemeral": False,
    }
    znode = read_export(written).znodes[BLOCK_PATH]
    assert parse_block(znode.data, znode.version) is not None


def refusal(*keys: str, value: Any = ..., expected: str, name: str) -> Any:
    return pytest.param(keys, value, expected, id=name)


REFUSED = [
    refusal("format", value="znodes", expected='format to be "fencepost-znodes"', name="another-format"),
    refusal("version", value=2, expected="version to be 1", name="another-version"),
    refusal("version", value="1", expected="version to be a number", name="version-a-string"),
    refusal("source", expected="a field source", name="no-source"),
    refusal("chroot", value="kafka", expected="chroot to be a path", name="chroot-without-a-slash"),
    refusal("chroot", value="/kafka/", expected="chroot to be a path", name="chroot-with-a-slash-behind"),
    refusal("taken_ms", value=-1, expected="taken_ms to be a number", name="time-negative"),
    refusal("zxid", value=22, expected="zxid to be a string", name="zxid-a-number"),
    refusal("zxid", value="-1", expected="zxid to be a string", name="zxid-negative"),
    refusal("zxid", value=str(2**63), expected="zxid to be a string", name="zxid-past-int64"),
    refusal("znodes", value=[], expected="znodes to be an object", name="znodes-an-array"),
    refusal("more", value=1, expected="no field more", name="a-field-too-many"),
    refusal("znodes", "/x", value="x", expected="znodes./x to be an object", name="znode-a-string"),
    refusal("znodes", "x", value={}, expected="znodes.x to be a znode's path", name="a-relative-path"),
    refusal("znodes", "/x/", value={}, expected="to be a znode's path", name="a-slash-behind"),
    refusal("znodes", "/../x", value={}, expected="to be a znode's path", name="dots"),
    refusal("znodes", "/x\0", value={}, expected="to be a znode's path", name="a-null"),
    refusal("znodes", "/x", "data", expected="a field znodes./x.data", name="no-data"),
    refusal("znodes", "/x", "data", value=1, expected="znodes./x.data to be a string", name="data-a-number"),
    refusal(
        "znodes",
        "/x",
        "data",
        value="\ud800",
        expected="/x.data to be a string",
        name="data-half-a-character",
    ),
    refusal(
        "znodes", "/x", "encoding", value="hex", expected="encoding to be utf-8 or base64", name="an-encoding"
    ),
    refusal(
        "znodes",
        "/x",
        "version",
        value=-2,
        expected="version to be a number from -1",
        name="version-negative",
    ),
    refusal(
        "znodes", "/x", "version", value=2**31, expected="version to be a number", name="version-past-int32"
    ),
    refusal(
        "znodes",
        "/x",
        "modified_zxid",
        value=5,
        expected="modified_zxid to be a string",
        name="mzxid-a-number",
    ),
    refusal(
        "znodes", "/x", "created_zxid", expected="a field znodes./x.created_zxid", name="no-created-zxid"
    ),
    refusal(
        "znodes", "/x", "ephemeral", value=0, expected="ephemeral to be true or false", name="ephemeral-0"
    ),
    refusal(
        "znodes",
        "/x",
        "owner",
        value=0,
        expected="no field znodes./x.owner",
        name="a-field-too-many-in-a-znode",
    ),
]


@pytest.mark.parametrize(("keys", "value", "expected"), REFUSED)
def test_what_is_not_quite_an_export_is_refused(
    written: Path, keys: tuple[str, ...], value: Any, expected: str
) -> None:
    document = json.loads(written.read_text())
    place = document
    for key in keys[:-1]:
        place = place[key]
    place[keys[-1]] = value
    if value is ...:
        del place[keys[-1]]
    written.write_text(json.dumps(document))
    with pytest.raises(Misshaped) as refused:
        read_export(written)
    assert str(refused.value).startswith(f"{written}: expected ")
    assert expected in str(refused.value)


def test_data_that_is_no_base64_is_refused(written: Path) -> None:
    document = json.loads(written.read_text())
    document["znodes"]["/x"] |= {"encoding": "base64", "data": "!"}
    written.write_text(json.dumps(document))
    with pytest.raises(Misshaped, match=r"znodes\./x\.data to be base64"):
        read_export(written)


def test_a_file_that_was_cut_is_refused(written: Path) -> None:
    content = written.read_bytes()
    for length in range(0, len(content) - 2, 7):
        written.write_bytes(content[:length])
        with pytest.raises(Misshaped):
            read_export(written)


@table("content", [b"", b"\xff", b"[]", b"[" * 100_000, b"null", b'{"format":1,"format":1}'])
def test_what_is_no_export_is_refused(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "z.json").write_bytes(content)
    with pytest.raises(Misshaped):
        read_export(tmp_path / "z.json")


def test_a_chroot_is_taken_off() -> None:
    znode = Znode(b"", 0, 1, 1)
    tree = dict.fromkeys(("/", "/kafka", "/kafka/x", "/kafka/x/y", "/kafka2/x", "/x"), znode)
    assert sorted(under(tree, "/kafka")) == ["/", "/x", "/x/y"]
    assert under(tree, "") == tree
    assert under(tree, "/nowhere") == {}
