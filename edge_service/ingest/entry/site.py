"""An address with all its entries, told apart by their paths, and the description of them."""

from collections.abc import Mapping
from http import HTTPStatus

from edge_service.ingest.entry.endpoint import IngestEndpoint
from edge_service.ingest.wire.connection import Answer, Done, Later, Request, problem

DESCRIPTION = "/openapi.json"


class Site:
    """See `connection.Endpoint`. For one event loop."""

    def __init__(self, entries: Mapping[str, IngestEndpoint], description: bytes) -> None:
        """`entries` by name. `description`: what GET of /openapi.json answers."""
        self._at = {entry.plan.path: entry for entry in entries.values()}
        self._description = description
        self.body_deadline_s = max(entry.body_deadline_s for entry in entries.values())
        self.answers: dict[int, int] = {}
        """By status, of requests that reached no entry."""

    def admit(self, request: Request) -> Answer | Later | None:
        entry = self._at.get(request.path)
        if entry is not None:
            return entry.admit(request)
        if request.path != DESCRIPTION:
            paths = ", ".join(sorted(self._at))
            return problem(HTTPStatus.NOT_FOUND, f"events are taken at {paths}; {DESCRIPTION} describes it")
        if request.method in ("GET", "HEAD"):
            return None
        answer = problem(HTTPStatus.METHOD_NOT_ALLOWED, "it can only be read")
        answer.headers = ((b"allow", b"GET, HEAD"),)
        return answer

    def body_deadline_of(self, request: Request) -> float:
        entry = self._at.get(request.path)
        return self.body_deadline_s if entry is None else entry.body_deadline_s

    def most_body(self, request: Request) -> int:
        entry = self._at.get(request.path)
        return 0 if entry is None else entry.most_body(request)

    def reserve(self, request: Request, count: int) -> bool:
        entry = self._at.get(request.path)
        return entry is not None and entry.reserve(request, count)

    def release(self, request: Request, count: int) -> None:
        self._at[request.path].release(request, count)

    def count(self, request: Request | None, answer: Answer) -> None:
        entry = None if request is None else self._at.get(request.path)
        if entry is not None:
            entry.count(request, answer)
        else:
            self.answers[answer.status] = self.answers.get(answer.status, 0) + 1

    def take(self, request: Request, done: Done) -> None:
        entry = self._at.get(request.path)
        if entry is not None:
            entry.take(request, done)
        else:
            done(Answer(HTTPStatus.OK, self._description))
