"""Watches the applications at work: a reader of the output topic, or one that fetches a group's offsets."""

import json
import threading
import time
from typing import Final

from confluent_kafka import KafkaError, KafkaException, TopicPartition

from tests.checker.history import History
from tests.checker.reading import committed, consumer
from tests.checker.settings import OUTPUT, Part, until_terminated

POLL_SECONDS: Final = 0.5
RECORDS_MAX: Final = 500
FETCH_EVERY_SECONDS: Final = 0.3


def read_outputs(part: Part, history: History, ended: threading.Event) -> None:
    """All partitions from their start, as read_committed shows them."""
    reader = consumer(part.bootstrap)
    reader.assign([TopicPartition(OUTPUT, each, 0) for each in range(part.output_partitions)])
    while not ended.is_set():
        seen: dict[int, list[tuple[int, str, int, int]]] = {}
        for message in reader.consume(RECORDS_MAX, POLL_SECONDS):
            error = message.error()
            if error is not None:
                history.write("reader_failed", reader=part.name, error=str(error))
                if error.code() == KafkaError._AUTO_OFFSET_RESET:
                    return  # the log was cut below what was read; the log at the end shows what that was
                continue
            value = json.loads(message.value())
            record = (message.offset(), value["application"], value["transaction"], value["index"])
            seen.setdefault(message.partition(), []).append(record)
        for partition, records in seen.items():
            history.write("outputs_seen", reader=part.name, partition=partition, records=records)
    reader.close()


def fetch_offsets(part: Part, history: History, ended: threading.Event) -> None:
    """Again and again, one fetch after the other."""
    asker = consumer(part.bootstrap, group_id=part.group)
    while not ended.wait(FETCH_EVERY_SECONDS):
        began_at = time.monotonic()
        try:
            rows = committed(asker, part.partitions)
        except KafkaException:
            continue
        history.write("offsets_fetched", group=part.group, began_at=began_at, offsets=rows)
    asker.close()


def main() -> None:
    """Until SIGTERM."""
    part = Part.of_command_line()
    history = History(part.path, part.name)
    ended = until_terminated()
    work = read_outputs if part.group is None else fetch_offsets
    work(part, history, ended)


if __name__ == "__main__":
    main()
