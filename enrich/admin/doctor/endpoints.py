"""Checks the endpoints that events are delivered to, as expel would meet them. No request is sent."""

import socket
import ssl
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from enrich.admin.doctor.verdict import Level, Verdict, bad, good, warning
from enrich.base.errors import ConfigError
from enrich.config import Pipeline
from enrich.config.sections.edges.expel import HttpEndpoint
from enrich.endpoints import Certificates, Target, bearer, public, target_of, tls_reason
from enrich.endpoints.expiry import ends_at

_DAY_S = 86_400.0
_SOON_DAYS = 14
_AT_ONCE = 8
_MOST_ADDRESSES = 6
_REFUSAL_S = 0.3
"""How long to wait for an endpoint to refuse our certificate: it does so right after the handshake, or never."""


def of_endpoints(pipeline: Pipeline, deadline_s: float, now_s: float | None = None) -> Iterator[Verdict]:
    """`deadline_s` bounds each connection; looking up a name takes as long as this host allows."""
    now = time.time() if now_s is None else now_s
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        routes = [_Route(name, route.to.http, deadline_s, now) for name, route in pipeline.expel.items()]
        for verdicts in pool.map(_Route.verdicts, routes):
            yield from verdicts


@dataclass(frozen=True)
class _Route:
    name: str
    http: HttpEndpoint
    deadline_s: float
    now_s: float

    def verdicts(self) -> list[Verdict]:
        return list(self._verdicts())

    def _verdicts(self) -> Iterator[Verdict]:
        where = f"expel.{self.name}.to.http"
        try:
            target = target_of(self.http.url.get_secret_value(), where)
            if self.http.token is not None:
                bearer(self.http.token.get_secret_value(), where)
            tls = Certificates(self.http, where).context() if target.is_tls else None
            places = self._places(target, where)
        except ConfigError as error:
            yield self._bad(error.what, error.next_step or f"correct {where}")
            return
        except (OSError, UnicodeError) as error:
            text = getattr(error, "strerror", None) or str(error)
            yield self._bad(f"the name {target.name} was not found: {text}", "correct the url, or this host's resolver")
            return
        yield from self._of_token(target)
        yield from self._of_own_certificate()
        yield from self._of_connections(target, places, tls)

    def _places(self, target: Target, where: str) -> list[tuple[int, Any]]:
        found = socket.getaddrinfo(target.name, target.port, type=socket.SOCK_STREAM)
        places = [(int(family), address) for family, _, _, _, address in found]
        if not self.http.allow_private:
            allowed = set(public(target.name, [str(address[0]) for _, address in places], where))
            places = [place for place in places if place[1][0] in allowed]
        return places[:_MOST_ADDRESSES]

    def _of_token(self, target: Target) -> Iterator[Verdict]:
        if self.http.token is not None and not target.is_tls and not self.http.allow_private:
            yield self._warning("its token goes over the network for everybody to read", "use an https address")

    def _of_own_certificate(self) -> Iterator[Verdict]:
        if self.http.cert_file is None or self.http.key_file is None:
            return
        try:
            ends = ends_at(Path(self.http.cert_file), Path(self.http.key_file))
        except ssl.SSLError as error:
            yield self._bad(f"cert_file shows nobody who we are: {tls_reason(error)}", "make one for clients")
            return
        yield from self._of_end("our certificate", ends, "renew it: a new file is taken without a restart")

    def _of_connections(
        self, target: Target, places: list[tuple[int, Any]], tls: ssl.SSLContext | None
    ) -> Iterator[Verdict]:
        silent = []
        told: list[Verdict] = []
        answers = False
        for family, address in places:
            try:
                plain = self._connected(family, address)
            except OSError as error:
                why = (error.strerror or "no connection in time").lower()
                silent.append(f"{address[0]} ({why})")
                continue
            with plain:
                found = list(self._of_connection(target, address[0], plain, tls))
            answers = answers or not any(verdict.level == "bad" for verdict in found)
            told += found
        # Where another one does, an address that does not work is passed over.
        yield from (replace(each, level=Level.warning) if answers and each.level == "bad" else each for each in told)
        port = f"port {target.port} of {target.name}"
        if silent and len(silent) == len(places):
            yield self._bad(
                f"{port} takes no connection: {', '.join(silent)}", "check the url, and firewalls on the way there"
            )
        elif silent:
            yield self._warning(f"{port} takes no connection at {', '.join(silent)}", "ask the endpoint's owner")
        if answers:
            yield good("endpoints", f"route {self.name}: {target.host} takes connections")

    def _connected(self, family: int, address: Any) -> socket.socket:
        """Raises OSError, also for an address of a family that this host does not have."""
        plain = socket.socket(family, socket.SOCK_STREAM)
        plain.settimeout(self.deadline_s)
        try:
            plain.connect(address)
        except OSError:
            plain.close()
            raise
        return plain

    def _of_connection(
        self, target: Target, ip: str, plain: socket.socket, tls: ssl.SSLContext | None
    ) -> Iterator[Verdict]:
        """TLS, as far as it goes without a request."""
        if tls is None:
            return
        try:
            with tls.wrap_socket(plain, server_hostname=target.name.partition("%")[0]) as shown:
                certificate = shown.getpeercert() or {}
                shown.settimeout(_REFUSAL_S)
                with suppress(TimeoutError):  # it waits for a request
                    shown.recv(1)
        except ssl.SSLError as error:
            yield self._bad(
                f"TLS with {target.name} at {ip}: {tls_reason(error)}",
                "check the endpoint's certificate, ca_file, and whether it asks for one of ours (cert_file)",
            )
            return
        except OSError as error:
            why = (error.strerror or "no answer in time").lower()
            yield self._bad(f"TLS with {target.name} at {ip}: {why}", "check that the port is one for https")
            return
        ends = ssl.cert_time_to_seconds(str(certificate["notAfter"]))
        yield from self._of_end(f"the certificate of {target.name}", ends, "ask the endpoint's owner to renew it")

    def _of_end(self, whose: str, ends_s: float, next_step: str) -> Iterator[Verdict]:
        left = (ends_s - self.now_s) / _DAY_S
        if left <= 0:
            yield self._bad(f"{whose} has ended", next_step)
        elif left < _SOON_DAYS:
            yield self._warning(f"{whose} ends in {left:.0f} days", next_step)

    def _bad(self, what: str, next_step: str) -> Verdict:
        return bad("endpoints", f"route {self.name}: {what}", next_step)

    def _warning(self, what: str, next_step: str) -> Verdict:
        return warning("endpoints", f"route {self.name}: {what}", next_step)
