"""`enrich package`: an archive that is an environment wherever it is unpacked, and never half of one."""

import json
import shutil
import subprocess
import tarfile
from functools import partial

import psutil
import pytest

import enrich.stage.spark.package
from enrich.base.errors import ConfigError
from enrich.stage.spark.package import package
from tests.support.commands import enrich as enrich_here
from tests.support.commands import lines
from tests.support.waiting import GUARD_S

LOOKS = """
import json, sys
import enrich, stores, polars, numba, rocksdict, psycopg, hiredis
import enrich.host.process.program, enrich.stage.worker.task, sync_service
import edge_service.ingest.program, edge_service.expel, edge_service.retrier, observe_service.program
from importlib.metadata import version
print(json.dumps({"prefix": sys.prefix, "files": [m.__file__ for m in (enrich, stores, polars, rocksdict)],
                  "version": version("enrich")}))
"""


@pytest.fixture(scope="module")
def unpacked(tmp_path_factory):
    """Where one is unpacked, and what was in it. Not compressed, which would take most of the time."""
    path = tmp_path_factory.mktemp("packed") / "environment.tar.gz"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(enrich.stage.spark.package, "package", partial(package, level=0))
        (told,) = lines(enrich_here("package", "-o", path, "--json"))
    assert told["bytes"] == path.stat().st_size
    place, members = path.parent / "else where", []
    with tarfile.open(path) as tar:
        for member in tar:
            members.append(member)
            tar.extract(member, place, filter="fully_trusted")
    path.unlink()
    return place, members


def test_it_runs_wherever_it_is_unpacked_and_of_itself_only(unpacked, tmp_path):
    place, _ = unpacked
    done = subprocess.run(
        [place / "bin" / "python", "-c", LOOKS],
        env={"PYTHONPATH": _sparks(tmp_path)},
        cwd="/",
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert told["prefix"] == str(place)
    assert all(file.startswith(f"{place}/lib/") for file in told["files"])
    assert told["version"] == "0.1.0"
    helped = subprocess.run(
        [place / "bin" / "enrich", "--version"], env={}, cwd="/", capture_output=True, text=True, check=False
    )
    assert helped.stdout == "enrich 0.1.0\n", helped.stderr


def _sparks(folder):
    """PySpark alone, as an executor has it."""
    import py4j
    import pyspark

    alone = folder / "spark"
    alone.mkdir()
    for module in (pyspark, py4j):
        (alone / module.__name__).symlink_to(module.__path__[0])
    return str(alone)


def test_what_was_there_stays_until_the_new_one_is_whole(tmp_path):
    target = tmp_path / "environment.tar.gz"
    target.write_bytes(b"the last one")

    def interrupted(done, whole):
        if done > 1 << 20:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        package(target, report=interrupted)
    assert target.read_bytes() == b"the last one"
    assert list(tmp_path.iterdir()) == [target]


def test_it_has_nothing_that_hadoop_would_not_unpack_and_nothing_that_nobody_needs(unpacked):
    _, members = unpacked
    names = {member.name for member in members}
    assert [member.name for member in members if not member.isfile()] == [], "links that lead out of it are refused"
    assert not [name for name in names if name.startswith(("/", "..")) or "/../" in name]
    assert not [name for name in names if "site-packages/pyspark/" in name or "site-packages/pytest/" in name]
    assert {member.uid for member in members} == {0}


@pytest.mark.parametrize(
    ("name", "python", "says"),
    [
        ("environment.zip", None, "must end in"),
        ("environment.tar", None, "must end in"),
        ("no/such/environment.tar.gz", None, "no such folder"),
        ("environment.tgz", "python3.11", "must be absolute"),
    ],
)
def test_what_cannot_be_is_refused_before_anything_is_written(tmp_path, name, python, says):
    with pytest.raises(ConfigError, match=says):
        package(tmp_path / name, python)
    assert list(tmp_path.iterdir()) == []


STARTS = """
import sys
from enrich.config import load
from enrich.host.reader.spawn import ensure_agent
sys.path.insert(0, "/folder/of/an/application")
print(ensure_agent(load(sys.argv[1])).pid)
"""


def test_an_agent_has_nothing_of_its_starters_path_and_ends_when_its_files_go(unpacked, stack, tmp_path):
    """The last one that needs the files."""
    (place, _), file = unpacked, tmp_path / "pipeline.yaml"
    file.write_text(
        f"name: packed\nkafka: {{bootstrap_servers: '{stack.bootstrap_servers}'}}\nstate_dir: {tmp_path / 'state'}\n"
        "tables: {users: {topic: users, format: string}}\n"
    )
    command = [place / "bin" / "python", "-c", STARTS, file]
    started = subprocess.run(command, env={}, cwd=tmp_path, capture_output=True, text=True, check=True)
    agent = psutil.Process(int(started.stdout))
    try:
        assert agent.exe().startswith(f"{place}/")
        assert "PYTHONPATH" not in agent.environ()
        shutil.rmtree(place)
        agent.wait(GUARD_S)
    finally:
        if agent.is_running():
            agent.kill()
    (log,) = (tmp_path / "state").rglob("agent.log")
    assert "the files that it runs from were deleted" in log.read_text()
