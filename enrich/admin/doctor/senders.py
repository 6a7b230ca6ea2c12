"""Checks what ingest needs on this host: its certificates, its ports, and the tokens of its senders."""

import re
import socket
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

from enrich.admin.doctor.verdict import Verdict, bad, good, warning
from enrich.base.addresses import family_of
from enrich.base.errors import ConfigError
from enrich.config import Ingest, Pipeline
from enrich.service.asking import status_at
from enrich.service.certificates import ends_at

_DAY_S = 86_400.0
_SOON_DAYS = 14
_SHORTEST = 16
"""Characters of a token. Of random letters and digits so many cannot be guessed."""
_FEWEST_DIFFERENT = 8
_SENDABLE = re.compile(r"[!-~]+")
_HERE = ("127.", "localhost", "[::1]")


def of_senders(pipeline: Pipeline, deadline_s: float, now_s: float | None = None) -> Iterator[Verdict]:
    now = time.time() if now_s is None else now_s
    yield from _of_certificates(pipeline.ingest, now)
    yield from _of_ports(pipeline, deadline_s)
    for name, entry in pipeline.ingest.items():
        yield from _of_tokens(name, entry)


def _of_certificates(entries: Mapping[str, Ingest], now: float) -> Iterator[Verdict]:
    pairs = {(entry.tls.cert_file, entry.tls.key_file): name for name, entry in entries.items() if entry.tls}
    renewed = "renew it: a new file is taken without a restart"
    for (certificate, key), name in pairs.items():
        try:
            left = (ends_at(Path(certificate), Path(key)) - now) / _DAY_S
        except ConfigError as error:
            yield bad("certificates", f"ingest {name}: {error.what}", error.next_step)
            continue
        if left <= 0:
            yield bad("certificates", f"ingest {name}: {certificate} has ended: senders refuse it", renewed)
        elif left < _SOON_DAYS:
            yield warning("certificates", f"ingest {name}: {certificate} ends in {left:.0f} days", renewed)
        else:
            yield good("certificates", f"ingest {name}: {certificate} fits its key, and is good for {left:.0f} days")


def _of_ports(pipeline: Pipeline, deadline_s: float) -> Iterator[Verdict]:
    ours: set[str] | None = None
    for listen in dict.fromkeys(entry.listen for entry in pipeline.ingest.values()):
        why = _why_not_free(listen)
        if why is None:
            yield good("ports", f"{listen} is free for ingest")
            continue
        if ours is None:
            ours = _held_by_ingest(pipeline, deadline_s)
        if listen.rpartition(":")[2] in ours:
            yield good("ports", f"{listen} is held by this pipeline's ingest, which runs")
        else:
            what = f"ingest cannot listen on {listen}: {why}"
            yield bad("ports", what, "stop what listens there, or choose another address under `listen`")


def _why_not_free(listen: str) -> str | None:
    host, _, port = listen.rpartition(":")
    host = host.strip("[]")
    try:
        with socket.socket(family_of(host), socket.SOCK_STREAM) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind((host, int(port)))
            probe.listen(1)
    except OSError as error:  # also for an address of a family that this host does not have
        return error.strerror or str(error)
    return None


def _held_by_ingest(pipeline: Pipeline, deadline_s: float) -> set[str]:
    """The ports on which the ingest that runs on this host takes events of this pipeline."""
    try:
        status = status_at(pipeline.pages.ingest, pipeline.name, deadline_s)
        addresses = [str(route["details"]["address"]) for route in status["routes"]]
    except (OSError, ValueError, KeyError, TypeError):
        return set()
    return {found[1] for address in addresses if (found := re.match(r"https?://.*:([0-9]+)/", address))}


def _of_tokens(name: str, entry: Ingest) -> Iterator[Verdict]:
    make_one = "make one: openssl rand -hex 24"
    if entry.tokens is None:
        if entry.tenants is None and not entry.listen.startswith(_HERE):
            what = f"ingest {name}: whoever reaches {entry.listen} may send events"
            yield warning("tokens", what, "give it `tokens` or `tenants`, or let it listen on 127.0.0.1")
        return
    tokens = [token.get_secret_value() for token in entry.tokens]
    # Which one it is, is said by its number: nothing of a token is shown.
    weak = 0
    for number, token in enumerate(tokens, 1):
        which = f"ingest {name}: token {number} of {len(tokens)}"
        if not _SENDABLE.fullmatch(token):
            weak += 1
            yield bad("tokens", f"{which} has spaces or other characters that no request can carry", make_one)
        elif len(token) < _SHORTEST or len(set(token)) < _FEWEST_DIFFERENT:
            weak += 1
            yield warning("tokens", f"{which} can be guessed: it is short, or repeats itself", make_one)
    if not weak:
        yield good("tokens", f"ingest {name}: none of {len(tokens)} tokens is easy to guess")
    if entry.tls is None and not entry.listen.startswith(_HERE):
        what = f"ingest {name}: tokens and events come in over http, for the whole network to read"
        yield warning("tokens", what, "give it a certificate under `tls`, or a proxy with one")
