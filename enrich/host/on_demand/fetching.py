"""One row of an HTTP endpoint, by its key."""

import threading
from collections.abc import Callable
from urllib.parse import quote

import msgspec

from enrich.base.errors import BadRecord
from enrich.endpoints.pages import Fetcher, Known, NotThere, Request
from enrich.host.on_demand.wire import LONGEST_KEY

_NEVER_ASKED = {b"", b".", b".."}
"""As a part of a path these would ask for something else than a row."""


class HttpRows:
    """Any thread may ask; each has a connection of its own."""

    def __init__(self, url: str, request: Request, where: str, stopping: Callable[[], bool]) -> None:
        """`url`: with `{key}`. `where` must not contain a secret."""
        self._url = url
        self._request = request
        self._where = where
        self._stopping = stopping
        self._own = threading.local()
        self._fetchers: list[Fetcher] = []

    def row(self, key: bytes) -> bytes | None:
        """A JSON object; None if there is none. Raises BadRecord for another answer, and what `Fetcher.get` raises."""
        if key in _NEVER_ASKED or len(key) > LONGEST_KEY:
            return None
        try:
            fetched = self._fetcher().get(self._url.replace("{key}", quote(key, safe="")), Known())
        except NotThere:
            return None
        body = b"" if fetched is None else fetched.body.strip()
        try:
            if body[:1] == b"{":
                msgspec.json.decode(body, type=msgspec.Raw)
                return body
        except (msgspec.DecodeError, RecursionError):  # nested too deeply
            pass
        raise BadRecord("no JSON object", where=self._where)

    def close(self) -> None:
        """Once nobody asks any more."""
        for fetcher in self._fetchers:
            fetcher.close()

    def _fetcher(self) -> Fetcher:
        if not hasattr(self._own, "fetcher"):
            self._own.fetcher = Fetcher(self._request, self._where, self._stopping)
            self._fetchers.append(self._own.fetcher)
        fetcher: Fetcher = self._own.fetcher
        return fetcher
