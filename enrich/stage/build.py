"""Which files of ours a process runs: a stage's driver and its workers must run the same ones."""

import hashlib
from functools import cache
from pathlib import Path

_PACKAGES = ("enrich", "stores")
_ROOT = Path(__file__).resolve().parents[2]


@cache
def build() -> str | None:
    """A digest of them, as they were when it was first asked for. None if they are no files, as in a zip archive."""
    if not Path(__file__).is_file():
        return None
    digest = hashlib.sha256()
    for package in _PACKAGES:
        for path in sorted((_ROOT / package).rglob("*.py")):
            content = path.read_bytes()
            digest.update(f"{path.relative_to(_ROOT).as_posix()} {len(content)}\n".encode() + content)
    return digest.hexdigest()[:16]
