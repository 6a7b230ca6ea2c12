"""`enrich dev sink`: a receiver of webhooks on this machine."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TextIO

import typer

from enrich.base.json_lines import print_json

if TYPE_CHECKING:
    from enrich.dev.sink import Receiver, Rule

_LINE_S, _JSON_S = 0.25, 1.0
Certificate = Annotated[Path | None, typer.Option("--certificate", metavar="FILE", help="PEM: it speaks HTTPS then.")]
Key = Annotated[Path | None, typer.Option("--key", metavar="FILE", help="PEM: the certificate's key, if apart.")]
Clients = Annotated[
    Path | None, typer.Option("--clients", metavar="FILE", help="PEM: senders need a certificate signed by this one.")
]


def add_commands(app: typer.Typer) -> None:
    """The group is that of `enrich dev`."""
    app.command()(sink)


def sink(
    listen: Annotated[
        str, typer.Option("--listen", metavar="HOST:PORT", help="Port 0: a free one.")
    ] = "127.0.0.1:8900",
    secret: Annotated[
        list[str] | None,
        typer.Option(
            "--secret",
            metavar="WHSEC",
            envvar="ENRICH_SINK_SECRET",
            show_envvar=False,
            help="Refuse what it has not signed, with 401. Also from ENRICH_SINK_SECRET.",
        ),
    ] = None,
    fail: Annotated[
        list[str] | None,
        typer.Option("--fail", metavar="STATUS[:SHARE]", help="Answer with this status: 503, or a tenth by 503:0.1."),
    ] = None,
    slow: Annotated[
        list[str] | None, typer.Option("--slow", metavar="TIME[:SHARE]", help="Answer late: 200ms, 5s:0.01.")
    ] = None,
    lose_answers: Annotated[
        float, typer.Option("--lose-answers", metavar="SHARE", min=0, max=1, help="Take it and close instead.")
    ] = 0.0,
    retry_after: Annotated[
        str | None, typer.Option("--retry-after", metavar="TIME", help="With --fail: when to come again.")
    ] = None,
    behaviour: Annotated[
        str | None, typer.Option("--behaviour", metavar="JSON", help="Rules path by path, as for PUT /-/behaviour.")
    ] = None,
    seed: Annotated[int | None, typer.Option("--seed", metavar="N", help="The same shares in each run.")] = None,
    out: Annotated[
        Path | None, typer.Option("--out", metavar="FILE", help="Add a line of JSON for each request.")
    ] = None,
    certificate: Certificate = None,
    key: Key = None,
    clients: Clients = None,
    json: Annotated[bool, typer.Option("--json", help="One JSON object a second, while something comes.")] = False,
) -> None:
    """Receives events over HTTP, counts and checks them, and fails as told: each path its own way, like many customers.

    Example: enrich dev sink --fail 503:0.1 --retry-after 3s
    """
    from enrich.dev.sink import Behaviours, Listening, Receiver, ReceiverPlan, rules_from, serve
    from enrich.dev.sink.behaviour import OTHERS

    behaviours = Behaviours(seed)
    behaviours.put({OTHERS: _rules(fail or [], slow or [], lose_answers, retry_after)})
    if behaviour is not None:
        behaviours.put(rules_from(behaviour))
    listening = Listening.at(listen, certificate=certificate, key=key, clients=clients)
    with _opened(out) as file:
        receiver = Receiver(ReceiverPlan(tuple(secret or ()), file), behaviours)
        if json:
            serve(receiver, listening, lambda url: print_json({"url": url}), _in_json(receiver), _JSON_S)
            print_json(_totals(receiver))
        else:
            with _line(receiver) as (started, tick):
                serve(receiver, listening, started, tick, _LINE_S)
        receiver.flush()


def _rules(fail: list[str], slow: list[str], lost: float, retry_after: str | None) -> "list[Rule]":
    from enrich.dev.sink import Ending, Rule

    headers = {} if retry_after is None else {"retry-after": f"{_seconds(retry_after):g}"}
    rules = [_shared("--fail", text, lambda status: {"status": _status(status), "headers": headers}) for text in fail]
    rules += [_shared("--slow", text, lambda time: {"delay": time}) for text in slow]
    return [*rules, Rule(share=lost, answer=Ending.none)] if lost else rules


def _shared(option: str, text: str, meaning: "Callable[[str], dict[str, Any]]") -> "Rule":
    """What an option with `VALUE[:SHARE]` says."""
    import msgspec

    from enrich.base.errors import ConfigError
    from enrich.dev.sink import Rule

    value, colon, share = text.partition(":")
    try:
        return msgspec.convert({**meaning(value), "share": float(share) if colon else 1.0}, Rule)
    except ValueError as error:  # msgspec's is one
        raise ConfigError(f"{option} {text}: {error}", next_step=f"an example: {option} {_EXAMPLES[option]}") from None


_EXAMPLES = {"--fail": "503:0.1", "--slow": "200ms:0.5"}


def _status(text: str) -> int:
    if not (text.isascii() and text.isdigit() and 100 <= int(text) <= 599):
        raise ValueError("expected a status from 100 to 599")
    return int(text)


def _seconds(text: str) -> float:
    from enrich.base.errors import ConfigError
    from enrich.config.messages.words import Wrong
    from enrich.config.types.quantities import parse_duration

    try:
        return parse_duration(text).total_seconds()
    except Wrong as error:
        raise ConfigError(str(error), where="--retry-after") from None


@contextmanager
def _opened(path: Path | None) -> Iterator[TextIO | None]:
    from enrich.base.errors import ConfigError

    if path is None:
        yield None
        return
    try:
        file = path.open("a", encoding="utf-8", buffering=1 << 20)
    except OSError as error:
        raise ConfigError(f"cannot write to {path}: {error.strerror}", where="--out") from None
    try:
        yield file
    finally:
        # Closing tries to write again what could not be written. The receiver's `flush` has said why.
        with suppress(OSError):
            file.close()


def _in_json(receiver: "Receiver") -> Callable[[], None]:
    last: list[dict[str, Any]] = [_totals(receiver)]

    def tick() -> None:
        receiver.flush()
        now = _totals(receiver)
        if now != last[0]:
            last[0] = now
            print_json(now)

    return tick


def _totals(receiver: "Receiver") -> dict[str, Any]:
    from enrich.dev.sink.control import seen_by

    return {name: count for name, count in seen_by(receiver).items() if name != "paths"}


@contextmanager
def _line(receiver: "Receiver") -> Iterator[tuple[Callable[[str], None], Callable[[], None]]]:
    """One line for people that changes; where nobody looks, only the last one."""
    import time
    from collections import deque

    from rich.console import Console
    from rich.live import Live

    console = Console(highlight=False)
    recent: deque[tuple[float, int, int]] = deque(maxlen=round(3 / _LINE_S))

    def text(totals: dict[str, Any], rates: str) -> str:
        answers = ", ".join(f"{count:,} x {answer}" for answer, count in totals["answers"].items())
        marked = [f"[yellow]{totals[name]:,} {name}[/]" for name in ("duplicates", "repeated") if totals[name]]
        marked += [f"[red]{totals[name]:,} {name}[/]" for name in ("unsigned", "unreadable") if totals[name]]
        parts = [f"{totals['requests']:,} requests{rates}", f"[bold]{totals['taken']:,} events taken[/]", answers]
        return " · ".join([*filter(None, parts), *marked])

    def tick() -> None:
        receiver.flush()
        totals = _totals(receiver)
        recent.append((time.monotonic(), totals["requests"], totals["taken"]))
        seconds = recent[-1][0] - recent[0][0]
        rates = ""
        if seconds:
            per_second = [(now - then) / seconds for now, then in zip(recent[-1][1:], recent[0][1:], strict=True)]
            rates = f" ({per_second[0]:,.0f}/s, {per_second[1]:,.0f} events/s)"
        live.update(text(totals, rates))

    def started(url: str) -> None:
        console.print(f"listening on [bold]{url}[/]; what came: {url}/-/seen; Ctrl-C ends it")

    with Live("", console=console, transient=True, auto_refresh=console.is_terminal, refresh_per_second=4) as live:
        yield started, tick
    console.print(text(_totals(receiver), ""))
    sys.stdout.flush()
