"""A node's configuration from environment variables, named as apache/kafka's image names them.

Names       ``KAFKA_`` and the setting's name in capitals, in which ``_`` stands for
            ``.``, ``__`` for ``_`` and ``___`` for ``-``.
Passed over what is meant for a JVM, and the links that Kubernetes adds for a service whose name begins with
            kafka. What else is no setting is an error.
"""

import re
from collections.abc import Mapping
from dataclasses import fields
from pathlib import Path
from typing import Final

from fencepost.settings.config import NodeConfig
from fencepost.settings.properties import Pair, config_of

PREFIX: Final = "KAFKA_"

_OF_A_JVM: Final = re.compile(
    r"KAFKA_(VERSION|OPTS|HEAP_OPTS|JVM_PERFORMANCE_OPTS|GC_LOG_OPTS|JMX_\w+|(TOOLS_)?LOG4J_\w+|DEBUG\w*)"
)
_OF_KUBERNETES: Final = re.compile(
    r"KAFKA_(\w+_)?(SERVICE_HOST|SERVICE_PORT(_\w+)?|PORT(_\d+_(TCP|UDP|SCTP)(_(PROTO|PORT|ADDR))?)?)"
)
_SIGNS: Final = {"___": "-", "__": "_", "_": "."}
SETTINGS: Final = frozenset(each.metadata["key"] for each in fields(NodeConfig))
NAME: Final = f"the variables {PREFIX}*"


def setting_of(variable: str) -> str:
    """The name of the setting that a ``KAFKA_`` variable gives."""
    name = variable.removeprefix(PREFIX).lower()
    return re.sub(r"_{1,3}", lambda found: _SIGNS[found[0]], name)


def read_environment(environment: Mapping[str, str]) -> NodeConfig:
    """The configuration that the variables give; relative paths are of the current folder.

    Raises ConfigError.
    """
    variables = [each for each in environment if each.startswith(PREFIX) and not _is_passed_over(each)]
    pairs = [Pair(each, setting_of(each), environment[each].strip()) for each in variables]
    return config_of(pairs, NAME, Path.cwd())


def _is_passed_over(variable: str) -> bool:
    if setting_of(variable) in SETTINGS:
        return False
    return any(each.fullmatch(variable) is not None for each in (_OF_A_JVM, _OF_KUBERNETES))
