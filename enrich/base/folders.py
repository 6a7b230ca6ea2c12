"""Directories below `state_dir`, made when they are needed: it may be wrong, and anybody may delete it at any time."""

from collections.abc import Callable
from pathlib import Path

from enrich.base.errors import ConfigError, Retryable
from stores.files import make_private, refusal

_ATTEMPTS = 100


def make_folder(folder: Path) -> None:
    """One of ours, for its user alone, with those above it. Raises ConfigError where it cannot be, Retryable while the
    disk is full."""
    _made(lambda: make_private(folder), folder)


def make_base_folder(folder: Path) -> None:
    """`state_dir` itself: people name it, and may share it, so its rights stay. Raises what `make_folder` raises."""
    _made(lambda: folder.mkdir(parents=True, exist_ok=True), folder)


def mark(file: Path) -> None:
    """Makes an empty file with the directory that it is in. Raises what `make_folder` raises."""

    def make() -> None:
        make_private(file.parent)
        file.touch()

    _made(make, file)


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
        f"this cannot be made: {error.strerror}",
        where=str(path),
        next_step="correct state_dir, or its rights: `enrich doctor` tries it out",
    )
