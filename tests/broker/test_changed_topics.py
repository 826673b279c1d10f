"""A broker takes changed settings of a topic when Metadata shows another digest of them, and only then."""

from pathlib import Path

from msgspec.structs import replace

from fencepost.wire.k32_describe_configs import DESCRIBE_CONFIGS
from tests.broker.batches import TOPIC
from tests.broker.data_stage import HERE, hosting
from tests.broker.fake_controller import play


def test_settings_are_read_anew_when_their_digest_is_another(tmp_path: Path) -> None:
    async def story() -> None:
        async with hosting(tmp_path, HERE) as on:
            assert await on.broker._data.topics.refresh()
            (partition,) = on.broker._data._partitions
            topics, asked = on.broker._data.topics, on.controller.asked[DESCRIBE_CONFIGS.key]
            default = partition.log.config.message_bytes_max
            before = len(asked)
            for digest, sizes in ((7, (100, 100)), (-8, (200, 200)), (0, (default, default))):
                on.controller.settings = {"max.message.bytes": str(sizes[0])} if digest else {}
                on.controller.topics[TOPIC] = replace(on.controller.topics[TOPIC], configs_digest=digest)
                found = []
                for _ in range(2):
                    assert await topics.refresh()
                    found.append(partition.log.config.message_bytes_max)
                assert tuple(found) == sizes
            assert len(asked) == before + 3

    play(story)
