"""One step of a SASL login: what a request of a connection without a principal may be, and its response."""

from fencepost.wire.auth import SaslServer
from fencepost.wire.errors import IllegalSaslState
from fencepost.wire.k17_sasl_handshake import SASL_HANDSHAKE, SaslMechanisms
from fencepost.wire.k36_sasl_authenticate import SASL_AUTHENTICATE, SaslAuthenticated


def login_step(
    sasl: SaslServer, key: int, version: int, body: memoryview
) -> SaslMechanisms | SaslAuthenticated:
    """The response to a request with that API key.

    Raises   ApiError: the login failed, and the connection is to be closed. CorruptData.
    """
    if key == SASL_HANDSHAKE.key:
        return sasl.handshake(SASL_HANDSHAKE.decode_request(version, body))
    if key == SASL_AUTHENTICATE.key:
        token = sasl.authenticate(SASL_AUTHENTICATE.decode_request(version, body).token)
        return SaslAuthenticated(token, sasl.lifetime_ms)
    raise IllegalSaslState("authenticate first: this listener wants SASL")
