"""Whose log a folder has, by its ``partition.metadata``, held against what ``hosted-logs`` remembers.

Why       the file, Kafka's, has no checksum. With another id in it a log is taken for that of a topic that is
          no more, and deleted.
One       character of the id that differs, or a file that makes no sense, was changed: ids are random, so no
          two are alike. It is written again; unless what is remembered has no checksum (an earlier version
          wrote it), and may be what changed.
Another   id is another topic's log, put there by hand: the partition is offline, all bytes are kept.
"""

from collections.abc import Sequence
from pathlib import Path

from fencepost.broker.hosted_logs import HostedLog
from fencepost.broker.log.checkpoints import PARTITION_FILE, load_topic_id, save_topic_id
from fencepost.records.invariant import CorruptData
from fencepost.settings.node_identity import id_text


def restored(folder: Path, remembered: Sequence[HostedLog]) -> tuple[str, str]:
    """What was mended, and why the log is not to be used; empty if nothing, and if it is.

    ``remembered``   logs of that topic name and partition that were made in this log directory.
    Raises OSError.
    """
    if not remembered:
        return "", ""
    try:
        found = load_topic_id(folder)
        reason = f"it says topic id {found and id_text(found)}"
    except CorruptData as error:
        found, reason = None, str(error)
    ids = [log.topic_id for log in remembered]
    if found in ids:
        return "", ""
    is_checked = found is None or all(log.is_checked for log in remembered)
    if len(ids) == 1 and is_checked and (found is None or _differing(id_text(found), id_text(ids[0])) == 1):
        save_topic_id(folder, ids[0])
        return f"{PARTITION_FILE}: written again, topic id {id_text(ids[0])}; {reason}", ""
    names = " or ".join(map(id_text, ids))
    return "", (
        f"{folder / PARTITION_FILE}: {reason}, and the log that was made here is that of {names}: another "
        "log was put in its place. All bytes are kept. Put the right one back and start the broker again"
    )


def _differing(one: str, other: str) -> int:
    return sum(a != b for a, b in zip(one, other, strict=True))
