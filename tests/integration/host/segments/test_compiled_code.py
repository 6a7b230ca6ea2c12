"""Compiled loops are kept for a user who may write neither the source nor a home, and never taken from strangers."""

import ctypes
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import stores.segments
from enrich.host.mirror import compiled_code
from enrich.host.mirror.compiled_code import keep_compiled_code
from tests.support.stores.directories import fast_directory

SOURCE = Path(stores.segments.__file__).parent
PROGRAM = """
import sys
from enrich.host.mirror import compiled_code
from enrich.host.mirror.compiled_code import keep_compiled_code
keep_compiled_code(sys.argv[1])
from stores.segments import are_loops_kept
from stores.segments.loops import hashing
assert hashing.hash_keys._cache.cache_path.startswith(sys.argv[1]), hashing.hash_keys._cache.cache_path
sys.exit(0 if are_loops_kept() else 3)
"""
_PR_CAPBSET_DROP = 24
_CAP_DAC_OVERRIDE = 1


@pytest.fixture
def state_dir():
    with fast_directory() as directory:
        yield directory


def bound_by_permissions():
    """Root, too, may then write only where the permissions allow it."""
    if os.geteuid() == 0 and ctypes.CDLL(None).prctl(_PR_CAPBSET_DROP, _CAP_DAC_OVERRIDE, 0, 0, 0):
        os._exit(4)


def run_in_image(state_dir, source):
    """As one who may read the installed packages, which stand compiled beside their source, and write the state."""
    packages = [str(source), *(path for path in sys.path if path.endswith("-packages"))]
    return subprocess.run(
        [sys.executable, "-c", PROGRAM, str(state_dir / "state")],
        env={"PATH": os.environ["PATH"], "HOME": "/nonexistent", "PYTHONPATH": os.pathsep.join(packages)},
        preexec_fn=bound_by_permissions,
        cwd="/",
        capture_output=True,
        text=True,
        check=False,
    )


def test_who_may_write_neither_source_nor_home_takes_over_what_the_image_was_built_with(state_dir):
    if not stores.segments.are_loops_kept():
        stores.segments.compile_loops()
    with fast_directory() as installed:
        for package in ("stores", "enrich"):
            shutil.copytree(SOURCE.parent.parent / package, installed / package)
        folder = installed / "stores" / "segments"
        folders = [installed, folder, *(one for one in folder.rglob("*") if one.is_dir())]
        for one in folders:
            one.chmod(0o555)
        done = run_in_image(state_dir, installed)
        for one in folders:
            one.chmod(0o755)
    assert done.returncode == 0, done.stderr


def test_the_rooms_that_are_looked_at_are_those_with_compiled_loops():
    with_loops = {
        path.relative_to(SOURCE).parts[0] for path in SOURCE.rglob("*.py") if "\n@compiled" in path.read_text()
    }
    assert with_loops == set(compiled_code._ROOMS)


def test_what_others_can_write_is_not_run(state_dir, monkeypatch):
    monkeypatch.delenv("NUMBA_CACHE_DIR", raising=False)
    monkeypatch.setattr("enrich.host.mirror.compiled_code._can_write_beside_source", lambda: False)
    (state_dir / ".compiled").mkdir()
    (state_dir / ".compiled").chmod(0o777)
    keep_compiled_code(str(state_dir))
    assert "NUMBA_CACHE_DIR" not in os.environ
    (state_dir / ".compiled").chmod(0o700)
    monkeypatch.setenv("NUMBA_CACHE_DIR", "/elsewhere")
    keep_compiled_code(str(state_dir))
    assert os.environ["NUMBA_CACHE_DIR"] == "/elsewhere"
