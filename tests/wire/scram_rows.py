"""Rows of DescribeClientQuotas, and of the APIs about users' SCRAM credentials."""

from typing import Any

from fencepost.controller import scram_types as s
from fencepost.wire import k48_describe_client_quotas as k48
from fencepost.wire import k50_describe_user_scram_credentials as k50
from fencepost.wire import k51_alter_user_scram_credentials as k51
from tests.wire.row import Row, everything


def _flat_alter(version: int, entity: Any) -> s.AlterScram:
    return s.AlterScram(
        tuple(s.ScramDeletion(each.name, each.mechanism) for each in entity.deletions),
        tuple(
            s.ScramUpsertion(each.name, each.mechanism, each.iterations, each.salt, each.salted_password)
            for each in entity.upsertions
        ),
    )


def _flat_described(version: int, entity: Any) -> s.DescribeScramAnswer:
    return s.DescribeScramAnswer(
        tuple(
            s.UserDescribed(
                each.user,
                tuple((one.mechanism, one.iterations) for one in each.credential_infos),
                each.error_code.value,
                each.error_message,
            )
            for each in entity.results
        )
    )


SCRAM_ROWS = [
    Row(
        k48.DESCRIBE_CLIENT_QUOTAS,
        k48.DescribeClientQuotas((k48.QuotaComponent("user", 0, "alice"), k48.QuotaComponent("ip", 1)), True),
        k48.NO_QUOTAS,
        everything,
        everything,
        lambda version, entity: k48.DescribeClientQuotas(
            tuple(
                k48.QuotaComponent(each.entity_type, each.match_type, each.match)
                for each in entity.components
            ),
            entity.strict,
        ),
        lambda version, entity: k48.NO_QUOTAS,
    ),
    Row(
        k50.DESCRIBE_USER_SCRAM_CREDENTIALS,
        s.DescribeScram(("alice", "bob")),
        s.DescribeScramAnswer(
            (
                s.UserDescribed("alice", ((1, 4096), (2, 8192))),
                s.UserDescribed("bob", (), 91, "no"),
            )
        ),
        everything,
        everything,
        lambda version, entity: s.DescribeScram(tuple(each.name for each in entity.users)),
        _flat_described,
    ),
    Row(
        k51.ALTER_USER_SCRAM_CREDENTIALS,
        s.AlterScram((s.ScramDeletion("bob", 1),), (s.ScramUpsertion("alice", 2, 8192, b"salt", b"salted"),)),
        s.AlterScramAnswer((s.UserAltered("bob", 91, "no"), s.UserAltered("alice"))),
        everything,
        everything,
        _flat_alter,
        lambda version, entity: s.AlterScramAnswer(
            tuple(
                s.UserAltered(each.user, each.error_code.value, each.error_message) for each in entity.results
            )
        ),
    ),
]
