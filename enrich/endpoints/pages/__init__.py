"""Reads the rows that an HTTP endpoint has, page by page: all of them, or it raises.

`fetching` gets one answer within bounds of time and size, `rows` finds rows and the next page in it, `reading` goes
from page to page.
"""

from enrich.endpoints.pages.fetching import Fetcher, Known, LeftAlone, NotThere, Request
from enrich.endpoints.pages.reading import Pages, PagesReader
from enrich.endpoints.pages.rows import Next, Paging

__all__ = ["Fetcher", "Known", "LeftAlone", "Next", "NotThere", "Pages", "PagesReader", "Paging", "Request"]
