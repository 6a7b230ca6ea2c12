"""The Dockerfile can be built from this repository, and the image starts what exists."""

from pathlib import PurePosixPath

import pytest

from tests.unit.deploy.dockerfile import parse_dockerfile
from tests.unit.deploy.dockerfile_checks import CHECKS, copy_problems
from tests.unit.deploy.ignoring import parse_ignoring
from tests.unit.deploy.installed import ROOT, read

TEXT = read("Dockerfile")
IGNORING = parse_ignoring(read(".dockerignore"))


def problems(text):
    file = parse_dockerfile(text)
    return [*copy_problems(file, IGNORING), *(problem for check in CHECKS for problem in check(file))]


def changed(old, new):
    assert old in TEXT
    return TEXT.replace(old, new)


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
def test_the_file_holds_nothing_that_does_not_exist(check):
    assert check(parse_dockerfile(TEXT)) == []


def test_everything_it_copies_is_in_the_repository_and_not_ignored():
    assert copy_problems(parse_dockerfile(TEXT), IGNORING) == []


@pytest.mark.parametrize(
    ("old", "new", "problem"),
    [
        ("COPY jobs jobs", "COPY job jobs", "no such file or folder: job"),
        ("COPY jobs jobs", "COPY tests tests", ".dockerignore leaves out tests"),
        ("--from=packages", "--from=package", "no earlier stage is called package"),
        ("COPY requirements.lock ./", "COPY requirements.txt ./", "requirements.lock was not copied"),
        ("COPY requirements.lock ./", "COPY requirements.txt ./", "no such file or folder: requirements.txt"),
        ("-r requirements-build.lock", "-r requirements-other.lock", "requirements-other.lock was not copied"),
        ("--require-hashes -r requirements.lock", "-r requirements.lock", "without hashes"),
        ("pip install --no-deps", "pip install", "neither from a lock file nor without dependencies"),
    ],
)
def test_a_source_that_cannot_be_had_is_found(old, new, problem):
    assert any(problem in found for found in problems(changed(old, new)))


@pytest.mark.parametrize(
    ("old", "new", "problem"),
    [
        ("python:3.11.15-slim-bookworm", "python:3-slim", "the base is not pinned to a patch version: python:3-slim"),
        ("python:3.11.15", "python:3.10.19", "older than the oldest Python that we support"),
        ("python:3.11.15", "python:3.12.12", "a path of Python 3.11 on python:3.12.12-slim-bookworm"),
        ("slim-bookworm", "slim-trixie", "no Java 17 on python:3.11.15-slim-trixie"),
        ("USER 10001\n", "", "the image runs as root"),
        ("USER 10001", "USER root", "the image runs as root"),
        ("USER 10001", "USER 10002", "there is no user 10002"),
        ("USER 10001", "USER 10001\nRUN mkdir /more", "something needs root after USER"),
        ("STOPSIGNAL SIGTERM", "STOPSIGNAL SIGKILL", "our programs drain on SIGTERM, not on SIGKILL"),
        ('CMD ["enrich", "--help"]', 'CMD ["enriched", "--help"]', "no such program in the image: enriched"),
        ('CMD ["enrich", "--help"]', "CMD enrich --help", "not in exec form"),
        ("CMD [", "HEALTHCHECK CMD true\nCMD [", "a HEALTHCHECK in an image whose command varies"),
        ("SPARK_CONF_DIR", "SPARK_CONFIG_DIR", "nobody reads SPARK_CONFIG_DIR"),
        ("PYSPARK_PYTHON=", "ENRICH_PYTHON=", "nobody reads ENRICH_PYTHON"),
    ],
)
def test_an_image_that_would_not_run_is_found(old, new, problem):
    assert any(problem in found for found in problems(changed(old, new)))


def test_no_history_no_local_state_and_no_secret_reaches_the_builder():
    never = [".git/config", ".env", ".venv/bin/python", ".enrich-dev/x", "state/x", "tests/conftest.py", "bench/x.py"]
    assert [path for path in never if not IGNORING.leaves_out(PurePosixPath(path))] == []


def test_compiled_python_of_this_machine_does_not_reach_the_builder():
    files = [path for room in ("enrich", "stores") for path in IGNORING.files_under(ROOT, room)]
    assert files
    assert [path for path in files if "__pycache__" in path.parts] == []


@pytest.mark.parametrize(
    ("path", "left_out"),
    [("a/x", True), ("b/x", False), ("b/c/x", True), ("b/c/d/x", False), ("b/e/__pycache__/x", True), ("x.md", True)],
)
def test_of_the_patterns_that_match_the_last_one_decides(path, left_out):
    ignoring = parse_ignoring("# comment\n*\n!b\nb/c/\n!b/c/d\n**/__pycache__\n")
    assert ignoring.leaves_out(PurePosixPath(path)) is left_out


def test_a_dockerfile_is_read_as_stages_of_instructions():
    file = parse_dockerfile(
        "# comment\nFROM one:1 AS base\nENV A=1 \\\n    # why\n    B=2\n"
        "FROM base\nCOPY --from=base /x /y\nRUN a 'b c' && d\n"
    )
    copy, run = file.final.instructions
    assert file.final_environment() == {"A": "1", "B": "2"}
    assert file.outer_image(file.final) == "one:1"
    assert (copy.flags, copy.sources, copy.target) == ({"from": "base"}, ("/x",), "/y")
    assert run.steps == (("a", "b c"), ("d",))
