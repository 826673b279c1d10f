"""Checkpoints and exports: what they become, and each way that they are not whole."""

import json
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from fencepost.audit.decode.batches import Where
from fencepost.audit.decode.columns import TABLES
from fencepost.audit.decode.snapshots import decode_checkpoint
from fencepost.audit.decode.zookeeper import decode_export
from fencepost.bridge.data_tree import Znode
from fencepost.bridge.export import Export, write_export
from fencepost.bridge.znodes import BLOCK_PATH, Fence, ZnodeBlock, format_block, format_fence
from fencepost.records.batch import encode_batch
from fencepost.records.control import KRaftVersion, SnapshotFooter, SnapshotHeader, encode_control
from fencepost.records.frame import encode_frame
from fencepost.records.schema import AllocateProducerIdsRecord, RegisterBrokerRecord, TopicRecord
from fencepost.records.types import BrokerEpoch, BrokerId, ProducerId
from tests.audit.decode.corpus import NOW_MS, laid
from tests.together import table

OPENING = (SnapshotHeader(last_contained_log_timestamp=5), KRaftVersion(k_raft_version=1))
HEADER = encode_batch(
    [(*encode_control(each), ()) for each in OPENING],
    timestamp_ms=NOW_MS, control=True,
)  # fmt: skip
IMAGE = encode_batch(
    [
        (None, encode_frame(each), ())
        for each in (
            RegisterBrokerRecord(
                broker_id=BrokerId(1), incarnation_id=UUID(int=9), broker_epoch=BrokerEpoch(4), end_points=(),
                features=(), fenced=False,
            ),
            TopicRecord(name="payments", topic_id=UUID(int=7)),
            AllocateProducerIdsRecord(
                broker_id=BrokerId(-1), broker_epoch=BrokerEpoch(-1), producer_id_end=ProducerId(3000)
            ),
        )
    ],
    timestamp_ms=NOW_MS,
)  # fmt: skip
FOOTER = encode_batch([(*encode_control(SnapshotFooter()), ())], timestamp_ms=NOW_MS, control=True)
WHOLE = laid([HEADER, IMAGE, FOOTER])
AT_IMAGE, AT_FOOTER = WHOLE.positions[1:]


def checkpoint(directory: Path, content: bytes, name: str = f"{120:020d}-{3:010d}.checkpoint") -> Any:
    path = directory / name
    path.write_bytes(content)
    return collected(decode_checkpoint(str(path), Where(2, "__cluster_metadata", 0, str(path))))


def collected(named: Any) -> dict[str, list[dict[str, Any]]]:
    found: dict[str, list[dict[str, Any]]] = {}
    for name, rows in named:
        rows.validate(full=True)
        assert rows.schema == TABLES[name]
        found.setdefault(name, []).extend(rows.to_pylist())
    return found


def test_a_checkpoint(tmp_path: Path) -> None:
    found = checkpoint(tmp_path, WHOLE.content)
    (block,) = found.pop("producer_id_blocks")
    assert {name: block[name] for name in list(block)[4:]} == {
        "position": AT_IMAGE, "source": "snapshot", "offset": 119, "leader_epoch": 3, "timestamp_ms": NOW_MS,
        "broker_id": -1, "broker_epoch": -1, "block_first": None, "block_end": 3000,
    }  # fmt: skip
    assert (block["node"], block["topic"], block["partition"]) == (2, "__cluster_metadata", 0)
    assert [(row["offset"], row["event"]) for row in found.pop("brokers")] == [
        (119, "registered"),
        (119, "unfenced"),
    ]
    assert [(row["offset"], row["name"]) for row in found.pop("topics")] == [(119, "payments")]
    assert found == {}


def test_a_checkpoint_by_another_name_has_no_offset(tmp_path: Path) -> None:
    (block,) = checkpoint(tmp_path, WHOLE.content, "bootstrap.checkpoint")["producer_id_blocks"]
    assert (block["offset"], block["leader_epoch"]) == (-1, -1)


TORN = "the checkpoint is torn: "


@table(
    ("content", "faults"),
    [
        pytest.param(b"", [(0, TORN + "no footer")], id="empty"),
        pytest.param(WHOLE.content[:AT_FOOTER], [(AT_FOOTER, TORN + "no footer")], id="no-footer"),
        pytest.param(WHOLE.content[:-1], [(AT_FOOTER, TORN + "a batch of ")], id="torn-in-the-footer"),
        pytest.param(
            WHOLE.content[: AT_IMAGE + 70], [(AT_IMAGE, TORN + "a batch of ")], id="torn-in-the-image"
        ),
        pytest.param(
            WHOLE.content + bytes(9), [(len(WHOLE.content), TORN + "9 zero bytes")], id="zeros-after"
        ),
        pytest.param(
            laid([HEADER, IMAGE, FOOTER, IMAGE]).content,
            [(len(WHOLE.content) + len(IMAGE), TORN + "no footer")],
            id="more-after-the-footer",
        ),
        pytest.param(
            laid([HEADER, FOOTER], gaps=[0, 3]).content,
            [(AT_IMAGE, "a batch of a checkpoint at offset 5, expected 2")],
            id="a-batch-is-missing",
        ),
        pytest.param(
            WHOLE.content[: AT_IMAGE + 80] + b"\xff" + WHOLE.content[AT_IMAGE + 81 :],
            [(AT_IMAGE, "a batch with a wrong checksum")],
            id="flipped",
        ),
        pytest.param(
            WHOLE.content[:-1] + b"\xff",
            [(AT_FOOTER, "a batch with a wrong checksum")],
            id="the-footer-is-flipped",
        ),
        pytest.param(
            WHOLE.content[: AT_IMAGE + 16] + b"\3" + WHOLE.content[AT_IMAGE + 17 :],
            [(AT_IMAGE, f"{len(IMAGE)} bytes are no batch: magic 3, expected 2")],
            id="another-magic",
        ),
        pytest.param(
            WHOLE.content[: AT_FOOTER + 16] + b"\3" + WHOLE.content[AT_FOOTER + 17 :],
            [(AT_FOOTER, f"{len(FOOTER)} bytes are no batch: magic 3, expected 2")],
            id="the-footer-is-no-batch",
        ),
    ],
)
def test_a_checkpoint_that_is_not_whole_has_faults(
    tmp_path: Path, content: bytes, faults: list[tuple[int, str]]
) -> None:
    found = checkpoint(tmp_path, content)["record_faults"]
    assert [(row["position"], row["fault"]) for row in found] == [
        (position, "record") for position, _ in faults
    ]
    for row, (_, reason) in zip(found, faults, strict=True):
        assert row["reason"].startswith(reason)


def export(directory: Path, data: bytes | None, *, znode: bool = True) -> dict[str, list[dict[str, Any]]]:
    path = directory / "znodes.json"
    block = Znode(data=data, version=4, modified_zxid=77, created_zxid=5, is_ephemeral=False)
    znodes = {BLOCK_PATH: block} if znode else {}
    write_export(path, Export(source="zk:2181", chroot="", taken_ms=NOW_MS, zxid=90, znodes=znodes))
    return read_export(path)


def read_export(path: Path) -> dict[str, list[dict[str, Any]]]:
    return collected(decode_export(str(path), Where(-1, "", -1, str(path))))


BLOCK = ZnodeBlock(BrokerId(3), ProducerId(5000), ProducerId(5999))


@table(
    ("data", "expected"),
    [
        pytest.param(format_block(BLOCK), (3, 5000, 6000), id="a block, its end inclusive"),
        pytest.param(
            format_block(BLOCK._replace(broker=BrokerId(-1))), (-1, 5000, 6000), id="on behalf of brokers"
        ),
        pytest.param(
            format_fence(Fence("c", 4, ProducerId(5999))), (-1, None, 6000), id="a fence after a block"
        ),
        pytest.param(format_fence(Fence("c", 0, None)), None, id="a fence after nothing"),
        pytest.param(None, None, id="no block yet"),
        pytest.param(b"", None, id="no block yet, empty"),
    ],
)
def test_an_export(tmp_path: Path, data: bytes | None, expected: tuple[int, int | None, int] | None) -> None:
    found = export(tmp_path, data)
    if expected is None:
        assert found == {}
        return
    (row,) = found.pop("producer_id_blocks")
    assert (row["broker_id"], row["block_first"], row["block_end"]) == expected
    assert (row["source"], row["offset"], row["timestamp_ms"], row["broker_epoch"]) == (
        "zookeeper",
        77,
        NOW_MS,
        None,
    )
    assert found == {}


def test_an_export_without_the_znode(tmp_path: Path) -> None:
    assert export(tmp_path, None, znode=False) == {}


def znode(**changes: object) -> dict[str, object]:
    return {"data": format_block(BLOCK).decode(), "encoding": "utf-8", "modified_zxid": "7", **changes}


def document(**changes: object) -> dict[str, object]:
    return {
        "format": "fencepost-znodes",
        "version": 1,
        "taken_ms": NOW_MS,
        "znodes": {BLOCK_PATH: znode()},
        **changes,
    }


@table(
    ("content", "reason"),
    [
        pytest.param("{", "the export is not JSON", id="torn"),
        pytest.param("[" * 100_000, "the export is not JSON", id="too deep"),
        pytest.param("[]", "the export is not a JSON object", id="no object"),
        pytest.param(document(format="other"), "expected 'fencepost-znodes' version 1", id="another format"),
        pytest.param(document(version=2), "expected 'fencepost-znodes' version 1", id="another version"),
        pytest.param(document(znodes=[]), "the export has no znodes", id="no znodes"),
        pytest.param(
            document(znodes={BLOCK_PATH: 7}), "/latest_producer_id_block is not an object", id="no znode"
        ),
        pytest.param(document(taken_ms="x"), "taken_ms is 'x'", id="no time"),
        pytest.param(
            document(znodes={BLOCK_PATH: znode(encoding="x")}),
            "expected text in utf-8 or base64",
            id="encoding",
        ),
        pytest.param(
            document(znodes={BLOCK_PATH: znode(data=7)}), "expected text in utf-8 or base64", id="no text"
        ),
        pytest.param(
            document(znodes={BLOCK_PATH: znode(data="!", encoding="base64")}), "Only base64", id="no base64"
        ),
        pytest.param(document(znodes={BLOCK_PATH: znode(data="{}")}), "block_start is None", id="no block"),
        pytest.param(
            document(znodes={BLOCK_PATH: znode(data='{"block_start":"9","block_end":"8","broker":1}')}),
            "block_end 8 before block_start 9",
            id="a block of nothing",
        ),
        pytest.param(
            document(
                znodes={BLOCK_PATH: znode(data='{"block_start":"0","block_end":"9223372036854775807"}')}
            ),
            "block_end is 9223372036854775807",
            id="past the last id",
        ),
    ],
)
def test_an_export_that_nobody_wrote_is_a_fault(tmp_path: Path, content: object, reason: str) -> None:
    path = tmp_path / "znodes.json"
    path.write_text(content if isinstance(content, str) else json.dumps(content))
    (fault,) = read_export(path).pop("record_faults")
    assert (fault["position"], fault["fault"]) == (0, "record")
    assert reason in fault["reason"]
