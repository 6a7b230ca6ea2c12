"""`enrich masks`: which mask each column has that a stage can see."""

from typing import TYPE_CHECKING, Annotated

import typer

from enrich.base.exits import DIFFERENCE
from enrich.base.json_lines import print_json
from enrich.cli.options import KAFKA_S, ConfigFile, JsonLines, KafkaDeadline
from enrich.cli.output import counting

if TYPE_CHECKING:
    from collections.abc import Sequence

    from enrich.admin.masked import ColumnMask

app = typer.Typer(no_args_is_help=True, help="See what stages see of each column.")


@app.callback()
def masks() -> None:
    """A group, although it has one command."""


@app.command()
def check(
    config: ConfigFile,
    records: Annotated[
        int, typer.Option(help="How many of the newest records of each topic in JSON to look at.", min=0)
    ] = 10_000,
    json: JsonLines = False,
    deadline: KafkaDeadline = KAFKA_S,
) -> None:
    """Lists every column of the topics and tables that stages read, with its mask; exits with 1 if one is unclassified.

    Columns are those that the file declares, those of the registry's newest schema, and in JSON those that the newest
    records have. Example: enrich masks check -c pipeline.yaml
    """
    from enrich.admin.cluster import Cluster
    from enrich.admin.masked import column_masks
    from enrich.config import load

    pipeline = load(config)
    with counting("masks") as report:
        found = list(column_masks(pipeline, Cluster(pipeline.kafka, deadline), records, report))
    if json:
        for each in found:
            print_json({"topic": each.topic, "column": each.column, "mask": each.mask, "by": each.by})
    else:
        _show(found)
    if any(each.by is None for each in found):
        raise typer.Exit(DIFFERENCE)


def _show(found: "Sequence[ColumnMask]") -> None:
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Table

    shown = Table("topic or table", "column", "mask", "says who")
    before = None
    for each in found:
        by = "[yellow]nobody: the default[/]" if each.by is None else escape(each.by)
        mask = f"[yellow]{each.mask}[/]" if each.by is None else each.mask
        if before not in (None, each.topic):
            shown.add_section()
        shown.add_row(escape(each.topic) if each.topic != before else "", escape(each.column), mask, by)
        before = each.topic
    console = Console()
    console.print(shown)
    unknown = sum(each.by is None for each in found)
    console.print(f"{len(found)} columns, {unknown} of them unclassified", highlight=False)
