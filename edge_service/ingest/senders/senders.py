"""Who may send to an entry: everybody, who has one of its tokens, or the tenants of a table."""

import hashlib
from collections.abc import Callable, Collection
from http import HTTPStatus
from typing import Protocol

from edge_service.ingest.wire.connection import Answer, Later, Request, problem

Verdict = Answer | Later | None


class Senders(Protocol):
    """Looks at a request's token before its body is read."""

    @property
    def need_token(self) -> bool: ...

    def admit(self, request: Request, go_on: Callable[[], Answer | None]) -> Verdict:
        """`go_on` makes the checks that come after that of the sender. It is called once the sender is known."""

    def refuse(self, request: Request) -> Answer | None:
        """Called again when the request is whole. An answer refuses it: its sender has sent too much."""

    def came(self, request: Request) -> None:
        """It is whole, and not refused yet: its bytes count, whatever is in them."""

    def charge(self, request: Request, events: int) -> None:
        """So many events of the request are about to be written."""


class Everybody:
    need_token = False

    def admit(self, request: Request, go_on: Callable[[], Answer | None]) -> Verdict:  # noqa: ARG002 - whoever it is
        return go_on()

    def refuse(self, request: Request) -> Answer | None:  # noqa: ARG002 - the same
        return None

    def came(self, request: Request) -> None:
        """Nothing: nobody counts them."""

    def charge(self, request: Request, events: int) -> None:
        """Nothing either."""


class TokenHolders(Everybody):
    """Who has one of these tokens."""

    need_token = True

    def __init__(self, tokens: Collection[str]) -> None:
        self._digests = frozenset(digest_of(token.encode()) for token in tokens)

    def admit(self, request: Request, go_on: Callable[[], Answer | None]) -> Verdict:
        token = token_of(request)
        # Of digests nobody learns anything from the time that a comparison takes.
        if token is None or digest_of(token) not in self._digests:
            return stranger()
        return go_on()


def token_of(request: Request) -> bytes | None:
    scheme, _, token = request.headers.get(b"authorization", b"").partition(b" ")
    return token.strip() or None if scheme.lower() == b"bearer" else None


def digest_of(token: bytes) -> str:
    """What stands for a token: from it nobody gets the token back."""
    return hashlib.sha256(token).hexdigest()


def stranger() -> Answer:
    answer = problem(HTTPStatus.UNAUTHORIZED, "a known token is needed: Authorization: Bearer TOKEN")
    answer.headers = ((b"www-authenticate", b"Bearer"),)
    return answer
