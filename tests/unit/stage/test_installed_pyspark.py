"""Of Spark's zips and an installed PySpark of the same version workers take what is installed: it is compiled."""

import os
import subprocess
import sys
import zipfile
from pathlib import Path
from types import ModuleType

import py4j
import pyspark
import pytest

ROOT = Path(__file__).parents[3]
PROGRAM = """
from enrich.stage.spark.installed import prefer_installed
prefer_installed()
import importlib, sys, zipimport
import py4j, pyspark
importlib.invalidate_caches()
zips = [name for name, finder in sys.path_importer_cache.items() if isinstance(finder, zipimport.zipimporter)]
print(pyspark.__file__, py4j.__file__, *zips, sep="\\n")
"""


def zipped(folder: Path, version: str) -> list[Path]:
    """What Spark puts first, with a PySpark of this version."""
    versions = {"pyspark.zip": version, "py4j-0.10.9.9-src.zip": version_of(py4j), "spark-core_2.13-4.2.0.jar": ""}
    for name, text in versions.items():
        with zipfile.ZipFile(folder / name, "w") as archive:
            package = name.partition("-")[0].partition(".")[0]
            archive.writestr(f"{package}/__init__.py", "")
            archive.writestr(f"{package}/version.py", text)
    return [folder / name for name in versions]


def version_of(package: ModuleType) -> str:
    return Path(str(package.__file__)).with_name("version.py").read_text()


def imported(*first: Path) -> tuple[str, str, set[str]]:
    """The files of `pyspark` and `py4j`, and the zips that stay on the path."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(map(str, first)), "PYTHONSAFEPATH": "1"}
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], env=environment, cwd=ROOT, capture_output=True, text=True, check=True
    )
    spark, bridge, *zips = done.stdout.splitlines()
    return spark, bridge, set(zips)


def test_the_installed_one_of_the_same_version_is_imported_and_no_zip_is_read_again(tmp_path):
    places = zipped(tmp_path, version_of(pyspark))
    spark, bridge, zips = imported(*places)
    assert spark == pyspark.__file__
    assert not bridge.startswith(str(tmp_path))
    assert not zips & set(map(str, places))


@pytest.mark.parametrize("version", ['__version__: str = "3.5.0"\n', ""])
def test_of_another_version_that_of_spark_is(tmp_path, version):
    places = zipped(tmp_path, version)
    spark, bridge, _ = imported(*places)
    assert spark == str(places[0] / "pyspark" / "__init__.py")
    assert bridge == str(places[1] / "py4j" / "__init__.py")


def test_a_zip_that_is_not_there_is_no_trouble(tmp_path):
    spark, _, _ = imported(tmp_path / "pyspark.zip")
    assert spark == pyspark.__file__
