"""From page to page, until the last."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from enrich.base.errors import Retryable
from enrich.endpoints.pages.fetching import Fetched, Fetcher, Known, Request
from enrich.endpoints.pages.rows import Next, Paging, next_of, rows_of

_MOST_PAGES = 1_000_000


@dataclass(frozen=True)
class Pages:
    known: Known
    """Of all of it; empty if there may be several pages: what the first is known by says nothing of the others."""
    rows: Iterator[Sequence[bytes]]
    """JSON objects, page by page."""
    is_one: bool
    """There is only one page."""


class PagesReader:
    """`where` must not contain a secret. Raises Retryable or Unreachable."""

    def __init__(
        self, url: str, paging: Paging, request: Request, *, where: str, stopping: Callable[[], bool] = lambda: False
    ) -> None:
        self._url = url
        self._paging = paging
        self.where = where
        self._fetcher = Fetcher(request, where, stopping)

    def read(self, known: Known) -> Pages | None:
        """None: nothing has changed. Rows that move from page to page while it reads may come twice, or not at all."""
        is_one = self._paging.next is Next.none
        first = self._fetcher.get(self._url, known if is_one else Known())
        return None if first is None else Pages(first.known if is_one else Known(), self._rows(first), is_one)

    def close(self) -> None:
        self._fetcher.close()

    def _rows(self, page: Fetched) -> Iterator[Sequence[bytes]]:
        url, before, seen = self._url, 0, {self._url}
        while True:
            rows = rows_of(page.body, self._paging, self.where)
            yield rows
            following = next_of(url, page.body, page.link, self._paging, len(rows), before, self.where)
            if following is None:
                return
            if following in seen or len(seen) >= _MOST_PAGES:
                raise Retryable("the next page is one that was read already", where=self.where)
            seen.add(following)
            before += len(rows)
            url = following
            fetched = self._fetcher.get(url, Known())
            if fetched is None:
                raise Retryable("a page is said not to have changed, which nobody asked", where=self.where)
            page = fetched
