"""Files that settings name: read once, whole, bounded, and refused where others may read a secret.

Why   a password or the cluster's secret in a file of mode 0644 can be read by every user of the machine.
      Refusing at the start is the one moment at which an operator looks.
"""

import os
import stat
from pathlib import Path
from typing import Final

SETTING_FILE_BYTES_MAX: Final = 1024 * 1024
OTHERS: Final = stat.S_IRWXG | stat.S_IRWXO


class SettingFileError(ValueError):
    """The file cannot be used. Says the setting, the file, and what to do; no secret."""


def read_setting_file(setting: str, file: Path, *, is_secret: bool) -> str:
    """The file's text. Raises SettingFileError."""
    named = f"{setting}={file}"
    try:
        with file.open("rb") as stream:
            if is_secret:
                _require_private(named, file, os.fstat(stream.fileno()))
            content = stream.read(SETTING_FILE_BYTES_MAX + 1)
        if len(content) > SETTING_FILE_BYTES_MAX:
            raise SettingFileError(f"{named}: it is larger than {SETTING_FILE_BYTES_MAX} bytes")
        return content.decode("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise SettingFileError(f"{named}: cannot be read: {error}") from error


def require_private(setting: str, file: Path) -> None:
    """For a secret that another program reads, such as a key. Raises SettingFileError."""
    try:
        _require_private(f"{setting}={file}", file, file.stat())
    except OSError as error:
        raise SettingFileError(f"{setting}={file}: cannot be read: {error}") from error


def _require_private(named: str, file: Path, status: os.stat_result) -> None:
    mode = stat.S_IMODE(status.st_mode)
    if mode & OTHERS:
        raise SettingFileError(
            f"{named}: it holds a secret, and others than its owner may use it (mode {mode:04o}); "
            f"type: chmod 600 {file}"
        )
