"""Puts the new file where no other is lost."""

import os
import tempfile
from pathlib import Path

from enrich.base.errors import ConfigError, WouldLoseData


def check_place(file: Path, *, force: bool) -> None:
    """Raises WouldLoseData for a file that exists, unless it may be replaced; ConfigError if none can be there."""
    where = str(file)
    if not where.isprintable():
        raise ConfigError(
            "the file's name cannot be printed", where=ascii(where), next_step="choose another by -c FILE"
        )
    try:
        if file.is_dir():
            raise ConfigError("this is a directory", where=where, next_step="give the file's name, too")
        if (file.exists() or file.is_symlink()) and not force:
            raise WouldLoseData(
                "this file exists", where=where, next_step="choose another by -c FILE, or replace it with --force"
            )
        if not file.parent.is_dir():
            raise ConfigError("there is no such directory", where=str(file.parent), next_step="make it first: mkdir -p")
    except OSError as error:
        raise _refused(error, file) from None


def write(file: Path, text: str, *, force: bool) -> None:
    """The whole file or none. Raises as `check_place`, which may have been long ago."""
    check_place(file, force=force)
    temporary: Path | None = None
    try:
        handle, made = tempfile.mkstemp(prefix=f".{file.name[:100]}.", dir=file.parent)
        temporary = Path(made)
        with os.fdopen(handle, "w", encoding="utf-8") as stream:
            stream.write(text)
        mask = os.umask(0)
        os.umask(mask)
        temporary.chmod(0o666 & ~mask)
        if force:
            temporary.replace(file)
        else:
            os.link(temporary, file)  # fails where another process has made the file meanwhile
    except FileExistsError:
        check_place(file, force=force)
    except OSError as error:
        raise _refused(error, file) from None
    finally:
        if temporary is not None:
            temporary.unlink(missing_ok=True)


def _refused(error: OSError, file: Path) -> ConfigError:
    return ConfigError(
        f"the file cannot be written: {error.strerror}",
        where=str(file),
        next_step="choose another place by -c FILE, or correct the directory's permissions",
    )
