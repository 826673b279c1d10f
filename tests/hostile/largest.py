"""Of every API the largest requests that its schema and Kafka's rules for names allow, and beyond ours."""

import dataclasses
import uuid
from collections.abc import Callable, Iterator
from typing import Any, Final, TypeAlias

import msgspec

from fencepost.controller.acl_types import Acl, AclFilter
from fencepost.controller.acls import AclChange
from fencepost.controller.brokers import Endpoint, Feature
from fencepost.controller.config_changes import ConfigChange, ResourceChanges
from fencepost.controller.partition_creation import NewPartitions
from fencepost.controller.topics import NewTopic
from fencepost.controller.transactions.group_init import MemberAssignment
from fencepost.records.partition_report import REPORTS_MAX, PartitionReport
from fencepost.records.transaction_log import TopicPartitions
from fencepost.wire.auth import TOKEN_BYTES_MAX
from fencepost.wire.dispatch import Api
from fencepost.wire.k00_produce import PartitionData
from fencepost.wire.k02_list_offsets import OffsetQuery
from fencepost.wire.k03_metadata import TopicQuery
from fencepost.wire.k21_delete_records import RecordsToDelete
from fencepost.wire.k23_offset_for_leader_epoch import EpochQuery
from fencepost.wire.k32_describe_configs import TOPIC_RESOURCE, ConfigResource
from fencepost.wire.k20021_migrate import Stopped
from fencepost.wire.k20037_prove_secret import FIELD_BYTES_MAX
from fencepost.wire.private_api import JSON_BYTES_MAX
from tests.hostile.largest_request import (
    LOOKED_UP,
    MANY,
    TEXT_SIZES,
    Largest,
    changed,
    topic,
    transactional_id,
)
from tests.wire.sample_messages import SAMPLES

_Requests: TypeAlias = Callable[[Any], Iterator[Largest]]


def largest(api: Api[Any, Any]) -> Iterator[Largest]:
    """At least one of each API: a sample, and where something in it can be long, the longest."""
    sample = SAMPLES[api.key][0]
    yield Largest("a sample", sample)
    if api.key in LONG:
        yield from LONG[api.key](sample)
    else:
        yield from stretched(api, sample)


def stretched(api: Api[Any, Any], sample: Any) -> Iterator[Largest]:
    """The sample with each text and each list as long as the API's limit for requests lets it be."""
    for name in names_of(sample):
        value = getattr(sample, name)
        if isinstance(value, str | bytes):
            longer: list[Any] = [(value[:1] or type(value)()) * size for size in TEXT_SIZES]
        elif isinstance(value, tuple) and value:
            longer = [value[:1] * count for count in MANY]
        else:
            continue
        for each in longer:
            request = changed(sample, **{name: each})
            if len(api.encode_request(api.versions[-1], request)) <= api.request_bytes_max:
                yield Largest(f"{name} of {len(each)}", request)


def names_of(value: Any) -> tuple[str, ...]:
    if dataclasses.is_dataclass(value):
        return tuple(field.name for field in dataclasses.fields(value) if field.init)
    if isinstance(value, msgspec.Struct):
        return value.__struct_fields__
    return tuple(getattr(value, "_fields", ()))


def _named(field: str, row: Callable[[str], Any], *more: int, **other: Any) -> _Requests:
    """Many topics in that field, a row for each."""

    def largest(sample: Any) -> Iterator[Largest]:
        for count in (*LOOKED_UP, *more):
            rows = tuple(row(topic(n)) for n in range(count))
            yield Largest(f"{count} topics", changed(sample, **{field: rows}, **other))

    return largest


def _k0(sample: Any) -> Iterator[Largest]:
    for size in (1_000_000, 20_000_000):
        data = (PartitionData("orders", 0, bytes(size)),)
        yield Largest(f"{size} bytes", changed(sample, transactional_id=None, partitions=data), 7)


def _k1(sample: Any) -> Iterator[Largest]:
    one = sample.partitions[0]
    for count in LOOKED_UP:
        parts = tuple(changed(one, topic=topic(n), topic_id=None) for n in range(count))
        request = changed(sample, partitions=parts, session_id=0, session_epoch=-1, max_wait_ms=1)
        yield Largest(f"{count} topics", request, 12)


def _k3(sample: Any) -> Iterator[Largest]:
    for count in (*LOOKED_UP, 4_990):
        queries = tuple(TopicQuery(topic(n), None) for n in range(count))
        yield Largest(f"{count} topics", changed(sample, topics=queries))
    yield Largest("all topics", changed(sample, topics=None))


def _commits(sample: Any) -> Iterator[Largest]:
    one = sample.offsets[0]
    for count in LOOKED_UP:
        offsets = tuple(changed(one, topic=topic(n), metadata="m" * 1_300) for n in range(count))
        yield Largest(f"{count} topics", changed(sample, offsets=offsets))
    wide = tuple(changed(one, partition=n) for n in range(4_990))
    yield Largest("4990 partitions", changed(sample, offsets=wide))
    for size in TEXT_SIZES:
        yield Largest(f"a group id of {size}", changed(sample, group_id="g" * size))


def _k9(sample: Any) -> Iterator[Largest]:
    one = sample.groups[0]
    for count in LOOKED_UP:
        wanted = tuple((topic(n), 0) for n in range(count))
        yield Largest(f"{count} topics", changed(sample, groups=(changed(one, partitions=wanted),)))
    for count in (500, 4_990):
        groups = tuple(changed(one, group_id=topic(n), partitions=None) for n in range(count))
        yield Largest(f"{count} groups", changed(sample, groups=groups))


def _k10(sample: Any) -> Iterator[Largest]:
    for count in (*LOOKED_UP, 4_990):
        keys = tuple(transactional_id(n) for n in range(count))
        yield Largest(f"{count} ids", changed(sample, key_type=1, keys=keys))


def _k36(sample: Any) -> Iterator[Largest]:
    for size in (0, TOKEN_BYTES_MAX, TOKEN_BYTES_MAX + 1):
        yield Largest(f"a token of {size}", changed(sample, token=bytes(size)))
    user, password = b"u" * (TOKEN_BYTES_MAX // 2), b"p" * (TOKEN_BYTES_MAX // 2 - 2)
    yield Largest("a long login", changed(sample, token=b"\0" + user + b"\0" + password))


def _k42(sample: Any) -> Iterator[Largest]:
    for count in (*LOOKED_UP, 4_990):
        yield Largest(f"{count} groups", changed(sample, group_ids=tuple(topic(n) for n in range(count))))


def _k47(sample: Any) -> Iterator[Largest]:
    for count in LOOKED_UP:
        wanted = tuple((topic(n), 0) for n in range(count))
        yield Largest(f"{count} topics", changed(sample, partitions=wanted))
    yield Largest("4990 partitions", changed(sample, partitions=tuple((topic(0), n) for n in range(4_990))))


def _k55(sample: Any) -> Iterator[Largest]:
    one = sample.topics[0]
    for count in (1, 100, 250):
        topics = tuple(changed(one, topic_name=topic(n)) for n in range(count))
        yield Largest(f"{count} topics", changed(sample, topics=topics))
    yield Largest(
        "10000 partitions", changed(sample, topics=(changed(one, partitions=tuple(range(10_000))),))
    )


def _k20021(sample: Any) -> Iterator[Largest]:
    yield Largest("64-bit numbers", changed(sample, at_least=2**63 - 1))
    yield Largest("a long command", changed(sample, command="c" * (JSON_BYTES_MAX - 1_000)))
    stopped = Stopped("e" * (JSON_BYTES_MAX - 1_000), 2**63 - 1, is_stopped=False)
    yield Largest("a long ensemble", changed(sample, command="import", stopped=stopped, dry_run=True))


def _k20037(sample: Any) -> Iterator[Largest]:
    for size in (FIELD_BYTES_MAX, FIELD_BYTES_MAX + 1, 15_000):
        text, raw = "t" * size, bytes(size)
        longest = {"cluster_id": text, "role": text, "nonce": raw}
        yield Largest(f"fields of {size}", changed(sample, **longest))
        yield Largest(f"a proof of {size}", changed(sample, **longest, proof=raw))


def _k20055(sample: Any) -> Iterator[Largest]:
    for node in (-(2**63), -1, 2**31, 2**63 - 1):
        yield Largest(f"node {node}", changed(sample, to=node))


def _k20057(sample: Any) -> Iterator[Largest]:
    for level in (-(2**63), -1, 2**15, 2**63 - 1):
        yield Largest(f"level {level}", changed(sample, log_level=level))


def _k18(sample: Any) -> Iterator[Largest]:
    yield Largest("long names", changed(sample, client_software_name="n" * 32_000), 3)


def _k19(sample: Any) -> Iterator[Largest]:
    for count, partitions in ((500, 4), (2_490, 1), (1, 2_000), (1, 10_000), (1, 2**31 - 1)):
        topics = tuple(NewTopic(topic(n), partitions, 1) for n in range(count))
        request = changed(sample, topics=topics, validate_only=False, timeout_ms=30_000)
        yield Largest(f"{count} topics of {partitions}", request)
    configs = (("retention.ms", "9" * 3_000),) * 1_000
    yield Largest("3 MB of configs", changed(sample, topics=(NewTopic("c", 1, 1, (), configs),)))
    assigned: Any = tuple((n, tuple(range(9))) for n in range(1_900))
    yield Largest("assignments", changed(sample, topics=(NewTopic("a", -1, -1, assigned),)))


def _k20(sample: Any) -> Iterator[Largest]:
    for count in LOOKED_UP:
        yield Largest(f"{count} names", changed(sample, names=tuple(topic(n) for n in range(count))))


def _k22(sample: Any) -> Iterator[Largest]:
    for size in TEXT_SIZES:
        yield Largest(f"an id of {size}", changed(sample, transactional_id="t" * size))
        yield Largest(f"a group id of {size}", changed(sample, member=MemberAssignment("g" * size, 1)))
    for count in (1, 1_000, 1_001, 9_990):
        wide = MemberAssignment("bill", 1, (TopicPartitions("orders", tuple(range(count))),), "m", "i")
        long = MemberAssignment("bill", 1, tuple(TopicPartitions(topic(n), (0,)) for n in range(count)))
        yield Largest(f"{count} assigned partitions", changed(sample, member=wide))
        yield Largest(f"{count} assigned topics", changed(sample, member=long))


def _k27(sample: Any) -> Iterator[Largest]:
    for count in (*MANY[:3], 5_001, 6_000):
        marker = sample.markers[0]
        markers = tuple(changed(marker, producer_id=n, topics=((topic(n), (0,)),)) for n in range(count))
        yield Largest(f"{count} markers", changed(sample, markers=markers))
    wide = ((topic(0), tuple(range(15_000))),)
    yield Largest("15000 partitions", changed(sample, markers=(changed(marker, topics=wide),)))


def _k30(sample: Any) -> Iterator[Largest]:
    for count in (1, 500, 501, 2_490):
        acls = tuple(Acl(2, 3, topic(n), "User:nobody", "*", 3, 3) for n in range(count))
        yield Largest(f"{count} ACLs", changed(sample, acls=acls))
    acl = Acl(2, 3, "n" * 30_000, "User:" + "p" * 30_000, "h" * 30_000, 3, 3)
    yield Largest("long texts", changed(sample, acls=(acl,)))


def _k31(sample: Any) -> Iterator[Largest]:
    for count in (1, 100, 1_000):
        filters = tuple(AclFilter(name=topic(n), principal="User:nobody") for n in range(count))
        yield Largest(f"{count} filters", changed(sample, filters=filters))


def _k20029(sample: Any) -> Iterator[Largest]:
    for size in (1, 400, 401, 60_000):
        after = AclChange(uuid.UUID(int=1), Acl(2, 3, "n" * size, "User:nobody", "*", 3, 3))
        yield Largest(f"a page behind a name of {size}", changed(sample, known=-1, after=after))
    largest = 2**63 - 1
    yield Largest("64-bit numbers", changed(sample, broker_id=largest, broker_epoch=largest, known=largest))


def _k32(sample: Any) -> Iterator[Largest]:
    for count in (1, 1_000, 1_001, 4_990):
        resources = tuple(ConfigResource(TOPIC_RESOURCE, topic(n), None) for n in range(count))
        yield Largest(f"{count} resources", changed(sample, resources=resources))
    keys = tuple(f"key.{n}" for n in range(4_990))
    yield Largest("4990 keys", changed(sample, resources=(ConfigResource(2, "orders", keys),)))


def _altered(sample: Any) -> Iterator[Largest]:
    for count in (1, 1_000, 1_001, 4_990):
        resources = tuple(ResourceChanges(TOPIC_RESOURCE, topic(n), ()) for n in range(count))
        yield Largest(f"{count} resources", changed(sample, resources=resources))
    for count in (2_500, 2_501, 4_990):
        changes = tuple(ConfigChange(f"key.{n}", "v" * 300) for n in range(count))
        one = ResourceChanges(TOPIC_RESOURCE, "orders", changes)
        yield Largest(f"{count} settings", changed(sample, resources=(one,)))


_k2 = _named("partitions", lambda name: OffsetQuery(name, 0, -1))
_k23 = _named("partitions", lambda name: EpochQuery(name, 0, 4, -1))
_k21 = _named("partitions", lambda name: RecordsToDelete(name, 0, -1))
_located = _named("topics", lambda name: (name, (0,)), 9_990)
_k61 = _named("topics", lambda name: (name, (0,)))
_k43 = _named("partitions", lambda name: (name, 0))
_k75 = _named("topics", lambda name: name, cursor=None)


def _k74(sample: Any) -> Iterator[Largest]:
    yield from (Largest(f"{count} types", changed(sample, types=(2,) * count)) for count in (1, 1_000))


def _k37(sample: Any) -> Iterator[Largest]:
    for count in LOOKED_UP:
        topics = tuple(NewPartitions(topic(n), 4, ((1,), (2,))) for n in range(min(count, 1_900)))
        yield Largest(f"{count} topics", changed(sample, topics=topics))
    assigned = (NewPartitions("orders", 2_000, ((1, 2, 3),) * 2_000),)
    yield Largest("2000 partitions with three replicas", changed(sample, topics=assigned))


def _k62(sample: Any) -> Iterator[Largest]:
    endpoints = tuple(Endpoint(f"E{n}", "h" * 255, 9092) for n in range(16))
    features = tuple(Feature(f"{'f' * 250}{n}", 0, 1) for n in range(100))
    request = changed(sample, broker_id=77, endpoints=endpoints, features=features)
    yield Largest("16 endpoints, 100 features", changed(request, incarnation_id=uuid.uuid4()))


def _k63(sample: Any) -> Iterator[Largest]:
    ends = tuple(PartitionReport(uuid.uuid4(), 2**31 - 1, 2**63 - 1) for _ in range(REPORTS_MAX))
    yield Largest(f"{REPORTS_MAX} reports", changed(sample, broker_id=77, reports=ends))


def _k65(sample: Any) -> Iterator[Largest]:
    for count in (*MANY[:3], 5_001, 9_990):
        ids = tuple(transactional_id(n) for n in range(count))
        yield Largest(f"{count} ids", changed(sample, transactional_ids=ids))


def _k66(sample: Any) -> Iterator[Largest]:
    numbers = tuple(range(19_000))
    yield Largest("19000 producer ids", changed(sample, producer_id_filters=numbers))
    yield Largest("a pattern", changed(sample, pattern="(a|b)*" * 166 + "c"))


def _k20024(sample: Any) -> Iterator[Largest]:
    for count in MANY[:3]:
        one = sample.announcements[0]
        many = tuple(changed(one, producer_id=n, topics=((topic(n), (0,)),)) for n in range(count))
        yield Largest(f"{count} announcements", changed(sample, announcements=many))


def _add_partitions(sample: Any) -> Iterator[Largest]:
    one = sample.transactions[0]
    kind = type(one.topics[0])
    for count, each in ((1, 10_000), (1, 15_000), (2_490, 1), (2_490, 4), (500, 20)):
        topics = tuple(kind(topic(n), tuple(range(each))) for n in range(count))
        alone = changed(one, transactional_id="transfers", topics=topics)
        for version in (3, 4):
            request = changed(sample, transactions=(alone,), batched=version >= 4)
            yield Largest(f"{count} topics of {each}", request, version)
    for count in (1_000, 5_000, 5_001, 6_600):
        for verify_only in (False, True):
            topics = (kind(topic(0), (0,)),)
            many = tuple(
                changed(one, transactional_id=transactional_id(n), topics=topics, verify_only=verify_only)
                for n in range(count)
            )
            title = f"{count} transactions{', to verify' if verify_only else ''}"
            yield Largest(title, changed(sample, transactions=many, batched=True), 4)


LONG: Final[dict[int, _Requests]] = {
    0: _k0,
    1: _k1,
    2: _k2,
    3: _k3,
    8: _commits,
    9: _k9,
    10: _k10,
    18: _k18,
    19: _k19,
    20: _k20,
    21: _k21,
    22: _k22,
    23: _k23,
    24: _add_partitions,
    27: _k27,
    28: _commits,
    30: _k30,
    31: _k31,
    32: _k32,
    33: _altered,
    35: _located,
    36: _k36,
    37: _k37,
    42: _k42,
    43: _k43,
    44: _altered,
    46: _located,
    47: _k47,
    55: _k55,
    61: _k61,
    62: _k62,
    63: _k63,
    65: _k65,
    66: _k66,
    74: _k74,
    75: _k75,
    20021: _k20021,
    20024: _k20024,
    20029: _k20029,
    20037: _k20037,
    20055: _k20055,
    20057: _k20057,
}
"""By API key, where it takes more than long texts and lists of the same."""
