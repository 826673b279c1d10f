"""Files with secrets, as a node wants them."""

from pathlib import Path


def write_secret(file: Path, text: str) -> Path:
    """Write it so that only its owner may read it."""
    file.touch(mode=0o600)
    file.chmod(0o600)
    file.write_text(text)
    return file
