"""What must hold of the Dockerfile. Each check returns the problems it found, in words."""

import re
from collections.abc import Callable

from tests.unit.deploy.commands import command_problems
from tests.unit.deploy.compose_checks import is_read
from tests.unit.deploy.dockerfile import Dockerfile, Instruction, Stage
from tests.unit.deploy.ignoring import Ignoring
from tests.unit.deploy.installed import ROOT, project

_OF_PYTHON_AND_PIP = {"PATH", "PIP_DISABLE_PIP_VERSION_CHECK", "PIP_NO_CACHE_DIR", "PYTHONUNBUFFERED"}
_PYTHON_IMAGE = re.compile(r"python:(?P<minor>\d+\.\d+)\.\d+-slim-(?P<debian>[a-z]+)")
_JAVA_OF_DEBIAN = {"bookworm": {17}, "trixie": {21, 25}}  # what its package lists offer
_OLDEST_JAVA = 17


def base_problems(file: Dockerfile) -> list[str]:
    """Bases that are not pinned, and what the stages take for granted about theirs."""
    problems = []
    for stage in file.stages:
        image = file.outer_image(stage)
        match = _PYTHON_IMAGE.fullmatch(image)
        if match is None:
            problems.append(f"the base is not pinned to a patch version: {image}")
            continue
        oldest = project()["requires-python"].removeprefix(">=")
        if _version(match["minor"]) < _version(oldest):
            problems.append(f"{image} is older than the oldest Python that we support, {oldest}")
        text = " ".join(one.text for one in stage.instructions)
        problems += [
            f"a path of Python {minor} on {image}"
            for minor in re.findall(r"lib/python(\d+\.\d+)/", text)
            if minor != match["minor"]
        ]
        problems += [
            f"no Java {java} on {image}, or it is too old"
            for java in map(int, re.findall(r"openjdk-(\d+)-", text))
            if java not in _JAVA_OF_DEBIAN[match["debian"]] or java < _OLDEST_JAVA
        ]
    return problems


def copy_problems(file: Dockerfile, ignoring: Ignoring) -> list[str]:
    """Sources that do not exist, that .dockerignore leaves out, or that come from a stage which comes later."""
    problems = []
    earlier: list[str] = []
    for stage in file.stages:
        for copy in stage.all("COPY"):
            if "from" in copy.flags:
                if copy.flags["from"] not in earlier:
                    problems.append(f"no earlier stage is called {copy.flags['from']}")
                continue
            for source in copy.sources:
                if not (ROOT / source).exists():
                    problems.append(f"no such file or folder: {source}")
                elif not ignoring.files_under(ROOT, source):
                    problems.append(f".dockerignore leaves out {source}")
        earlier.append(stage.name)
    return problems


def install_problems(file: Dockerfile) -> list[str]:
    """Packages that are installed without a lock file, or from one that is not there."""
    problems = []
    for stage in file.stages:
        present = {source for one in file.line_of(stage) for copy in one.all("COPY") for source in copy.sources}
        for run in stage.all("RUN"):
            present |= set(re.findall(r"> (\S+\.lock)", run.text))
            for step in run.steps:
                if step[:2] in (("pip", "install"), ("pip", "wheel")):
                    problems += _pip_problems(step, present)
    return problems


def _pip_problems(step: tuple[str, ...], present: set[str]) -> list[str]:
    text = " ".join(step)
    if "-r" in step:
        lock = step[step.index("-r") + 1]
        problems = [] if lock in present else [f"{lock} was not copied: {text}"]
        return problems if "--require-hashes" in step else [*problems, f"without hashes: {text}"]
    # What comes from no lock file is our own, and brings nothing along.
    return [] if "--no-deps" in step else [f"neither from a lock file nor without dependencies: {text}"]


def final_stage_problems(file: Dockerfile) -> list[str]:
    stage = file.final
    user = stage.last("USER")
    problems = []
    if user is None or user.text in ("root", "0"):
        problems.append("the image runs as root")
    elif stage.instructions.index(user) < max(map(stage.instructions.index, _as_root(stage)), default=0):
        problems.append("something needs root after USER")
    elif user.text.isdigit() and f"--uid {user.text} " not in " ".join(run.text for run in stage.all("RUN")):
        problems.append(f"there is no user {user.text}: Spark asks for its name")
    if (signal := stage.last("STOPSIGNAL")) is not None and signal.text != "SIGTERM":
        problems.append(f"our programs drain on SIGTERM, not on {signal.text}")
    for keyword in ("CMD", "ENTRYPOINT"):
        if (start := stage.last(keyword)) is not None:
            problems += _start_problems(start)
    if "-dev.lock" in " ".join(one.text for one in stage.instructions):
        problems.append("tools of development are in the image")
    return problems


def _as_root(stage: Stage) -> list[Instruction]:
    return [*stage.all("RUN"), *stage.all("COPY")]


def _start_problems(start: Instruction) -> list[str]:
    return command_problems(start.words if start.is_exec_form else (start.text,))


def environment_problems(file: Dockerfile) -> list[str]:
    return [
        f"nobody reads {variable}"
        for stage in file.stages
        for variable in stage.environment
        if not is_read(variable, _OF_PYTHON_AND_PIP)
    ]


def health_problems(file: Dockerfile) -> list[str]:
    """One image runs several programs: no check of health is right for all of them."""
    return ["a HEALTHCHECK in an image whose command varies" for stage in file.stages if stage.all("HEALTHCHECK")]


def _version(text: str) -> tuple[int, ...]:
    return tuple(map(int, text.split(".")))


CHECKS: tuple[Callable[[Dockerfile], list[str]], ...] = (
    base_problems,
    install_problems,
    final_stage_problems,
    environment_problems,
    health_problems,
)
