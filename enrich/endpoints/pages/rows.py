"""Finds the rows of a page, and the page that follows, in its JSON."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from urllib.parse import SplitResult, parse_qsl, quote, urlencode, urljoin, urlsplit, urlunsplit

import msgspec

from enrich.base.errors import Retryable

_VALUE = r"\s*=\s*(?:\"((?:[^\"\\]|\\.)*)\"|([^\s;,]+))"
_PARAMETER = re.compile(rf";\s*([\w*-]+)(?:{_VALUE})?")
_LINK = re.compile(rf"<([^<>]*)>((?:\s*;\s*[\w*-]+(?:{_VALUE})?)*)")
_ASCII = bytes(range(128)).decode()

_raw = msgspec.json.Decoder(msgspec.Raw)
_members = msgspec.json.Decoder(dict[str, msgspec.Raw])
_items = msgspec.json.Decoder(list[msgspec.Raw])


class Next(StrEnum):
    """How the page that follows is asked for."""

    none = "none"  # there is only one
    link = "link"  # the header Link names it
    page = "page"  # page=2, page=3, ... until one is empty
    offset = "offset"  # offset=100, ...: how many rows were there so far, until a page is empty
    pointer = "pointer"  # the answer has its address, or a word to send in a parameter


@dataclass(frozen=True)
class Paging:
    rows: str = ""
    """JSON pointer to the array of rows; empty: the answer is the array, or an object a line."""
    next: Next = Next.none
    pointer: str = ""
    parameter: str | None = None
    """The query's parameter: with `pointer` what its word is sent as; None: the word is an address."""


def rows_of(body: bytes, paging: Paging, where: str) -> Sequence[bytes]:
    """Each row's JSON as it stands there, on one line."""
    try:
        content = body.lstrip()
        if not paging.rows and content[:1] == b"{":
            found: Sequence[msgspec.Raw] = [_raw.decode(line) for line in content.splitlines() if line.strip()]
        else:
            found = _items.decode(_at(body, paging.rows))
    except KeyError:
        raise Retryable(f"the answer has nothing at {paging.rows}", where=where) from None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        what = f"an array at {paging.rows}" if paging.rows else "an array, nor an object a line"
        raise Retryable(f"the answer is no JSON with {what}", where=where) from None
    rows = [bytes(row) for row in found]
    return [msgspec.json.format(row, indent=-1) if b"\n" in row else row for row in rows]


def next_of(url: str, body: bytes, link: str, paging: Paging, rows: int, before: int, where: str) -> str | None:
    """The address of the page that follows; None: this was the last. `rows`: of this page, `before` it so many."""
    if paging.next is Next.none or (paging.next in (Next.page, Next.offset) and not rows):
        return None
    if paging.next is Next.link:
        found = next((target for target, rest, *_ in _LINK.findall(link) if _is_next(rest)), None)
        # As the endpoint's own bytes: a header is read as if it were Latin-1, and most mean UTF-8.
        return None if found is None else _same_host(url, quote(found.encode("latin-1"), safe=_ASCII), where)
    if paging.next is Next.page:
        name = paging.parameter or "page"
        return _with(url, name, str(_page_of(url, name) + 1))
    if paging.next is Next.offset:
        return _with(url, paging.parameter or "offset", str(before + rows))
    word = _word(body, paging.pointer, where)
    if not word:
        return None
    return _same_host(url, word, where) if paging.parameter is None else _with(url, paging.parameter, word)


def _is_next(parameters: str) -> bool:
    found = _PARAMETER.findall(parameters)
    return any(name.lower() == "rel" and "next" in (many or one).lower().split() for name, many, one in found)


def _at(body: bytes, pointer: str) -> bytes:
    found = body
    for part in pointer.split("/")[1:]:
        found = bytes(_members.decode(found)[part.replace("~1", "/").replace("~0", "~")])
    return found


def _word(body: bytes, pointer: str, where: str) -> str | None:
    try:
        found = msgspec.json.decode(_at(body, pointer))
    except KeyError:
        return None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        raise Retryable(f"the answer is no JSON with a next page at {pointer}", where=where) from None
    if found is None or found is False:
        return None
    if isinstance(found, str | int) and not isinstance(found, bool):
        return str(found)
    raise Retryable(f"what the answer has at {pointer} is no address and no word", where=where)


def _page_of(url: str, name: str) -> int:
    number = dict(parse_qsl(urlsplit(url).query, keep_blank_values=True)).get(name, "1")
    return int(number) if number.isdigit() else 1


def _with(url: str, name: str, value: str) -> str:
    parts = urlsplit(url)
    query = [(key, each) for key, each in parse_qsl(parts.query, keep_blank_values=True) if key != name]
    return urlunsplit(parts._replace(query=urlencode([*query, (name, value)])))


def _same_host(url: str, target: str, where: str) -> str:
    """Tokens must not go elsewhere because an answer says so."""
    try:
        theirs = urlsplit(urljoin(url, target))
        is_there = _server(theirs) == _server(urlsplit(url))
    except ValueError:
        raise Retryable("what the endpoint gives for the next page is no address", where=where) from None
    if not is_there:
        raise Retryable("the next page is on another host: it is not asked for", where=where)
    return urlunsplit(theirs._replace(fragment=""))


def _server(url: SplitResult) -> tuple[str, str | None, int | None]:
    """However it is written: with the scheme's port, or in other letters. Raises ValueError."""
    return url.scheme, url.hostname, url.port or {"http": 80, "https": 443}.get(url.scheme)
