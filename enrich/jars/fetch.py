"""Downloads artifacts with jgo (a Maven resolver in Python) into a folder, a few at a time, and verifies them."""

import hashlib
import queue
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from enrich.base.errors import ConfigError, EnrichError, Fatal, Unreachable
from enrich.jars.lock import Artifact

if TYPE_CHECKING:
    from jgo.maven import MavenContext

_THREADS = 4  # most archives are small: their two round trips each take most of the time
_ATTEMPTS = 2  # one transient error among a hundred requests is common
_CHUNK = 1 << 20


@dataclass(frozen=True)
class Progress:
    """Progress of a download. `done` counts files, with fractions."""

    files: int
    done: float
    received: int


Report = Callable[[Progress], None]


def sha256_of(path: Path) -> str | None:
    """The checksum of a file; None if it cannot be read."""
    digest = hashlib.sha256()
    try:
        with path.open("rb", buffering=0) as file:
            while chunk := file.read(_CHUNK):
                digest.update(chunk)
    except OSError:
        return None
    return digest.hexdigest()


def fetch(
    missing: Sequence[Artifact], folder: Path, report: Report | None, repositories: Mapping[str, str] | None = None
) -> Iterator[tuple[Artifact, Path]]:
    """Downloads all into `folder` and yields each once its checksum is verified. `repositories`: name -> URL; by
    default jgo's own.

    Raises ConfigError without jgo, Unreachable if Maven Central cannot be reached, and Fatal for a wrong checksum.
    """
    require_jgo()
    work = _Work(list(missing), folder, report, repositories)
    for _ in range(min(_THREADS, len(missing))):
        # Daemon threads: Ctrl-C must end the program at once, not after the read timeout of a download.
        threading.Thread(target=work.run, daemon=True).start()
    try:
        yield from work.results()
    finally:
        work.stopped.set()


class _Stopped(Exception):
    """Ends a download when nobody waits for its result any more."""


@dataclass
class _Work:
    artifacts: list[Artifact]
    folder: Path
    report: Report | None
    repositories: Mapping[str, str] | None
    stopped: threading.Event = field(default_factory=threading.Event)
    _todo: queue.SimpleQueue[Artifact] = field(default_factory=queue.SimpleQueue)
    _done: queue.SimpleQueue[tuple[Artifact, Path | EnrichError]] = field(default_factory=queue.SimpleQueue)
    _sizes: dict[str, tuple[int, int]] = field(default_factory=dict)  # file name -> (received, expected)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def __post_init__(self) -> None:
        for artifact in self.artifacts:
            self._todo.put(artifact)

    def results(self) -> Iterator[tuple[Artifact, Path]]:
        failures: list[EnrichError] = []
        for _ in self.artifacts:
            artifact, result = self._done.get()
            if isinstance(result, Unreachable):
                raise result  # the others would only wait for the same network
            if isinstance(result, EnrichError):
                failures.append(result)
            else:
                yield artifact, result
        if failures:
            raise failures[0]

    def run(self) -> None:
        context = self._context()
        while not self.stopped.is_set():
            try:
                artifact = self._todo.get_nowait()
            except queue.Empty:
                return
            # The result if an unexpected exception ends this thread: results() must not wait for ever.
            result: Path | EnrichError = Fatal(f"the download of {artifact.coordinate} ended unexpectedly")
            try:
                result = _download(context, artifact)
            except EnrichError as error:
                result = error
            except _Stopped:
                return
            finally:
                self._done.put((artifact, result))

    def _context(self) -> "MavenContext":
        from jgo.maven import MavenContext, PythonResolver

        return MavenContext(
            resolver=PythonResolver(progress_callback=self._progress),
            repo_cache=self.folder,  # always given: jgo's default is ~/.m2, which belongs to the user's Maven
            remote_repos=None if self.repositories is None else dict(self.repositories),
        )

    @contextmanager
    def _progress(self, file_name: str, size: int) -> Iterator[Callable[[int], None]]:
        so_far = 0

        def received(count: int) -> None:
            nonlocal so_far
            if self.stopped.is_set():
                raise _Stopped
            so_far += count
            with self._lock:
                self._sizes[file_name] = (so_far, size)
                sizes = self._sizes.values()
                done = sum(got / expected for got, expected in sizes)
                now = Progress(len(self.artifacts), done, sum(got for got, _ in sizes))
            if self.report is not None:
                self.report(now)

        yield received


def _download(context: "MavenContext", artifact: Artifact) -> Path:
    import requests

    wanted = context.project(artifact.group, artifact.name).at_version(artifact.version)
    path = context.repo_cache / artifact.path
    for left in reversed(range(_ATTEMPTS)):
        try:
            wanted.artifact(artifact.classifier, artifact.type).resolve()
            break
        except requests.RequestException as error:
            path.unlink(missing_ok=True)  # jgo would take a partial file for the complete one
            if left == 0:
                raise Unreachable(f"Maven Central could not be reached: {_root_cause(error)}") from error
        except OSError as error:
            what = f"{artifact.coordinate} could not be written: {error.strerror}"
            raise Fatal(what, where=str(path)) from error
        except RuntimeError as error:  # raised by jgo if every repository answered, but without the file
            raise Unreachable(f"Maven Central answered, but did not give {artifact.coordinate}") from error
    if sha256_of(path) != artifact.sha256:
        raise Fatal(
            f"{artifact.coordinate} came with a wrong checksum: it is not the file that was locked",
            where=f"expected sha256 {artifact.sha256}, got {sha256_of(path)}",
            next_step="try again; if that does not help, a proxy alters downloads: ask its administrator",
        )
    return path


def _root_cause(error: BaseException) -> str:
    while (deeper := error.__cause__ or error.__context__) is not None:
        error = deeper
    return f"{type(error).__name__}: {error}"


def require_jgo() -> None:
    """Raises ConfigError if jgo, which only the embedded stack and the set-up need, is not installed."""
    from importlib.util import find_spec

    if find_spec("jgo") is None:
        raise ConfigError(
            "the package `jgo`, which fetches Java archives from Maven Central, is not installed",
            next_step="pip install 'enrich[dev-stack]'",
        )
