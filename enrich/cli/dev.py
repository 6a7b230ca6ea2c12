"""`enrich dev`: the embedded stack of real servers without containers."""

import shlex
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from enrich.base.exits import DIFFERENCE
from enrich.base.json_lines import print_json

if TYPE_CHECKING:
    from enrich.dev import Addresses, ServerStatus

_DEFAULT = Path(".enrich-dev")

app = typer.Typer(no_args_is_help=True, help="A real Kafka broker, Redis and more on this machine, without containers.")

Directory = Annotated[
    Path, typer.Option("--dir", metavar="D", help="The stack's directory. Each directory is a separate stack.")
]
Json = Annotated[bool, typer.Option("--json", help="For machines: JSON on stdout.")]


@app.command()
def up(
    directory: Directory = _DEFAULT,
    with_: Annotated[
        list[str] | None,
        typer.Option("--with", metavar="NAMES", help="Also postgres, registry (a,b or repeated)."),
    ] = None,
    json: Json = False,
    new_ports: Annotated[
        bool, typer.Option("--new-ports", help="Move a server whose port is taken to another port; data is kept.")
    ] = False,
    secure: Annotated[
        bool, typer.Option("--secure", help="Also an encrypted listener of the broker, with users and rights.")
    ] = False,
    brokers: Annotated[
        int | None,
        typer.Option("--brokers", metavar="N", help="1 to 3 brokers, from the stack's first start on. Default: 1."),
    ] = None,
) -> None:
    """Starts the servers that are not running and prints their addresses. Data and ports are kept from the last start.

    Example: enrich dev up --with postgres,registry
    """
    from enrich.dev import Stack
    from enrich.dev.progress import shown

    names = [name.strip() for text in with_ or () for name in text.split(",") if name.strip()]
    with shown() as display:
        addresses = Stack(directory).up(
            names,
            on_step=display.step,
            report=display.report,
            new_ports=new_ports,
            final=True,
            secure=secure,
            brokers=brokers,
        )
    if json:
        print_json(addresses.running())
    else:
        _show_addresses(addresses, directory)


@app.command()
def down(directory: Directory = _DEFAULT) -> None:
    """Stops every server. Data and ports are kept for the next `up`.

    Example: enrich dev down
    """
    from enrich.dev import Stack

    stopped = Stack(directory).down()
    typer.echo(f"stopped {', '.join(stopped)}" if stopped else "nothing was running")


@app.command()
def status(directory: Directory = _DEFAULT, json: Json = False) -> None:
    """Checks every server; exits with 1 if one has died or does not answer.

    Example: enrich dev status --json
    """
    from enrich.dev import Stack

    servers = Stack(directory).status()
    if json:
        for server in servers:
            print_json(_as_json(server))
    elif servers:
        _show_status(servers)
    else:
        typer.echo(f"no stack in {directory}; next: enrich dev up{_option(directory)}", err=True)
    if not all(server.is_well for server in servers):
        raise typer.Exit(DIFFERENCE)


@app.command()
def logs(
    server: Annotated[
        str | None, typer.Argument(metavar="SERVER", help="kafka, redis, postgres, registry...; all if left out.")
    ] = None,
    directory: Directory = _DEFAULT,
    lines: Annotated[int, typer.Option("-n", "--lines", min=0, help="Number of last lines of each log.")] = 50,
    follow: Annotated[bool, typer.Option("-f", "--follow", help="Also print new lines, until Ctrl-C.")] = False,
) -> None:
    """Shows the last lines of the servers' logs.

    Example: enrich dev logs kafka --follow
    """
    from enrich.dev import Stack
    from enrich.dev.processes.logs import follow as added_to
    from enrich.dev.processes.logs import tail

    names = {path: name for name, path in Stack(directory).logs(server).items()}
    prefixes = {path: "" if server else f"{name:<8} | " for path, name in names.items()}
    # Positions are taken before the tails are read: a line written in between is shown twice, not lost.
    added = added_to(list(names))
    for path in names:
        for line in tail(path, lines):
            typer.echo(prefixes[path] + line)
    if follow:
        for path, line in added:
            typer.echo(prefixes[path] + line)


@app.command()
def reset(
    directory: Directory = _DEFAULT,
    yes: Annotated[bool, typer.Option("--yes", help="Really delete.")] = False,
) -> None:
    """Stops every server and deletes the stack with all its data.

    Example: enrich dev reset --yes
    """
    from enrich.dev import Stack

    deleted = Stack(directory).reset(yes=yes)
    typer.echo(f"deleted {directory}" if deleted else f"nothing to delete in {directory}")


def _show_addresses(addresses: "Addresses", directory: Path) -> None:
    from rich.console import Console
    from rich.markup import escape

    console = Console(highlight=False, soft_wrap=True)
    for name, address in addresses.running().items():
        console.print(f"[bold]{name:<24}[/] {escape(address)}")  # no table: it would fold addresses, which people copy
    option = escape(_option(directory))
    console.print(f"[dim]next: enrich init · enrich demo · enrich dev status{option} · enrich dev down{option}[/]")


def _show_status(servers: "list[ServerStatus]") -> None:
    from rich.console import Console
    from rich.table import Table

    table = Table("server", "state", box=None, header_style="dim")
    table.add_column("address", overflow="fold")  # people copy it: it must not be cut
    for column in ("pid", "memory", "since"):
        table.add_column(column, no_wrap=True)
    today = datetime.now(UTC).astimezone().date()
    colours = {"running": "green", "stopped": "dim"}
    for server in servers:
        since = None if server.since is None else datetime.fromtimestamp(server.since, UTC).astimezone()
        table.add_row(
            server.server,
            f"[{colours.get(server.state, 'bold red')}]{server.state}[/]",
            server.address,
            "" if server.pid is None else str(server.pid),
            "" if server.memory is None else f"{server.memory / 1e6:.0f} MB",
            "" if since is None else f"{since:%H:%M:%S}" if since.date() == today else f"{since:%Y-%m-%d}",
        )
    Console(highlight=False, width=None if sys.stdout.isatty() else 200).print(table)


def _as_json(server: "ServerStatus") -> dict[str, object]:
    since = None if server.since is None else datetime.fromtimestamp(server.since, UTC)
    return {
        "server": server.server,
        "state": server.state.value,
        "address": server.address,
        "pid": server.pid,
        "memory_bytes": server.memory,
        "since": None if since is None else since.isoformat(timespec="milliseconds"),
    }


def _option(directory: Path) -> str:
    """As a shell takes it."""
    return "" if directory == _DEFAULT else f" --dir {shlex.quote(str(directory))}"
