"""The cache of Java archives: every call verifies the files that it returns, and fetches missing or damaged ones."""

import errno
import fcntl
import logging
import os
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

from enrich.base.errors import ConfigError, Fatal, Unreachable
from enrich.jars import archive
from enrich.jars.fetch import MAVEN_CENTRAL, Report, fetch, sha256_of
from enrich.jars.lock import Artifact, read_lock

_FETCHING = "fetching-"  # prefix of the folders of downloads under way; a killed process may leave one

log = logging.getLogger(__name__)


def cache_folder() -> Path:
    """`$XDG_CACHE_HOME/enrich/jars`, by default `~/.cache/enrich/jars`."""
    base = os.environ.get("XDG_CACHE_HOME", "")
    # The XDG specification says that a relative path is invalid and must be ignored.
    root = Path(base) if Path(base).is_absolute() else Path.home() / ".cache"
    return root / "enrich" / "jars"


class JarCache:
    """Files by coordinate in one folder. Each call of `paths` verifies the files that it returns."""

    def __init__(self, folder: Path, artifacts: Sequence[Artifact], repository: str = MAVEN_CENTRAL) -> None:
        self._folder = folder
        self._artifacts = artifacts
        self._repository = repository

    def paths(self, set_name: str, report: Report | None = None) -> list[Path]:
        """The files of one set, fetched if necessary.

        Raises Unreachable (not cached, and no network), ConfigError (no package requests, the cache cannot be written)
        or Fatal (wrong checksum of a download, disk full).
        """
        wanted = [artifact for artifact in self._artifacts if artifact.set_name == set_name]
        if not wanted:
            raise ValueError(f"no such set of Java archives: {set_name}")
        self._make_whole(wanted, report)
        return [self._folder / artifact.path for artifact in wanted]

    def unpacked(self, set_name: str, report: Report | None = None) -> Path:
        """The folder with the unpacked content of a set that is a single tar.gz."""
        (artifact,) = (artifact for artifact in self._artifacts if artifact.set_name == set_name)
        target = self._folder / "unpacked" / f"{artifact.name}-{artifact.version}-{artifact.sha256[:12]}"
        if not archive.is_whole(target):
            (source,) = self.paths(set_name, report)
            with self._writing():
                if not archive.is_whole(target):
                    if target.exists():
                        log.warning("the unpacked %s is damaged; unpacking it again", artifact.file_name)
                    with self._temporary_folder() as folder:
                        archive.unpack(source, Path(folder, "content"), target)
        return target

    def fetch_all(self, report: Report | None = None) -> None:
        """Fetches the missing or damaged files of all sets together."""
        self._make_whole(self._artifacts, report)

    def _make_whole(self, wanted: Sequence[Artifact], report: Report | None) -> None:
        if not self._bad(wanted):
            return
        with self._writing():
            # Checked again: another process may have fetched them while this one waited for the lock.
            bad = self._bad(wanted)
            for artifact in bad:
                if (self._folder / artifact.path).exists():
                    log.warning("%s has a wrong checksum in the cache; fetching it again", artifact.file_name)
            if bad:
                self._fetch(bad, report)

    def _bad(self, wanted: Sequence[Artifact]) -> list[Artifact]:
        def is_bad(artifact: Artifact) -> bool:
            return sha256_of(self._folder / artifact.path) != artifact.sha256

        with ThreadPoolExecutor(os.cpu_count()) as pool:  # hashing releases the GIL
            return [artifact for artifact, bad in zip(wanted, pool.map(is_bad, wanted), strict=True) if bad]

    def _fetch(self, bad: Sequence[Artifact], report: Report | None) -> None:
        with self._temporary_folder() as folder:
            left = list(bad)
            try:
                # Moved one by one, so that an interrupted fetch continues from there the next time.
                for artifact, path in fetch(bad, Path(folder), report, self._repository):
                    target = self._folder / artifact.path
                    target.parent.mkdir(parents=True, exist_ok=True)
                    path.replace(target)
                    left.remove(artifact)
            except Unreachable as error:
                raise self._unreachable(left, error) from error

    def _unreachable(self, bad: Sequence[Artifact], error: Unreachable) -> Unreachable:
        names = [artifact.coordinate for artifact in bad]
        some = ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")
        count = "1 Java archive is" if len(names) == 1 else f"{len(names)} Java archives are"
        return Unreachable(
            f"{count} not in the cache and could not be fetched: {some}; {error.what}",
            where=f"sought in {self._folder}, then on Maven Central",
            next_step="run `python -m enrich.jars` once with a network (HTTPS_PROXY is obeyed), or copy that folder"
            " from a machine that has it",
        )

    @contextmanager
    def _writing(self) -> Iterator[None]:
        """One process writes at a time. The kernel frees the lock of a process that was killed."""
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            with (self._folder / "lock").open("a") as lock:
                fcntl.flock(lock, fcntl.LOCK_EX)
                for left in self._folder.glob(f"{_FETCHING}*"):
                    shutil.rmtree(left, ignore_errors=True)
                yield
        except OSError as error:
            raise _cannot_write(self._folder, error) from error

    def _temporary_folder(self) -> "tempfile.TemporaryDirectory[str]":
        return tempfile.TemporaryDirectory(prefix=_FETCHING, dir=self._folder)


def _cannot_write(folder: Path, error: OSError) -> ConfigError | Fatal:
    if error.errno == errno.ENOSPC:
        return Fatal("the disk is full", where=f"cache of Java archives, {folder}", next_step="free some space")
    return ConfigError(
        f"the cache of Java archives cannot be written: {error.strerror}",
        where=str(error.filename or folder),
        next_step="make it writable, or set XDG_CACHE_HOME to another folder",
    )


def jars(set_name: str, report: Report | None = None) -> list[Path]:
    """The files of a set (`kafka`, `spark`, `registry`) in the user's cache, verified, fetched if necessary."""
    return user_cache().paths(set_name, report)


def unpacked(set_name: str, report: Report | None = None) -> Path:
    """The folder of a set that is an archive (`registry`), unpacked in the user's cache and verified."""
    return user_cache().unpacked(set_name, report)


def user_cache() -> JarCache:
    return JarCache(cache_folder(), read_lock())
