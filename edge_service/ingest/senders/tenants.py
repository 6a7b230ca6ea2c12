"""Senders that are rows of a table: by the digest of their token, with the topics and the rates that they may use.

The agent of the host follows the table. Rows are kept for less than a second: a token that is revoked, by a tombstone,
or given other rights is seen by then. The event loop never waits: what is not kept is asked for by a thread.
"""

import asyncio
import logging
import math
import os
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from dataclasses import dataclass
from http import HTTPStatus
from typing import TYPE_CHECKING, Any

from edge_service.ingest.senders.quotas import Bucket
from edge_service.ingest.senders.senders import Verdict, digest_of, stranger, token_of
from edge_service.ingest.wire.connection import Answer, Decided, Request, problem
from enrich.base.errors import EnrichError, Fatal
from enrich.config import Pipeline
from enrich.config.sections.edges.ingest import TENANT_COLUMNS
from stores.cache import ABSENT, Absent, Policy, RefreshAfterWriteCache

if TYPE_CHECKING:
    from enrich.host.reader.reading import AgentReader

_log = logging.getLogger("enrich.ingest")

# Their sum, the time of a look-up and the agent's own delay are less than the second that is promised.
_POLICY = Policy(max_entries=20_000, refresh_s=0.25, expire_s=0.6, absent_expire_s=0.5)
_AGAIN_S = 0.2
"""After a look-up failed."""
_LATE_S = 2.0
_MOST_BUCKETS = 20_000


@dataclass(frozen=True, slots=True)
class Tenant:
    """A sender, as its row describes it."""

    digest: str
    topics: frozenset[str] | None = None
    """Topics that it may send to; None: those of all entries that know it."""
    events_per_s: float | None = None
    bytes_per_s: float | None = None
    """Rates; None: as much as it likes."""


class TenantRows:
    """The table, for the one thread that reads it. See `stores.cache.BatchLoader`."""

    def __init__(self, pipeline: Pipeline, table: str) -> None:
        self._pipeline = pipeline
        self._table = table
        # The configuration's rules see to their types.
        self._columns = [name for name in pipeline.tables[table].columns.names if name in TENANT_COLUMNS]
        self._reader: AgentReader | None = None

    def load(self, digest: str, /) -> Tenant | Absent:
        return self.load_all([digest]).get(digest, ABSENT)

    def load_all(self, digests: Sequence[str], /) -> Mapping[str, Tenant]:
        """Raises Retryable while the table is not loaded, and what the agent's reader raises."""
        # Late: a third of the memory, which entries without tenants do not need.
        import pyarrow as pa

        from enrich.host.reader.reading import AgentReader
        from stores.table import Status

        if self._reader is None:
            self._reader = AgentReader(self._pipeline, holder=os.getpid, tables=[self._table])
        view = self._reader.snapshot().table(self._table)
        found = view.lookup(pa.array(digests, pa.string()), self._columns)
        rows = zip(digests, found.status.to_pylist(), found.values.to_pylist(), strict=True)
        return {digest: _tenant(digest, row or {}) for digest, status, row in rows if status == Status.HIT}

    def close(self) -> None:
        if self._reader is not None:
            self._reader.close()
            self._reader = None


def _tenant(digest: str, row: Mapping[str, Any]) -> Tenant:
    topics = row.get("topics")
    if isinstance(topics, str):
        topics = [name.strip() for name in topics.split(",") if name.strip()]
    return Tenant(
        digest,
        None if topics is None else frozenset(topics),
        _rate(row.get("events_per_s")),
        _rate(row.get("bytes_per_s")),
    )


def _rate(number: float | None) -> float | None:
    """Infinite is no limit. What is no number allows nothing."""
    if number is None or number == math.inf:
        return None
    return 0.0 if math.isnan(number) else float(number)


class KnownTenants:
    """The tenants of one table, for all entries of a process that use it. For one event loop."""

    def __init__(self, rows: TenantRows, loop: asyncio.AbstractEventLoop) -> None:
        self._rows = rows
        self._loop = loop
        # One thread: the agent's reader is made for one.
        self._thread: Executor = ThreadPoolExecutor(1, thread_name_prefix="tenants")
        self._cache: RefreshAfterWriteCache[str, Tenant] = RefreshAfterWriteCache(rows, _POLICY, self._thread)
        self._asked: dict[str, list[Callable[[Tenant | None], None]]] = {}
        self._is_asking = False
        self._buckets: dict[str, tuple[Bucket, Bucket]] = {}
        self._failure: str | None = "the table has not been looked into yet"
        self._since = 0.0
        """When the look-up that is under way began."""
        self._look_up([])

    @property
    def trouble(self) -> str | None:
        """Why tenants cannot be looked up now."""
        is_late = self._is_asking and self._loop.time() - self._since > _LATE_S
        return self._failure or ("the agent of this host does not answer" if is_late else None)

    def get(self, digest: str) -> Tenant | Absent | None:
        """None: it has to be asked for."""
        return self._cache.get_if_present(digest, None)

    def ask(self, digest: str, found: Callable[[Tenant | None], None]) -> None:
        """Calls `found` once the table has been looked into, which may take until the agent is back."""
        self._asked.setdefault(digest, []).append(found)
        if not self._is_asking:
            self._look_up(list(self._asked))

    def forget(self, digest: str, found: Callable[[Tenant | None], None]) -> None:
        """It is not waited for any more."""
        waiting = self._asked.get(digest)
        if waiting is not None and found in waiting:
            waiting.remove(found)
            if not waiting:
                del self._asked[digest]

    def buckets(self, digest: str) -> tuple[Bucket, Bucket]:
        """Of events, and of bytes."""
        if digest not in self._buckets:
            if len(self._buckets) >= _MOST_BUCKETS:
                self._buckets.pop(next(iter(self._buckets)))
            self._buckets[digest] = Bucket(), Bucket()
        return self._buckets[digest]

    def close(self) -> None:
        self._thread.submit(self._rows.close)
        self._thread.shutdown(wait=False)

    def _look_up(self, digests: list[str]) -> None:
        self._is_asking = True
        self._since = self._loop.time()
        self._thread.submit(self._loaded, digests)

    def _loaded(self, digests: list[str]) -> None:
        """In the thread."""
        found: Mapping[str, Tenant] = {}
        trouble: str | None = None
        try:
            found = self._cache.get_many(digests) if digests else self._rows.load_all([])
        except EnrichError as error:
            trouble = str(error)
        except Exception as error:  # noqa: BLE001 - the top of this thread: no error may end it silently
            _log.exception("this is a bug in enrich; please report it")
            trouble = str(Fatal(f"a bug in enrich: {type(error).__name__}"))
        self._loop.call_soon_threadsafe(self._answered, digests, found, trouble)

    def _answered(self, digests: list[str], found: Mapping[str, Tenant], trouble: str | None) -> None:
        if trouble is not None and trouble != self._failure:
            _log.warning("tenants cannot be looked up: %s", trouble)
        self._failure = trouble
        if trouble is not None:
            self._loop.call_later(_AGAIN_S, lambda: self._look_up(list(self._asked)))
            return
        waiting = [(digest, self._asked.pop(digest, [])) for digest in digests]
        self._is_asking = False
        if self._asked:
            self._look_up(list(self._asked))
        for digest, callbacks in waiting:
            for callback in callbacks:
                callback(found.get(digest))


class Tenants:
    """See `senders.Senders`: the tenants of a table may send to a topic."""

    need_token = True

    def __init__(self, known: KnownTenants, topic: str, loop: asyncio.AbstractEventLoop, patience_s: float) -> None:
        """`patience_s`: how long a request waits until it is known who sends it."""
        self._known = known
        self._topic = topic
        self._loop = loop
        self._patience_s = patience_s

    def admit(self, request: Request, go_on: Callable[[], Answer | None]) -> Verdict:
        token = token_of(request)
        if token is None:
            return stranger()
        digest = digest_of(token)
        tenant = self._known.get(digest)
        if tenant is None:
            return _Asking(self, digest, request, go_on)
        return self._judge(None if tenant is ABSENT else tenant, request, go_on)

    def refuse(self, request: Request) -> Answer | None:
        tenant = request.sender
        assert isinstance(tenant, Tenant)  # noqa: S101 - `admit` found it
        now = self._loop.time()
        events, size = self._known.buckets(tenant.digest)
        wait_s = 0.0
        if tenant.events_per_s is not None:
            wait_s = max(wait_s, events.wait_s(tenant.events_per_s, now))
        if tenant.bytes_per_s is not None:
            wait_s = max(wait_s, size.wait_s(tenant.bytes_per_s, now))
        if not wait_s:
            return None
        answer = problem(HTTPStatus.TOO_MANY_REQUESTS, "more than this token may send; try again later")
        answer.headers = ((b"retry-after", b"%d" % math.ceil(min(wait_s, 3600.0))),)
        return answer

    def came(self, request: Request) -> None:
        tenant = request.sender
        assert isinstance(tenant, Tenant)  # noqa: S101 - the same
        if tenant.bytes_per_s is not None:
            _, of_bytes = self._known.buckets(tenant.digest)
            of_bytes.take(len(request.body), tenant.bytes_per_s, self._loop.time())

    def charge(self, request: Request, events: int) -> None:
        tenant = request.sender
        assert isinstance(tenant, Tenant)  # noqa: S101 - the same
        if tenant.events_per_s is not None:
            of_events, _ = self._known.buckets(tenant.digest)
            of_events.take(events, tenant.events_per_s, self._loop.time())

    def _judge(self, tenant: Tenant | None, request: Request, go_on: Callable[[], Answer | None]) -> Answer | None:
        if tenant is None:
            return stranger()
        if tenant.topics is not None and self._topic not in tenant.topics:
            return problem(HTTPStatus.FORBIDDEN, "this token may not send events here")
        request.sender = tenant
        return self.refuse(request) or go_on()


class _Asking:
    """See `connection.Later`."""

    def __init__(self, tenants: Tenants, digest: str, request: Request, go_on: Callable[[], Answer | None]) -> None:
        self._tenants = tenants
        self._digest = digest
        self._request = request
        self._go_on = go_on

    def then(self, decided: Decided) -> None:
        tenants = self._tenants

        def found(tenant: Tenant | None) -> None:
            timer.cancel()
            decided(tenants._judge(tenant, self._request, self._go_on))

        def late() -> None:
            tenants._known.forget(self._digest, found)
            decided(_unknown_now())

        timer = tenants._loop.call_later(tenants._patience_s, late)
        tenants._known.ask(self._digest, found)


def _unknown_now() -> Answer:
    answer = problem(
        HTTPStatus.SERVICE_UNAVAILABLE, "it cannot be looked up now whose token this is; nothing was written; try again"
    )
    answer.headers = ((b"retry-after", b"1"),)
    return answer
