"""A stack for the duration of a block of code: for tests, benchmarks and the demo."""

import os
import re
import shutil
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from enrich.base.errors import ConfigError, EnrichError
from enrich.base.processes import Identity, identify
from enrich.dev.processes.process import is_alive, place
from enrich.dev.progress import shown
from enrich.dev.stack import Addresses, Stack
from enrich.jars.cache import cache_folder

# The owner's place, process id and start time: they show whether a stack's owner was killed. The place is needed
# because containers and hosts may share the cache folder and cannot see each other's processes.
_NAME = re.compile(r"(.+)-(\d+)-(\d+)-\w+")


@contextmanager
def temporary_stack(
    with_: Iterable[str] = (), *, quiet: bool = False, secure: bool = False, brokers: int = 1
) -> Iterator[Addresses]:
    """Brokers, Redis and the servers of `with_` in a new directory, deleted after the block.

    Unless `quiet`, the start is shown on a terminal.
    """
    with temporary_directory() as stack:
        with shown(quiet=quiet) as display:
            addresses = stack.up(with_, on_step=display.step, report=display.report, secure=secure, brokers=brokers)
        yield addresses


@contextmanager
def temporary_directory() -> Iterator[Stack]:
    """A stack that is not started yet, in a new directory of the user's cache folder. Deleted after the block.

    Also deletes the stacks of owners that were killed before they could do it. Raises ConfigError if that folder cannot
    be written.
    """
    parent = cache_folder().parent / "stacks"
    try:
        parent.mkdir(parents=True, exist_ok=True)
        _clear_orphaned(parent)
        owner = identify(os.getpid())
        prefix = f"{place()}-" + ("0-0-" if owner is None else f"{owner.pid}-{owner.started}-")
        stack = Stack(tempfile.mkdtemp(prefix=prefix, dir=parent))
        # Other users than its owner need access: PostgreSQL does not run as root.
        stack.folder.path.chmod(0o755)
    except OSError as error:
        raise ConfigError(
            f"no temporary stack can be made: {error.strerror}",
            where=str(error.filename or parent),
            next_step="make that writable, or set XDG_CACHE_HOME to another folder",
        ) from error
    try:
        yield stack
    finally:
        _delete(stack)


def _clear_orphaned(parent: Path) -> None:
    for folder in parent.iterdir():
        match = _NAME.fullmatch(folder.name)
        if match and match[1] == place() and not is_alive(Identity(int(match[2]), int(match[3]))):
            with suppress(EnrichError):  # another process is deleting it
                _delete(Stack(folder))


def _delete(stack: Stack) -> None:
    stack.reset(yes=True)
    if stack.folder.is_empty():  # it never had a server
        shutil.rmtree(stack.folder.path, ignore_errors=True)
