"""Which of two copies of PySpark a Python worker imports: that of Spark or the installed one."""

import sys
import zipfile
from contextlib import suppress
from importlib.machinery import PathFinder
from pathlib import Path

_VERSION = "version.py"


def prefer_installed() -> None:
    """Spark lets its workers find its own zips first, and a jar. What a zip holds is compiled anew at each start, and
    each worker reads the lists of all their files again. An installed PySpark of the same version has neither."""
    zips = [entry for entry in sys.path if _is_sparks(Path(entry))]
    others = [entry for entry in sys.path if entry not in zips]
    if all(_is_installed(Path(entry), others) for entry in zips):
        sys.path[:] = others
        for entry in zips:
            sys.path_importer_cache.pop(entry, None)


def _is_sparks(entry: Path) -> bool:
    name = entry.name
    return name == "pyspark.zip" or (name.startswith("py4j-") and name.endswith(".zip")) or _is_jar(entry)


def _is_jar(entry: Path) -> bool:
    """It holds no Python. Spark names it because it did once."""
    return entry.name.startswith("spark-core_") and entry.suffix == ".jar"


def _is_installed(entry: Path, others: list[str]) -> bool:
    """With the same version, in one of the others."""
    if _is_jar(entry):
        return True
    package = entry.name.partition(".")[0].partition("-")[0]
    found = PathFinder.find_spec(package, others)
    if found is None or not found.submodule_search_locations:
        return False
    with suppress(OSError, KeyError, zipfile.BadZipFile), zipfile.ZipFile(entry) as archive:
        installed = Path(found.submodule_search_locations[0], _VERSION).read_bytes()
        return archive.read(f"{package}/{_VERSION}") == installed
    return False
