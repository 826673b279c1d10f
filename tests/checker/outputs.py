"""What an application writes for its inputs, whatever client it writes with."""

import json
from collections.abc import Iterator, Sequence

from tests.checker.settings import RUN_LENGTH, Part

Source = tuple[str, int, int, int]  # topic, partition, offset, number


def outputs(
    part: Part, transaction: int, generation: int, sources: Sequence[Source]
) -> Iterator[tuple[int, bytes]]:
    """The partition and the value of each output of a transaction."""
    places = {tuple(each): place for place, each in enumerate(part.partitions)}
    for index, source in enumerate(sources):
        topic, partition, _, number = source
        value = {
            "application": part.name,
            "transaction": transaction,
            "index": index,
            "size": len(sources),
            "generation": generation,
            "source": source,
        }
        place = (places[topic, partition] + number // RUN_LENGTH) % part.output_partitions
        yield place, json.dumps(value).encode()
