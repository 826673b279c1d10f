"""Metadata says that a topic's settings are other ones, in a tag that clients skip."""

import pytest

from fencepost.wire.k03_metadata import METADATA, MetadataAnswer, TopicMetadata

DIGESTS = (0, 1, -1, 2**63 - 1, -(2**63))


@pytest.mark.parametrize("version", METADATA.versions)
def test_the_digest_travels_where_tags_do(version: int) -> None:
    sent = MetadataAnswer(
        cluster_id="c", topics=tuple(TopicMetadata(name=str(each), configs_digest=each) for each in DIGESTS)
    )
    read = METADATA.decode_response(version, METADATA.encode_response(version, sent, 0))
    assert [each.configs_digest for each in read.topics] == (list(DIGESTS) if version >= 9 else [0] * 5)
