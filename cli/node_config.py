"""A node's properties file, read for a command."""

from pathlib import Path

from fencepost.cluster.console import Unreadable, WrongUsage
from fencepost.records.named_errors import why
from fencepost.settings.config import ConfigError, NodeConfig
from fencepost.settings.properties import parse_properties
from fencepost.wire.setting_files import SettingFileError, require_private


def read_config(file: Path) -> NodeConfig:
    """Read a node's properties file. Raises WrongUsage or Unreadable."""
    try:
        config = parse_properties(file.read_text("utf-8"), file.absolute())
        if any(config.of(name).has_secrets for name in config.listeners_of_settings):
            require_private("--config", file)
        return config
    except SettingFileError as error:
        raise Unreadable(str(error)) from error
    except ConfigError as error:
        raise WrongUsage(str(error)) from error
    except (OSError, UnicodeDecodeError) as error:
        raise Unreadable(f"{file}: {why(error)}") from error
