"""Unpacks a tar.gz atomically, with a list of checksums by which it can be verified later."""

import shutil
import tarfile
from pathlib import Path

from enrich.jars.fetch import sha256_of

_SUMS = "SHA256SUMS"


def unpack(source: Path, scratch: Path, target: Path) -> None:
    """Unpacks `source` into `scratch` and moves that to `target`, which it replaces."""
    with tarfile.open(source) as tar:
        # The filter `data` refuses paths that lead outside. Python before 3.11.4 does not have it; there the archive's
        # checksum, which was verified before, must be enough.
        tar.extraction_filter = getattr(tarfile, "data_filter", lambda member, _: member)
        tar.extractall(scratch)  # noqa: S202 - see above
    files = sorted(path for path in scratch.rglob("*") if path.is_file())
    sums = "".join(f"{sha256_of(path)}  {path.relative_to(scratch)}\n" for path in files)
    (scratch / _SUMS).write_text(sums, encoding="utf-8")
    if target.exists():
        # A server that runs from the old folder keeps its open files; the name becomes free for the new one.
        target.replace(scratch.with_name("replaced"))
        shutil.rmtree(scratch.with_name("replaced"), ignore_errors=True)
    target.parent.mkdir(parents=True, exist_ok=True)
    scratch.replace(target)


def is_whole(target: Path) -> bool:
    """Whether every unpacked file still has its checksum."""
    try:
        lines = (target / _SUMS).read_text(encoding="utf-8").splitlines()
    except (FileNotFoundError, NotADirectoryError, UnicodeDecodeError):
        return False
    pairs = [line.partition("  ") for line in lines]
    return bool(pairs) and all(sha256_of(target / name) == sha256 for sha256, _, name in pairs)
