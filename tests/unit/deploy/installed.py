"""What really exists: programs and modules of the locked packages, classes and constants in Spark's jars, our code."""

import re
import sys
import tomllib
import zipfile
from functools import cache
from importlib.metadata import distribution
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from packaging.markers import Marker

ROOT = Path(__file__).parents[3]
BIN = Path(sys.executable).parent
OUR_ROOMS = ("edge_service", "enrich", "observe_service", "stores", "sync_service", "jobs")

_LOCKED = re.compile(r"^([\w.-]+)==(\S+)(?: ; (.+?))? \\$", re.M)


def read(path: str) -> str:
    return (ROOT / path).read_text(encoding="utf-8")


@cache
def project() -> dict[str, Any]:
    found: dict[str, Any] = tomllib.loads(read("pyproject.toml"))["project"]
    return found


def locked(text: str) -> dict[str, str]:
    """Name and version of each package in a lock file; those for other systems left out."""
    return {name: version for name, version, marker in _LOCKED.findall(text) if not marker or Marker(marker).evaluate()}


@cache
def scripts_of_the_image() -> frozenset[str]:
    """The programs that the locked run-time packages and our own package put beside Python."""
    of_packages = {
        path.name
        for name in locked(read("requirements.lock"))
        for path in distribution(name).files or ()
        if path.parent.name == "bin" and ".." in path.parts and (BIN / path.name).is_file()
    }
    return frozenset(of_packages | project()["scripts"].keys())


def has_module(name: str) -> bool:
    try:
        return find_spec(name) is not None
    except ModuleNotFoundError:
        return False


@cache
def pyspark_folder() -> Path:
    spec = find_spec("pyspark")
    assert spec is not None
    assert spec.origin is not None
    return Path(spec.origin).parent


@cache
def _spark_core() -> zipfile.ZipFile:
    (jar,) = (pyspark_folder() / "jars").glob("spark-core_*.jar")
    return zipfile.ZipFile(jar)


@cache
def _spark_launcher() -> zipfile.ZipFile:
    (jar,) = (pyspark_folder() / "jars").glob("spark-launcher_*.jar")
    return zipfile.ZipFile(jar)


def spark_has_class(name: str) -> bool:
    return f"{name.replace('.', '/')}.class" in _spark_core().namelist()


def spark_class_knows(name: str, text: str) -> bool:
    """Whether exactly this text is a constant of the class."""
    return _is_constant(text, _spark_core().read(f"{name.replace('.', '/')}.class"))


@cache
def spark_knows(text: str) -> bool:
    """Whether Spark's own scripts or classes use exactly this text."""
    scripts = (path for folder in ("bin", "sbin") for path in (pyspark_folder() / folder).glob("*.sh"))
    scripts_without_ending = (pyspark_folder() / "bin" / name for name in ("spark-class", "spark-submit", "pyspark"))
    word = re.compile(rf"\b{re.escape(text)}\b")
    if any(word.search(path.read_text(encoding="utf-8")) for path in (*scripts, *scripts_without_ending)):
        return True
    return any(
        _is_constant(text, jar.read(entry))
        for jar in (_spark_launcher(), _spark_core())
        for entry in jar.namelist()
        if entry.endswith(".class")
    )


def _is_constant(text: str, of_class: bytes) -> bool:
    # A text in a class file: the tag 1, its length in two bytes, itself.
    encoded = text.encode()
    return b"\x01" + len(encoded).to_bytes(2, "big") + encoded in of_class


@cache
def our_code_knows(name: str) -> bool:
    """Whether our code has this text as a string of its own."""
    word = re.compile(rf"[\"']{re.escape(name)}[\"']")
    return any(
        word.search(path.read_text(encoding="utf-8")) for room in OUR_ROOMS for path in (ROOT / room).rglob("*.py")
    )


def locked_jars(set_name: str) -> dict[str, str]:
    """Name and version of each Java archive of a set of the lock."""
    lines = (line.split() for line in read("enrich/jars/jars.lock").splitlines() if not line.startswith("#"))
    coordinates = (line[2].split(":") for line in lines if line and line[1] == set_name)
    return {parts[1]: parts[2] for parts in coordinates}
