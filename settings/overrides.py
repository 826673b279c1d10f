"""What a listener has of its own: ``listener.name.LISTENER.SETTING``, in the place of SETTING.

Names       the listener's in lower case, as Kafka looks for it; ``MECHANISM.`` before the setting, in lower
            case, too, counts for logins by that mechanism alone.
Settings    those that Kafka reads by listener and that are served here, and the file of users, which is in
            the place of Kafka's ``sasl.jaas.config``. Kafka passes over any other one; here it is an error.
Source      Kafka ListenerName, AbstractConfig.valuesWithPrefixOverride, SaslChannelBuilder.
"""

from typing import Any, Final, NamedTuple

from fencepost.wire.scram import SCRAM_MECHANISMS

PREFIX: Final = "listener.name."
REAUTH: Final = "connections.max.reauth.ms"
OWN: Final = frozenset(
    (
        "ssl.keystore.type",
        "ssl.keystore.location",
        "ssl.keystore.key",
        "ssl.keystore.certificate.chain",
        "ssl.key.password",
        "ssl.truststore.type",
        "ssl.truststore.location",
        "ssl.truststore.certificates",
        "ssl.client.auth",
        "ssl.endpoint.identification.algorithm",
        "ssl.principal.mapping.rules",
        "sasl.enabled.mechanisms",
        "sasl.plain.users.file",
        REAUTH,
        "max.connections",
    )
)
"""The settings that a listener may have of its own."""

_MECHANISMS: Final = {each.lower(): each for each in ("PLAIN", *SCRAM_MECHANISMS)}


class Override(NamedTuple):
    """``setting`` is the name of the configuration's field. ``mechanism``: empty where it is for all."""

    listener: str
    mechanism: str
    setting: str
    value: Any

    @property
    def prefix(self) -> str:
        """What stands before the setting's name in a file."""
        mechanism = f"{self.mechanism.lower()}." if self.mechanism else ""
        return f"{PREFIX}{self.listener.lower()}.{mechanism}"


def parse_prefixed(key: str) -> tuple[str, str, str]:
    """(listener, mechanism, key without them). Raises ValueError: why there is no such setting."""
    name, dot, setting = key.removeprefix(PREFIX).partition(".")
    if not dot or name != name.lower():
        raise ValueError(f"expected {PREFIX}LISTENER.SETTING, the listener's name in lower case")
    first, _, rest = setting.partition(".")
    mechanism = _MECHANISMS.get(first, "")
    if mechanism and rest != REAUTH:
        raise ValueError(f"a mechanism of a listener has {REAUTH} of its own, no other setting")
    setting = rest if mechanism else setting
    if setting not in OWN:
        raise ValueError(f"{setting} is no setting that a listener has of its own: {', '.join(sorted(OWN))}")
    return name.upper(), mechanism, setting
