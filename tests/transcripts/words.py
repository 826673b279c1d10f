"""Entries and answers in words."""

from fencepost.controller.errors import ApiError
from fencepost.controller.producer_ids import ProducerIdBlock
from fencepost.records.control import KRaftVersion, LeaderChange, Voters
from fencepost.records.entry import Entry, decode_records
from fencepost.records.schema import (
    AllocateProducerIdsRecord,
    BrokerRegistrationChangeRecord,
    FeatureLevelRecord,
    RegisterBrokerRecord,
    UnregisterBrokerRecord,
)

TOLD = {
    "NotController": "not leader, nothing was done",
    "RequestTimedOut": "unknown",
    "StaleBrokerEpoch": "stale broker epoch",
}


def answer(told: object) -> str:
    """What a client hears."""
    if isinstance(told, ApiError):
        return TOLD.get(type(told).__name__, type(told).__name__)
    if isinstance(told, ProducerIdBlock):
        return f"[{told.first}, {told.first + told.length})"
    return str(told)


def contents(entry: Entry) -> str:
    """What an entry says."""
    records = [record for batch in decode_records(entry) for record in batch.records]
    said = [said for record in records if (said := record_words(record))]
    return "; ".join(said) if said else "nothing, so that answers may leave"


def record_words(record: object) -> str:
    """What a record says; nothing for what only accompanies another."""
    match record:
        case AllocateProducerIdsRecord():
            return f"ids below {record.producer_id_end} are given out, to broker {record.broker_id}"
        case RegisterBrokerRecord():
            return f"broker {record.broker_id} is registered"
        case UnregisterBrokerRecord():
            return f"broker {record.broker_id} is gone"
        case BrokerRegistrationChangeRecord(fenced=1):
            return f"broker {record.broker_id} is fenced"
        case BrokerRegistrationChangeRecord(fenced=-1):
            return f"broker {record.broker_id} is unfenced"
        case LeaderChange():
            return f"n{record.leader_id} is the controller"
        case Voters():
            voters = ", ".join(f"n{voter.voter_id}" for voter in record.voters)
            return f"the voters are {voters}"
        case FeatureLevelRecord():
            return f"{record.name} is {record.feature_level}"
        case KRaftVersion():
            return ""
        case _:
            return type(record).__name__
