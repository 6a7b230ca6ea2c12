"""`enrich stop`: drains a stage that runs elsewhere, by a marker in its checkpoint."""

import time
from typing import TYPE_CHECKING, Annotated

import typer

from enrich.cli.options import ConfigFile

if TYPE_CHECKING:
    from enrich.stage.progress.checkpoint import Checkpoint

_LOOK_EVERY_S = 0.1


def stop(
    stage: Annotated[str, typer.Argument(metavar="STAGE", help="The stage, by its name under `stages`.")],
    config: ConfigFile,
    deadline: Annotated[
        float, typer.Option(metavar="SECONDS", help="Seconds to wait until the stage has ended.")
    ] = 120.0,
    conf: Annotated[
        list[str] | None,
        typer.Option("--conf", metavar="NAME=VALUE", help="A setting for Spark, as for the checkpoint's file system."),
    ] = None,
) -> None:
    """Lets a stage finish its batch and end, wherever its driver runs. Returns once it has drained.

    Example: enrich stop enrich -c pipeline.yaml
    """
    from enrich.base.errors import ConfigError, Unreachable
    from enrich.config import load
    from enrich.stage.progress.checkpoint import Checkpoint
    from enrich.stage.progress.owner import NAME, require_own
    from enrich.stage.run.stopping import request_stop, require_drained
    from enrich.stage.spark.profiles import file_settings
    from enrich.stage.spark.session import command_session
    from enrich.stage.spark.spark_settings import parse_settings

    pipeline = load(config)
    if stage not in pipeline.stages:
        raise ConfigError(f"there is no stage `{stage}`", next_step=f"choose from {', '.join(pipeline.stages)}")
    where = pipeline.stages[stage].checkpoint
    # The stage's own settings: without them a checkpoint on an object store would not be found.
    settings = {**file_settings(pipeline.stages[stage]), **parse_settings(conf or []), "spark.master": "local[1]"}
    with command_session("enrich stop", master="local[1]", settings=settings) as spark:
        checkpoint = Checkpoint(spark, where)
        require_own(checkpoint, pipeline.name, stage)
        told = f"the stage {stage} is asked to end; waits {deadline:g} s at most until it has drained"
        if checkpoint.read(NAME) is None and not checkpoint.has_progress():
            # One that starts for the first time may still load its tables: it heeds the marker, so this is no error.
            told = (
                f"no driver of the stage {stage} has begun in {checkpoint.where} so far; waits {deadline:g} s for one "
                "that starts. A relative checkpoint is looked for in the folder where `enrich stop` runs"
            )
        request_stop(checkpoint)
        typer.echo(told, err=True)
        if not _has_ended(checkpoint, deadline):
            checkpoint.forget_stop()
            raise Unreachable(
                f"the stage {stage} did not end within {deadline:g} s, if it runs at all",
                where=where,
                next_step="check its log; if batches are long, raise --deadline",
            )
        require_drained(checkpoint)
    typer.echo(f"the stage {stage} has drained")


def _has_ended(checkpoint: "Checkpoint", deadline_s: float) -> bool:
    end = time.monotonic() + deadline_s
    while checkpoint.is_stop_requested():
        if time.monotonic() > end:
            return False
        time.sleep(_LOOK_EVERY_S)
    return True
