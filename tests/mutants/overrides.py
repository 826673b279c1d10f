"""What is broken on purpose where a listener has settings of its own."""

from typing import Final

from tests.mutants.mutant import Mutant

READ: Final = "tests/settings/test_overrides.py::"
ROLE: Final = "tests/broker/test_role_listeners.py::test_each_has_what_is_its_own"
LOGINS: Final = "tests/wire/test_tls_logins.py::test_who_logs_in"

OVERRIDES: Final = (
    Mutant(
        "own-settings-passed-over",
        "what a listener has of its own is in the place of the rest",
        "settings/listener_config.py",
        "            object.__setattr__(found, each.setting, each.value)\n",
        "            pass\n",
        (READ + "test_it_is_in_the_place_of_the_rest_for_that_listener_alone",),
    ),
    Mutant(
        "own-settings-of-no-listener",
        "settings of a listener that is not there are refused",
        "settings/listener_config.py",
        "            each.listener in known,\n",
        "            True,\n",
        (READ + "test_anything_else_is_refused_by_name",),
    ),
    Mutant(
        "own-settings-unknown",
        "a setting that no listener has of its own is refused",
        "settings/overrides.py",
        "    if setting not in OWN:\n",
        "    if not setting:\n",
        (READ + "test_anything_else_is_refused_by_name",),
    ),
    Mutant(
        "own-certificates-left-out-of-safety",
        "a listener is authenticated by what it says itself of certificates",
        "settings/listener_config.py",
        'protocol == SSL and config.client_auth(listener.name) == "required")\n',
        'protocol == SSL and config.ssl_client_auth == "required")\n',
        (READ + "test_a_listener_is_authenticated_by_what_it_has_of_its_own",),
    ),
    Mutant(
        "own-secret-in-an-open-file",
        "a file with a secret of one listener is its owner's alone",
        "cli/node_config.py",
        "        if any(config.of(name).has_secrets for name in config.listeners_of_settings):\n",
        "        if config.has_secrets:\n",
        (READ + "test_a_file_with_a_listeners_own_secret_is_its_owners",),
    ),
    Mutant(
        "own-key-unused",
        "a listener shows its own key",
        "broker/listeners.py",
        "                    tls=credentials.tls_of[each.name],\n",
        "                    tls=credentials.tls,\n",
        (ROLE,),
    ),
    Mutant(
        "own-limits-unused",
        "a listener has its own limits",
        "broker/listeners.py",
        "                    limits=config.limits(each.name),\n",
        "                    limits=config.limits(),\n",
        (ROLE,),
    ),
    Mutant(
        "own-users-unused",
        "a listener has its own mechanisms and users",
        "settings/credentials.py",
        "        of = config.of(name)\n",
        "        of = config\n",
        (ROLE, READ + "test_keys_of_listeners_are_those_that_they_name_and_made_once"),
    ),
    Mutant(
        "own-certificates-unwanted-beside-a-login",
        "a listener of SASL_SSL asks for certificates where it says so",
        "broker/listeners.py",
        "                    client_auth=config.client_auth(each.name),\n",
        "",
        (ROLE,),
    ),
    Mutant(
        "certificates-beside-a-login-name-clients",
        "a certificate beside a login names no one",
        "wire/tls_handshake.py",
        "        if not self._is_named:\n",
        "        if False:\n",
        (LOGINS,),
    ),
    Mutant(
        "certificates-beside-every-login",
        "by SASL_SSL certificates are wanted only where that listener says so",
        "settings/listener_config.py",
        '        return found if is_own or not self.logs_in(listener_name) else "none"\n',
        "        return found\n",
        (READ + "test_by_sasl_ssl_a_certificate_is_shown_where_that_listener_says_so",),
    ),
    Mutant(
        "own-end-of-logins-of-a-mechanism-unused",
        "a mechanism may have its own end of logins",
        "wire/limits.py",
        "        return self.reauth_ms_by_mechanism.get(mechanism, self.reauth_ms_max)\n",
        "        return self.reauth_ms_max\n",
        (
            READ + "test_a_mechanism_of_a_listener_has_its_own_end_of_logins",
            "tests/wire/test_reauthentication.py::test_a_client_is_answered_how_long_its_login_counts",
        ),
    ),
)
