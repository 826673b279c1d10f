"""What ``explain`` says: a document, and the same as sentences. docs/explain.md describes the fields."""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from fencepost.cli.explain_commands import KAFKA, SERVER_UNKNOWN, Cluster, commands_for, option
from fencepost.cli.output import ago, when
from fencepost.cli.transaction_output import fence_line, fence_row
from fencepost.client.explain import Explained, Held, PartitionHeld
from fencepost.records.open_transactions import DECIDED, NO_TIMEOUT_MS, ONGOING, Coordinated, Holding
from fencepost.wire.errors import code_of
from fencepost.wire.requests import ErrorCode

BOOTSTRAP_SERVER, DIRECTORIES = "BootstrapServer", "Directories"
OPEN_MAX: Final = 10  # transactions of a partition in text
UNANSWERED_MAX: Final = 20  # that are printed one by one

_READ_TOPIC: Final = "the principal needs READ on the topic: kafka-acls.sh --add --operation Read"
_LOGIN: Final = (
    "give --command-config a file with sasl.username and sasl.password.file of a user of the cluster"
)
_ADVICE: Final[Mapping[int, str]] = {
    ErrorCode.NONE: (
        "start that broker, or give --bootstrap-server another one, and look again (a listener that wants a "
        "login needs --command-config)"
    ),
    ErrorCode.SASL_AUTHENTICATION_FAILED: _LOGIN,
    ErrorCode.ILLEGAL_SASL_STATE: _LOGIN,
    ErrorCode.UNSUPPORTED_SASL_MECHANISM: "give --command-config a sasl.mechanism that the listener has",
    ErrorCode.TOPIC_AUTHORIZATION_FAILED: _READ_TOPIC,
    ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED: (
        "the principal needs DESCRIBE on the transactional id: kafka-acls.sh --add --operation Describe"
    ),
    ErrorCode.CLUSTER_AUTHORIZATION_FAILED: "the principal needs DESCRIBE on the cluster",
    ErrorCode.UNSUPPORTED_VERSION: (
        "the broker is older than Apache Kafka 3.0, which describes producers and transactions (KIP-664)"
    ),
    ErrorCode.LEADER_NOT_AVAILABLE: "start a broker that has an in-sync replica, and look again",
    ErrorCode.NOT_LEADER_OR_FOLLOWER: "its leader moves: look again",
    ErrorCode.COORDINATOR_NOT_AVAILABLE: (
        "its partition of __transaction_state has no leader: start the brokers that have it, and look again"
    ),
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS: "the coordinator reads its log: look again",
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: "it does not exist, or the principal may not see it",
}


_OF_FILES: Final = "give the directory that has it, or look at the running cluster with --bootstrap-server"


def advice(code: int) -> str:
    """What to do about an answer that did not come."""
    return _ADVICE.get(code, "look again; the broker's log says more")


def document(
    kind: str, name: str, source: Mapping[str, Any], explained: Explained, cluster: Cluster, now_ms: int
) -> dict[str, Any]:
    """All that was found, with the commands that end what is open. ``source``: what was looked at."""
    is_live = DIRECTORIES not in source
    wedged = {each.transactional_id for each in explained.wedged}
    return {
        "Kind": kind,
        "Name": name,
        **source,
        "AtMs": now_ms,
        "IsOpen": is_open(explained),
        "IsComplete": not explained.unanswered,
        "Partitions": [_partition(each, cluster, wedged, now_ms) for each in explained.partitions],
        "Transaction": None if explained.owner is None else _owner(explained.owner),
        "Missing": [f"{topic}-{index}" for topic, index in explained.missing],
        "RememberedOn": explained.remembered,
        "Wedged": [
            {
                "TransactionalId": each.transactional_id,
                "Partition": each.partition,
                "Reason": each.reason,
                "SinceMs": each.since_ms,
            }
            for each in explained.wedged
        ],
        "Fences": [
            {"TransactionalId": name, **fence_row(each)}
            for name, fences in explained.fences.items()
            for each in fences
        ],
        "Unanswered": [
            {
                "Of": each.of,
                "Reason": each.reason,
                "ErrorCode": each.code or None,
                "ToDo": advice(each.code) if is_live else _OF_FILES,
            }
            for each in explained.unanswered
        ],
    }


def is_open(explained: Explained) -> bool:
    """Something holds a last stable offset, or a transaction is under way."""
    owner = explained.owner
    return any(each.held or each.behind for each in explained.partitions) or (
        owner is not None and owner.state in DECIDED | {ONGOING}
    )


def _partition(partition: PartitionHeld, cluster: Cluster, wedged: set[str], now_ms: int) -> dict[str, Any]:
    return {
        "Topic": partition.topic,
        "Partition": partition.partition,
        "Leader": partition.leader if partition.leader >= 0 else None,
        "LastStableOffset": partition.last_stable_offset,
        "HighWatermark": partition.high_watermark,
        "Behind": partition.behind,
        "Open": [_held(each, partition, cluster, wedged, now_ms) for each in partition.held],
    }


def _held(
    held: Held, partition: PartitionHeld, cluster: Cluster, wedged: set[str], now_ms: int
) -> dict[str, Any]:
    opened, owner = held.opened, held.owner
    is_wedged = owner is not None and owner.transactional_id in wedged
    commands = commands_for(opened, held.judged.holding, owner, cluster, is_wedged=is_wedged)
    last_ms = opened.last_ms if opened.last_ms >= 0 else None
    return {
        "ProducerId": opened.producer_id,
        "ProducerEpoch": opened.producer_epoch,
        "StartOffset": opened.start_offset,
        "HoldsLastStableOffset": opened.start_offset == partition.last_stable_offset,
        "FirstWriteMs": opened.first_ms if opened.first_ms >= 0 else None,
        "LastWriteMs": last_ms,
        "LastWriteAgoMs": None if last_ms is None else max(0, now_ms - last_ms),
        "CoordinatorEpoch": opened.coordinator_epoch if opened.coordinator_epoch >= 0 else None,
        "Holding": held.judged.holding.value,
        "Reason": held.judged.reason,
        "Transaction": None if owner is None else _owner(owner),
        "Commands": [{"Tool": tool, "Command": command} for tool, command in commands.items()],
    }


def _owner(owner: Coordinated) -> dict[str, Any]:
    return {
        "TransactionalId": owner.transactional_id,
        "CoordinatorId": owner.coordinator if owner.coordinator >= 0 else None,
        "CoordinatorPartition": owner.home if owner.home >= 0 else None,
        "State": owner.state,
        "ProducerId": owner.producer_id,
        "ProducerEpoch": owner.producer_epoch,
        "TimeoutMs": None if owner.timeout_ms == NO_TIMEOUT_MS else owner.timeout_ms,
        "StartedMs": owner.started_ms if owner.started_ms >= 0 else None,
        "DueMs": owner.due_ms,
        "Partitions": [f"{topic}-{index}" for topic, index in sorted(owner.partitions)],
    }


# -- sentences ----------------------------------------------------------------------------------------------


def sentences(found: dict[str, Any]) -> Iterator[str]:
    """The lines of a document, for people."""
    yield from _subject(found)
    for partition in found["Partitions"]:
        yield from _partition_lines(partition, found["AtMs"], is_whole=found["Kind"] == "topic-partition")
    for each in found["Wedged"]:
        yield (
            f"{each['TransactionalId']} is wedged: {each['Partition']} refuses its marker since "
            f"{when(each['SinceMs'])}: {each['Reason']}."
        )
    for each in found["Fences"]:
        yield f"{each['TransactionalId']}, {fence_line(each, found['AtMs'])}."
    yield from _unanswered_lines(found["Unanswered"])
    if DIRECTORIES in found and any(_hangs(each) for each in found["Partitions"]):
        named = option(f"--{found['Kind']}", found["Name"])
        yield (
            "These are files: before a command ends anything, let the cluster confirm it: fencepost explain "
            f"{named} --bootstrap-server {SERVER_UNKNOWN}"
        )


def _hangs(partition: dict[str, Any]) -> bool:
    return any(each["Holding"] == Holding.HANGING for each in partition["Open"])


def _subject(found: dict[str, Any]) -> Iterator[str]:
    owner, name = found["Transaction"], found["Name"]
    if found["Kind"] == "topic-partition":
        return
    if owner is not None:
        yield f"{_owner_sentence(owner, found['AtMs'])}."
    elif found["IsComplete"]:
        yield f"Producer {name}: no coordinator has it for a transactional id."
    if found["RememberedOn"] is not None and owner is None:
        count = found["RememberedOn"]
        yield f"{count} {'partition remembers' if count == 1 else 'partitions remember'} the producer."
    if not found["Partitions"] and found["IsComplete"]:
        yield "It has no transaction open on any partition, and holds no last stable offset."
    if found["Missing"]:
        yield (
            f"Its transaction includes {', '.join(found['Missing'])}, where nothing of it is open: nothing "
            "was written there yet, or the marker is written."
        )


def _owner_sentence(owner: dict[str, Any], now_ms: int) -> str:
    return (
        f"Transactional id {owner['TransactionalId']!r} is {owner['State']}: {_as_coordinated(owner, now_ms)}"
    )


def _as_coordinated(owner: dict[str, Any], now_ms: int) -> str:
    named = f"__transaction_state-{owner['CoordinatorPartition']}"
    if owner["CoordinatorPartition"] is None:
        named = f"coordinator {owner['CoordinatorId']}"
    text = f"{named} has it with producer {owner['ProducerId']}, epoch {owner['ProducerEpoch']}"
    if owner["StartedMs"] is not None:
        text += f"; the transaction began {when(owner['StartedMs'])} ({ago(now_ms - owner['StartedMs'])})"
    if owner["DueMs"] is not None:
        text += f"; {_due(owner, now_ms)}"
    return text


def _due(owner: dict[str, Any], now_ms: int) -> str:
    timeout = f"its timeout of {owner['TimeoutMs']} ms"
    if owner["DueMs"] > now_ms:
        return f"{timeout} is over at {when(owner['DueMs'])}: then the coordinator aborts it"
    return f"{timeout} is over since {when(owner['DueMs'])}: a coordinator that runs aborts it"


def _partition_lines(partition: dict[str, Any], now_ms: int, *, is_whole: bool) -> Iterator[str]:
    """``is_whole``: all that is open on it is there, of any producer."""
    name = f"{partition['Topic']}-{partition['Partition']}"
    stable, end, behind = (partition[each] for each in ("LastStableOffset", "HighWatermark", "Behind"))
    if stable is None or end is None:
        yield f"{name}: its offsets are not known."
    elif not partition["Open"] and not behind:
        yield f"{name}: nothing is open; read_committed consumers read to the end, offset {end}."
    else:
        yield (
            f"{name}: read_committed consumers stop before offset {stable}; the end is {end}, "
            f"{behind} {'offset' if behind == 1 else 'offsets'} further. read_uncommitted ones read it all."
        )
        if behind and not any(each["HoldsLastStableOffset"] for each in partition["Open"]):
            yield f"  {_held_elsewhere(name, stable, is_whole)}"
    for each in partition["Open"][:OPEN_MAX]:
        yield from (f"  {line}" for line in _held_lines(each, now_ms, with_owner=is_whole))
    if len(partition["Open"]) > OPEN_MAX:
        yield f"  And {len(partition['Open']) - OPEN_MAX} more, which --format json has."


def _held_elsewhere(name: str, stable: int, is_whole: bool) -> str:
    if not is_whole:
        return f"Another transaction holds it: fencepost explain --topic-partition {name} says which."
    return (
        f"No open transaction begins at offset {stable}: it has ended meanwhile, or its marker is written "
        "and in-sync replicas have yet to fetch it. Look again."
    )


def _held_lines(held: dict[str, Any], now_ms: int, *, with_owner: bool) -> Iterator[str]:
    holds = "holds the last stable offset" if held["HoldsLastStableOffset"] else "is open"
    wrote = ""
    if held["FirstWriteMs"] is not None:
        wrote = f"; its first write is of {when(held['FirstWriteMs'])} ({ago(now_ms - held['FirstWriteMs'])})"
    if held["LastWriteMs"] is not None:
        wrote += f"; its last write is of {when(held['LastWriteMs'])} ({ago(held['LastWriteAgoMs'])})"
    yield (
        f"Producer {held['ProducerId']}, epoch {held['ProducerEpoch']}, {holds} from offset "
        f"{held['StartOffset']} on{wrote}."
    )
    owner = held["Transaction"]
    yield f"It is {_WORDS[held['Holding']]}: {held['Reason']}."
    if with_owner and owner is not None:
        details = _as_coordinated(owner, now_ms)
        yield f"{details[0].upper()}{details[1:]}."
    yield _what_to_do(held)
    for each in held["Commands"]:
        yield f"  {each['Command']}"


_WORDS: Final[Mapping[str, str]] = {
    Holding.HANGING: "hanging",
    Holding.ONGOING: "under way",
    Holding.TWO_PHASE: "prepared, or about to be",
    Holding.ENDING: "ending",
    Holding.UNKNOWN: "not known what it waits for",
}


def _what_to_do(held: dict[str, Any]) -> str:
    match held["Holding"]:
        case Holding.HANGING:
            return "Nothing will end it by itself. Either of these aborts it on this partition:"
        case Holding.ONGOING:
            return (
                "Its application ends it, or its timeout. Either of these aborts it now and fences its "
                f"application ({KAFKA} of Kafka 4.1 or newer):"
            )
        case Holding.TWO_PHASE:
            return (
                "First see whether its application has committed elsewhere: then it has to commit here. "
                f"Either of these aborts it and fences its application ({KAFKA} of Kafka 4.1 or newer):"
            )
        case Holding.ENDING if held["Commands"]:
            return "Its outcome is decided, and its marker is refused. This forces that marker:"
        case Holding.ENDING:
            return (
                "Its outcome is decided: do not abort it here. Its coordinator sends the marker until the "
                "partition's leader takes it; look at those two brokers."
            )
        case _:
            return "Do not abort it before that is known."


def _unanswered_lines(rows: list[dict[str, Any]]) -> Iterator[str]:
    for each in rows[:UNANSWERED_MAX]:
        name = code_of(each["ErrorCode"] or 0).name
        named = "" if not each["ErrorCode"] or name in each["Reason"] else f"{name}, "
        yield f"Not known of {each['Of']}: {named}{each['Reason']}; {each['ToDo']}."
    if len(rows) > UNANSWERED_MAX:
        yield f"Nor of {len(rows) - UNANSWERED_MAX} more."
