"""The file in a zip archive. An archive is not a compressed file: it may have several, and only one can be the rows."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import IO
from zipfile import ZipFile

from stores.errors import Retryable

_NAMED = 3
_OF_A_MAC = "__MACOSX/"
"""The folder into which a Mac packs what its own file system knows of each file, beside those that a person chose."""


@contextmanager
def only_file(archive: IO[bytes], where: str) -> Iterator[IO[bytes]]:
    """Raises Retryable if there are more, or none: another archive may be put there."""
    with ZipFile(archive) as files:
        entries = [entry for entry in files.infolist() if not entry.filename.startswith(_OF_A_MAC)]
        names = [entry.filename for entry in entries if not entry.is_dir()]
        if len(names) != 1:
            more = ", ..." if len(names) > _NAMED else ""
            named = f": {', '.join(names[:_NAMED])}{more}" if names else ""
            raise Retryable(
                f"the archive has {len(names)} files{named}",
                where=where,
                next_step="put only the file with the rows into it, or compress that with gzip",
            )
        with files.open(names[0]) as file:
            yield file
