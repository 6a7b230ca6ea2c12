"""Creates directories below `state_dir` on demand: the path may be wrong, and anybody may delete it at any time."""

from collections.abc import Callable
from pathlib import Path

from enrich.base.errors import ConfigError, Retryable
from stores.files import make_private, refusal

_ATTEMPTS = 100


def make_folder(folder: Path) -> None:
    """Creates a directory for this user only, and its parents. Raises ConfigError if it cannot be created, Retryable
    while the disk is full."""
    _made(lambda: make_private(folder), folder)


def make_base_folder(folder: Path) -> None:
    """Creates `state_dir`. People choose it and may share it, so its permissions stay. Raises as `make_folder` does."""
    _made(lambda: folder.mkdir(parents=True, exist_ok=True), folder)


def mark(file: Path) -> None:
    """Creates an empty file and its directory. Raises what `make_folder` raises."""

    def make() -> None:
        make_private(file.parent)
        file.touch()

    _made(make, file)


def files_of(folder: Path) -> list[Path]:
    """Nothing for a directory that does not exist."""
    try:
        return list(folder.iterdir())
    except FileNotFoundError:
        return []


def _made(make: Callable[[], None], path: Path) -> None:
    for attempt in range(1, _ATTEMPTS + 1):
        try:
            make()
        except OSError as error:
            is_deleted_meanwhile = isinstance(error, FileNotFoundError | FileExistsError)
            if not is_deleted_meanwhile or attempt == _ATTEMPTS:
                raise _refused(error, path) from error
        else:
            return


def _refused(error: OSError, path: Path) -> ConfigError | Retryable:
    refused = refusal(error, path)
    if isinstance(refused, Retryable):
        return refused
    return ConfigError(
        f"cannot create this: {error.strerror}",
        where=str(path),
        next_step="correct state_dir or its permissions: `enrich doctor` checks them",
    )
