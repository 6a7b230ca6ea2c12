"""`enrich sync reconcile`: prints what differs, as a table for people or as one JSON object per line."""

import argparse
from typing import Any

from enrich.base.exits import DIFFERENCE, DONE
from enrich.base.json_lines import print_json
from enrich.base.printable import visible
from enrich.config import Pipeline
from sync_service.reconcile.differences import Difference
from sync_service.reconcile.reconciliation import Reconciliation, Report
from sync_service.writeback.plan import chosen_plans
from sync_service.writeback.route import Clients

_SHOWN = 50


def reconcile(pipeline: Pipeline, options: argparse.Namespace) -> int:
    """Returns the exit code: 1 if something differs and was not repaired."""
    clients = Clients(pipeline)
    agrees = True
    for plan in chosen_plans(pipeline, options.routes):
        report = Reconciliation(plan, clients).run(
            repair=options.repair, yes=options.yes, raise_generation=options.raise_generation
        )
        agrees = agrees and report.agrees
        if options.json:
            _print_json(report)
        else:
            _print_people(report)
    return DONE if agrees else DIFFERENCE


def _print_json(report: Report) -> None:
    for difference in report.differences:
        print_json({"route": report.route, "difference": _to_json(difference)})
    print_json(
        {
            "route": report.route,
            "rows": report.rows,
            "differences": len(report.differences),
            "repaired": report.repaired,
            "refused": report.refused,
            "unwritable": report.unwritable,
            "left": report.left,
            "foreign": report.foreign,
            "generation": report.generation,
            "raised": report.raised,
            "agrees": report.agrees,
            "seconds": report.seconds,
        }
    )


def _to_json(difference: Difference) -> dict[str, Any]:
    return {
        "key": difference.key.decode("utf-8", "backslashreplace"),
        "kind": difference.kind,
        "topic_version": difference.topic_version,
        "store_version": difference.store_version,
        "topic_release": difference.topic_release,
        "store_release": difference.store_release,
    }


def _print_people(report: Report) -> None:
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Table

    console = Console(highlight=False)
    count = len(report.differences)
    verdict = "[green]agrees[/]" if not count else f"[yellow]{count:,} differ[/]"
    console.print(f"{escape(report.route)}: {report.rows:,} rows, {verdict} ({report.seconds:.1f} s)")
    if count:
        table = Table("key", "what", "version in the topic", "version in the store")
        for difference in report.differences[:_SHOWN]:
            row = _to_json(difference)
            table.add_row(
                escape(visible(row["key"])),
                row["kind"],
                _stamp(row["topic_version"], row["topic_release"]),
                _stamp(row["store_version"], row["store_release"]),
            )
        console.print(table)
        if count > _SHOWN:
            console.print(f"... and {count - _SHOWN:,} more: --json names all")
    if report.raised is not None:
        done = f"it is {report.generation} now" if report.repaired else "--repair raises it"
        console.print(f"the generation: the topic {escape(report.raised)}; {done}")
    if report.repaired:
        console.print(f"repaired; {report.refused:,} rows were refused by the store" if report.refused else "repaired")
    if report.left:
        console.print(f"{report.left:,} rows are left as they are: {_why_left(report)}")
    if report.foreign:
        some = ", ".join(escape(visible(key.decode("utf-8", "backslashreplace"))) for key in report.some_foreign)
        more = ", ..." if report.foreign > len(report.some_foreign) else ""
        what = "rows have keys like the route's and no version: they are not the route's, and are never changed"
        console.print(f"{report.foreign:,} {what}: {some}{more}")
    if report.unwritable:
        console.print(f"{report.unwritable:,} records cannot become rows: see the DLQ")


def _why_left(report: Report) -> str:
    reasons = []
    if report.differences.count_of("newer"):
        reasons.append(
            "newer than what the topic still has, as when an older record came late; if the topic is right, "
            "--repair --raise-generation writes its rows"
        )
    if report.differences.count_of("unwritable"):
        reasons.append("the newest record of the key cannot become a row: see the DLQ")
    return "; ".join(reasons)


def _stamp(version: int | None, release: int) -> str:
    if version is None:
        return ""
    return f"{version} (release {release})" if release else str(version)
