"""`enrich package`: makes the archive with which a cluster's executors get this environment."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer

from enrich.base.json_lines import print_json


def package(
    output: Annotated[Path, typer.Option("--output", "-o", help="The archive: NAME.tar.gz or NAME.tgz.")] = Path(
        "environment.tar.gz"
    ),
    python: Annotated[
        str | None,
        typer.Option(help="Path of this version's interpreter on the hosts; by default the path on this host."),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object.")] = False,
) -> None:
    """Packs this environment for Spark's --archives: enrich and all packages that it needs.

    Example: enrich package -o environment.tar.gz
    """
    from enrich.stage.spark.package import package as pack

    with _bar() as report:
        packed = pack(output, python, report)
    size = packed.path.stat().st_size
    if as_json:
        print_json(
            {
                "path": str(packed.path.absolute()),
                "bytes": size,
                "files": packed.files,
                "packages": packed.packages,
                "python": packed.python,
            }
        )
        return
    typer.echo(f"{packed.path}: {packed.packages} packages, {packed.files} files, {size / 1e6:.0f} MB")
    typer.echo(f"every host needs this version of Python at {packed.python}")
    typer.echo(
        f"use it: PYSPARK_PYTHON=./environment/bin/python enrich run STAGE -c FILE --master ... "
        f"--conf spark.archives={packed.path}#environment"
    )


@contextmanager
def _bar() -> Iterator[Callable[[int, int], None]]:
    if not sys.stderr.isatty():
        yield lambda _done, _all: None
        return
    from rich import progress
    from rich.console import Console

    columns = (
        progress.TextColumn("packing"),
        progress.BarColumn(),
        progress.DownloadColumn(),
        progress.TimeRemainingColumn(),
    )
    with progress.Progress(*columns, console=Console(stderr=True), transient=True) as drawn:
        task = drawn.add_task("", total=None)
        yield lambda done, whole: drawn.update(task, completed=done, total=whole)
