"""How a program ends: its exit code, and its error message on stderr."""

import gc
import logging
import sys
from collections.abc import Callable

from enrich.base.errors import ConfigError, EnrichError, Unreachable, WouldLoseData
from enrich.base.printable import visible_lines

DONE = 0
DIFFERENCE = 1
USAGE = 2
UNREACHABLE = 3
WOULD_LOSE_DATA = 4
FAILED = 5  # any other error; not 1, so that a script can tell it from a difference that a check found

_EXIT_CODES: tuple[tuple[type[EnrichError], int], ...] = (
    (ConfigError, USAGE),
    (Unreachable, UNREACHABLE),
    (WouldLoseData, WOULD_LOSE_DATA),
)


def outcome(program: Callable[[], int]) -> int:
    """Runs a program and returns its exit code. An error of our tree is printed first, any other is logged as a bug."""
    try:
        return program()
    except EnrichError as error:
        print_error(error)
        return exit_code(error)
    except Exception:
        logging.getLogger("enrich").exception("this is a bug in enrich; please report it with the lines below")
        return FAILED
    finally:
        # A Kafka client with a request in flight must be freed before the interpreter exits: otherwise its thread and
        # the interpreter wait for each other. Only the collector frees clients that tracebacks refer to.
        if "confluent_kafka" in sys.modules:
            gc.collect()


def exit_code(error: EnrichError) -> int:
    return next((code for kind, code in _EXIT_CODES if isinstance(error, kind)), FAILED)


def print_error(error: EnrichError) -> None:
    """Prints to stderr what happened, where, and what to do next; as a log record if logs are JSON."""
    from enrich.base.logs import logs_are_json

    if logs_are_json():
        fields = {"where": error.where, "next": error.next_step, "kind": type(error).__name__}
        logging.getLogger("enrich").error(error.what, extra={k: v for k, v in fields.items() if v is not None})
        return
    from rich.console import Console

    console = Console(stderr=True, highlight=False, soft_wrap=True)
    console.print("[bold red]error:[/]", end=" ")
    console.print(visible_lines(error.what), markup=False)
    for label, text in (("where:", error.where), ("next: ", error.next_step)):
        if text is not None:
            console.print(f"[bold]{label}[/]", end=" ")
            console.print(visible_lines(text), markup=False)
