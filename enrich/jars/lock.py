"""The lock file: one line `sha256  set  group:artifact:version[:classifier:type]` for each artifact, no addresses."""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from enrich.base.errors import ConfigError

LOCK_FILE = Path(__file__).with_name("jars.lock")

_HEADER = """\
# Java archives of enrich: sha256  set  group:artifact:version[:classifier:type]
# Written by `{command}` from the coordinates in {source}.
"""
_SHA256 = re.compile(r"[0-9a-f]{64}")
# A part of a coordinate. It becomes a part of a path in the cache, so it has no slash and no leading dot.
_PART = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9._-]*")


@dataclass(frozen=True, order=True)
class Artifact:
    """One file on Maven Central, with the checksum that it must have."""

    set_name: str
    group: str
    name: str
    version: str
    classifier: str
    type: str
    sha256: str

    @property
    def coordinate(self) -> str:
        short = f"{self.group}:{self.name}:{self.version}"
        return short if (self.classifier, self.type) == ("", "jar") else f"{short}:{self.classifier}:{self.type}"

    @property
    def file_name(self) -> str:
        classifier = f"-{self.classifier}" if self.classifier else ""
        return f"{self.name}-{self.version}{classifier}.{self.type}"

    @property
    def path(self) -> Path:
        """Its path in a cache, in Maven's own layout, so that two groups never share a file name."""
        return Path(*self.group.split("."), self.name, self.version, self.file_name)


def read_lock(path: Path = LOCK_FILE) -> tuple[Artifact, ...]:
    """All artifacts of a lock file. Raises ConfigError with the file and line that cannot be read."""
    lines = path.read_text(encoding="utf-8").splitlines()
    return tuple(
        _parse(line, f"{path.name}:{number}")
        for number, line in enumerate(lines, start=1)
        if line.strip() and not line.startswith("#")
    )


def write_lock(
    artifacts: Iterable[Artifact],
    path: Path = LOCK_FILE,
    *,
    command: str = "python -m enrich.jars --lock",
    source: str = "enrich/jars/relock.py",
) -> None:
    lines = [f"{a.sha256}  {a.set_name}  {a.coordinate}\n" for a in sorted(set(artifacts))]
    path.write_text(_HEADER.format(command=command, source=source) + "".join(lines), encoding="utf-8")


def parse_coordinate(text: str, *, set_name: str, sha256: str = "") -> Artifact:
    """`group:artifact:version[:classifier:type]` as an Artifact. Raises ValueError."""
    parts = text.split(":")
    if len(parts) == 3:
        parts += ["", "jar"]
    group, name, version, classifier, kind = parts
    needed = (*group.split("."), name, version, kind, *([classifier] if classifier else []))
    if not all(_PART.fullmatch(part) for part in needed):
        raise ValueError(f"not a coordinate: {text}")
    return Artifact(set_name, group, name, version, classifier, kind, sha256)


def _parse(line: str, where: str) -> Artifact:
    try:
        sha256, set_name, coordinate = line.split()
        if not _SHA256.fullmatch(sha256):
            raise ValueError(f"not a SHA-256: {sha256}")
        return parse_coordinate(coordinate, set_name=set_name, sha256=sha256)
    except ValueError as error:
        raise ConfigError(
            f"a line of the lock of Java archives cannot be read: {line!r}",
            where=where,
            next_step="each line is `sha256  set  group:artifact:version[:classifier:type]`; reinstall enrich",
        ) from error
