"""Replays steps of the Dockerfile without a container engine: its own COPY and RUN lines, in a folder of the test."""

import os
import shutil
import subprocess
from pathlib import Path

from tests.unit.deploy.dockerfile import Dockerfile, Instruction, Stage, parse_dockerfile
from tests.unit.deploy.ignoring import parse_ignoring
from tests.unit.deploy.installed import BIN, ROOT, read


def dockerfile() -> Dockerfile:
    return parse_dockerfile(read("Dockerfile"))


def run_with(stage: Stage, text: str) -> Instruction:
    """The one RUN of a stage in which this text stands."""
    (found,) = (run for run in stage.all("RUN") if text in run.text)
    return found


def copy_until(stage: Stage, run: Instruction, folder: Path) -> None:
    """Puts into the folder what the stage's COPY lines before this RUN put into its working directory."""
    ignoring = parse_ignoring(read(".dockerignore"))
    for copy in stage.instructions[: stage.instructions.index(run)]:
        if copy.keyword != "COPY" or "from" in copy.flags:
            continue
        for source in copy.sources:
            for path in ignoring.files_under(ROOT, source):
                # A folder's content goes into the target, a file below it by its name.
                inside = path.relative_to(source) if (ROOT / source).is_dir() else path.name
                target = folder / copy.target / inside
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(ROOT / path, target)


def execute(command: str, folder: Path) -> None:
    """Runs a command line in the folder as the builder's shell would, with the project's own Python."""
    environment = {**os.environ, **dockerfile().stage("base").environment, "PATH": f"{BIN}:{os.environ['PATH']}"}
    done = subprocess.run(  # noqa: S602 - a line of the Dockerfile
        command, shell=True, cwd=folder, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
