"""Downloads artifacts from Maven Central into a folder, one after the other, and verifies them."""

import hashlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from enrich.base.errors import ConfigError, Fatal, Unreachable
from enrich.jars.lock import Artifact

if TYPE_CHECKING:
    from requests import Session

MAVEN_CENTRAL = "https://repo.maven.apache.org/maven2"

_ATTEMPTS = 2  # one transient error among a hundred requests is common
_PATIENCE_S = 30.0
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
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError:
        return None


def fetch(
    missing: Sequence[Artifact], folder: Path, report: Report | None, repository: str
) -> Iterator[tuple[Artifact, Path]]:
    """Downloads all into `folder` and yields each once its checksum is verified.

    Raises ConfigError without the package requests, Unreachable if an artifact cannot be had, Fatal for a wrong
    checksum.
    """
    if find_spec("requests") is None:
        raise ConfigError(
            "the package `requests`, which fetches Java archives from Maven Central, is not installed",
            next_step="pip install -e '.[dev-stack]' in the checkout",
        )
    from requests import Session

    before = 0
    with Session() as session:  # one connection for all: most archives are small
        for number, artifact in enumerate(missing):
            path = folder / artifact.file_name

            def received(size: int, of: int, number: int = number, before: int = before) -> None:
                if report is not None:
                    report(Progress(len(missing), number + size / max(of, size), before + size))

            _download(session, f"{repository}/{artifact.path}", artifact.coordinate, path, received)
            if (sha256 := sha256_of(path)) != artifact.sha256:
                raise Fatal(
                    f"{artifact.coordinate} came with a wrong checksum: it is not the file that was locked",
                    where=f"expected sha256 {artifact.sha256}, got {sha256}",
                    next_step="try again; if that does not help, a proxy alters downloads: ask its administrator",
                )
            before += path.stat().st_size
            yield artifact, path


def _download(session: "Session", url: str, coordinate: str, path: Path, received: Callable[[int, int], None]) -> None:
    import requests

    for left in reversed(range(_ATTEMPTS)):
        try:
            with session.get(url, stream=True, timeout=_PATIENCE_S) as answer, path.open("wb") as file:
                answer.raise_for_status()
                size = int(answer.headers.get("Content-Length", 0))
                for chunk in answer.iter_content(_CHUNK):
                    file.write(chunk)
                    received(file.tell(), size)
        except requests.HTTPError as error:
            raise Unreachable(f"Maven Central did not give {coordinate}: {error}") from error
        except requests.RequestException as error:
            if left == 0:
                raise Unreachable(f"Maven Central could not be reached: {_root_cause(error)}") from error
        else:
            return


def _root_cause(error: BaseException) -> str:
    while (deeper := error.__cause__ or error.__context__) is not None:
        error = deeper
    return f"{type(error).__name__}: {error}"
