"""What is broken on purpose where nodes are containers: their variables, and what probes are answered."""

from typing import Final

from tests.mutants.mutant import Mutant

ENVIRONMENT: Final = "tests/settings/test_environment.py::"
READINESS: Final = "tests/node/test_readiness.py::"
METRICS_PORT: Final = "tests/node/test_metrics_port.py::"

CONTAINERS: Final = (
    Mutant(
        "ready-while-fenced",
        "a fenced broker says that no clients are to be sent to it",
        "node/readiness.py",
        "        if self.broker is not None and self.broker.is_fenced:\n",
        "        if False:\n",
        (READINESS + "test_a_node_is_ready_from_when_its_broker_is_let_in_until_it_ends",),
    ),
    Mutant(
        "probed-ready-as-live",
        "/readyz is answered by whether clients may come",
        "node/metrics_port.py",
        '        reason = self._port.why_not_ready() if path == READY else ""\n',
        '        reason = ""\n',
        (METRICS_PORT + "test_probes_are_answered_on_the_same_connection",),
    ),
    Mutant(
        "variables-of-a-service-refused",
        "what Kubernetes adds for a service named kafka is no setting",
        "settings/environment.py",
        "for each in (_OF_A_JVM, _OF_KUBERNETES))",
        "for each in (_OF_A_JVM,))",
        (ENVIRONMENT + "test_the_variables_are_a_node_and_its_file",),
    ),
    Mutant(
        "metrics-port-taken-for-a-service",
        "a variable that names a setting is one, whatever it looks like",
        "settings/environment.py",
        "    if setting_of(variable) in SETTINGS:\n        return False\n",
        "",
        (ENVIRONMENT + "test_the_variables_are_a_node_and_its_file",),
    ),
    Mutant(
        "container-file-not-read-back",
        "a container's file holds what its variables say",
        "cli/container.py",
        "        if read_config(file) != config:\n",
        "        if False:\n",
        ("tests/cli/test_container.py::test_what_a_container_lacks_is_named",),
    ),
)
