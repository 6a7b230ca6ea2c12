"""The archive that a cluster needs to run stages: this environment's Python packages, relocatable, in one file.

Spark unpacks it beside each executor: `--archives FILE#environment`. Spark itself is left out: the cluster has it and
puts it on the workers' path. The archive contains the Python interpreter's program, as `venv --copies` makes it, but
not the standard library.
"""

import errno
import importlib.util
import io
import os
import re
import sys
import tarfile
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from pathlib import Path
from typing import IO

from enrich.base.errors import ConfigError, Fatal

_OURS = ("enrich", "stores", "jobs", "sync_service", "edge_service", "observe_service")
_SPARKS = frozenset({"pyspark", "py4j"})
_LEVEL = 1
"""gzip's level: six times as fast as the default, for a file a tenth larger."""
_LIB = f"lib/python{sys.version_info.major}.{sys.version_info.minor}/site-packages"
_ELSEWHERE = "choose another place with --output"
_SCRIPT = '#!/bin/sh\nexec "$(dirname "$0")/python" -m enrich "$@"\n'

Progress = Callable[[int, int], None]
"""Called with the bytes that are done, and all bytes."""


@dataclass(frozen=True)
class Packed:
    """A complete archive."""

    path: Path
    files: int
    packages: int
    python: str


def package(
    target: Path, python: str | None = None, report: Progress = lambda _done, _all: None, level: int = _LEVEL
) -> Packed:
    """Writes the archive, which replaces an existing one when it is complete. `python`: the path of the interpreter on
    the hosts, of the same version as this one. `level`: of gzip. Raises ConfigError for a wrong name or path, and Fatal
    if an installed package is broken or the disk is full."""
    # Spark unpacks each kind in its own way; .tar and .zip lose the executable bits.
    if not target.name.endswith((".tar.gz", ".tgz")):
        raise ConfigError("the archive's name must end in .tar.gz or .tgz", where=str(target))
    folder = target.absolute().parent
    if not folder.is_dir():
        raise ConfigError("there is no such folder", where=str(folder))
    if target.is_dir():
        raise ConfigError("this is a folder, not a file", where=str(target), next_step=_ELSEWHERE)
    interpreter = Path(python) if python else _own_interpreter()
    if not interpreter.is_absolute():
        raise ConfigError(
            "the interpreter's path must be absolute", where="--python", next_step="for example /usr/bin/python3.11"
        )
    packages = _needed()
    files = [*_files_of(packages), *_our_files()]
    whole = sum(source.stat().st_size for source, _ in files)
    with (
        _disk_errors(target),
        _replacing(target) as out,
        tarfile.open(fileobj=out, mode="w:gz", compresslevel=level) as archive,
    ):
        _add_environment(archive, interpreter)
        done = 0
        for source, name in files:
            archive.add(source, f"{_LIB}/{name}", recursive=False, filter=_nobodys)
            done += source.stat().st_size
            report(done, whole)
    return Packed(target, len(files), len(packages), str(interpreter))


@contextmanager
def _disk_errors(target: Path) -> Iterator[None]:
    """Maps the system's errors to errors for people."""
    folder = target.absolute().parent
    try:
        yield
    except OSError as error:
        why = error.strerror or str(error)
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise Fatal("the disk is full", where=str(folder), next_step=f"free some space, or {_ELSEWHERE}") from error
        if error.filename is not None and Path(error.filename).parent != folder:
            raise Fatal(f"a file to pack cannot be read: {why}", where=str(error.filename)) from error
        what = f"the archive cannot be written: {why}"
        raise ConfigError(what, where=str(target.absolute()), next_step=_ELSEWHERE) from error


@contextmanager
def _replacing(target: Path) -> Iterator[IO[bytes]]:
    """A temporary file that replaces the target when the block is done. If the block fails it is deleted."""
    handle, name = tempfile.mkstemp(prefix=f".{target.name}.", dir=target.absolute().parent)
    part = Path(name)
    try:
        with os.fdopen(handle, "wb") as out:
            yield out
            out.flush()
            os.fsync(out.fileno())
        part.chmod(0o644)
        part.replace(target)
    except BaseException:
        part.unlink()
        raise


def _needed() -> list[Distribution]:
    """The installed packages that `enrich` depends on, directly or indirectly."""
    found: dict[str, Distribution] = {}
    wanted: list[tuple[str, frozenset[str]]] = [("enrich", frozenset())]
    asked = set()
    while wanted:
        name, extras = wanted.pop()
        key = _normal(name)
        if (key, extras) in asked or key in _SPARKS:
            continue
        asked.add((key, extras))
        try:
            package = distribution(name)
        except PackageNotFoundError:
            continue  # for another platform or version of Python
        found[key] = package
        for text in package.requires or []:
            match = re.match(r"([\w.-]+)\s*(?:\[([^\]]*)\])?", text)
            extra = re.search(r"extra\s*==\s*['\"]([^'\"]+)", text)
            if match is not None and (extra is None or _normal(extra[1]) in extras):
                wanted.append((match[1], frozenset(_normal(one) for one in (match[2] or "").split(",") if one)))
    return [found[key] for key in sorted(found)]


def _normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name.strip()).lower()


def _files_of(packages: list[Distribution]) -> Iterator[tuple[Path, str]]:
    for package in packages:
        is_ours = _normal(package.name) == "enrich"
        for file in package.files or []:
            name = file.as_posix()
            # Skipped: scripts of packages, which name this environment's interpreter, and our own files, which may be
            # links to the sources: see `_our_files`.
            if name.startswith("..") or (is_ours and not name.endswith("/METADATA")):
                continue
            source = Path(str(file.locate()))
            if source.is_file():
                yield source, name
            elif not name.endswith(".pyc"):
                raise Fatal(
                    f"a file of the package {package.name} is missing",
                    where=str(source),
                    next_step="install it again, then run `enrich package` once more",
                )


def _our_files() -> Iterator[tuple[Path, str]]:
    for name in _OURS:
        spec = importlib.util.find_spec(name)
        if spec is None or spec.origin is None:
            raise Fatal(f"the package {name} is not installed")
        folder = Path(spec.origin).parent
        for source in sorted(folder.rglob("*")):
            if source.is_file() and "__pycache__" not in source.parts:
                yield source, f"{name}/{source.relative_to(folder).as_posix()}"


def _own_interpreter() -> Path:
    return Path(getattr(sys, "_base_executable", sys.executable)).resolve()


def _nobodys(info: tarfile.TarInfo) -> tarfile.TarInfo:
    info.uid = info.gid = 0
    info.uname = info.gname = ""
    return info


def _add_environment(archive: tarfile.TarFile, interpreter: Path) -> None:
    """The files that make a folder a virtual environment: Python looks for `pyvenv.cfg` above its own program."""
    # A copy, not a link: some programs that unpack archives refuse links that lead out of them.
    archive.add(_own_interpreter(), "bin/python", filter=_nobodys)
    version = ".".join(map(str, sys.version_info[:3]))
    settings = f"home = {interpreter.parent}\ninclude-system-site-packages = false\nversion = {version}\n"
    for name, text, mode in (("bin/enrich", _SCRIPT, 0o755), ("pyvenv.cfg", settings, 0o644)):
        info = tarfile.TarInfo(name)
        info.size, info.mode = len(text), mode
        archive.addfile(info, io.BytesIO(text.encode()))
