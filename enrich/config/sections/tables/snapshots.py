"""The section `snapshots`: where snapshots of tables are kept, and from where a cold host starts."""

import re
from pathlib import Path
from typing import Annotated

from pydantic import BeforeValidator, WithJsonSchema

from enrich.config.messages.words import Wrong
from enrich.config.types.fields import Section, as_local_path, as_text

_SCHEME = re.compile(r"(?P<scheme>[A-Za-z][A-Za-z0-9+.-]+):(?P<rest>.*)", re.DOTALL)


def snapshot_location(text: str) -> Path:
    """The directory of a path, or of `file:` and a path. Raises ValueError for the other schemes of fsspec."""
    found = _SCHEME.fullmatch(text)
    if found is None:
        return Path(as_local_path(text))
    if found["scheme"].lower() != "file":
        raise Wrong(
            f"snapshots in `{found['scheme']}:` are not built yet: name a directory, which may be a mounted one"
        )
    rest = found["rest"].removeprefix("//localhost")
    return Path(as_local_path("/" + rest.lstrip("/") if rest.startswith("/") else rest))


Location = Annotated[
    str,
    BeforeValidator(lambda value: str(snapshot_location(as_text(value)))),
    WithJsonSchema({"type": "string", "minLength": 1}),
]


class Snapshots(Section):
    """Snapshots that `enrich table export` makes and from which tables start instead of the whole topic."""

    path: Location
    """A directory that all hosts can access, or `file:` and a path; each table has a folder in it."""
